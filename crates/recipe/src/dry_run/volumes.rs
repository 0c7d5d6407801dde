//! What a run keeps on disks and in the learner's host memory: the sizes of volumes and limits of memory.

use anyhow::Result;
use evenkeel_learner::{CpuMemoryPlan, LargestBatch, MemoryPlan};
use evenkeel_model::Config;
use serde::Serialize;

use super::cost::{disk, written_out_head};
use super::memory::{PROGRAM, batch_of_samples};
use super::model::{parameters, trained};
use crate::recipe::Recipe;

/// Beside a GPU, host memory of the program, the driver and its libraries, and of files while they are read and written: an estimate.
const BESIDE_GPU: u64 = 4 << 30;

/// Bytes on disks and in host memory at their most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Volumes {
    /// Checkpoints that exist at once; absent where all are kept.
    pub(super) checkpoints: Option<u64>,
    /// Published weights that exist at once, with the head that is written out for vLLM; absent where all are kept.
    pub(super) weights: Option<u64>,
    /// Two versions, which an agent of weights keeps.
    pub(super) copies: u64,
    /// The copy with its head written out that vLLM starts from, if its numbers are those of fp32.
    pub(super) start: u64,
    /// Rollouts in the run directory.
    pub(super) rollouts: u64,
    /// Host memory of the learner. On a GPU it has the samples of a step, and moments where `optimizer.moments` is
    /// `host`.
    pub(super) host: u64,
}

impl Volumes {
    /// Volumes of a recipe whose longest sequence has `longest` tokens.
    ///
    /// # Errors
    /// A sequence that is longer than the model's context, adapters that the model cannot have.
    pub(super) fn of(recipe: &Recipe, config: &Config, longest: u64) -> Result<Self> {
        let disk = disk(recipe, config);
        let head = written_out_head(recipe, config);
        let written_out = head.map_or(0, |_| parameters(config) + (config.vocab_size * config.hidden_size) as u64);
        let tokens = usize::try_from(longest).unwrap_or(usize::MAX);
        let learner = &recipe.learner;
        let training = if learner.compute.device == "cpu" {
            let count = usize::try_from(trained(learner, config)).unwrap_or(usize::MAX);
            let gradients = learner.compute.gradients_at_once(count, None);
            let batch = LargestBatch::of(learner, tokens, tokens);
            let plan = CpuMemoryPlan::of(config, learner, batch, gradients)?;
            plan.parts.iter().map(|part| part.bytes).sum::<u64>() + PROGRAM
        } else {
            MemoryPlan::of(config, learner, tokens)?.host_total() + BESIDE_GPU
        };
        Ok(Self {
            checkpoints: disk.checkpoints.map(|count| count * disk.checkpoint),
            weights: disk.versions.map(|count| count * disk.published),
            copies: 2 * disk.published,
            start: 4 * written_out,
            rollouts: disk.rollouts,
            host: batch_of_samples(recipe, longest).bytes + training,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::flops::shapes::{large, small};
    use super::*;

    /// The recipes that overlays and components of deploy/kubernetes name.
    fn deployed() -> [(&'static str, Config); 3] {
        let recipe = crate::recipe::load(&["arithmetic".to_owned()], &[]).unwrap().settings;
        [
            ("arithmetic", recipe.fresh_model().config()),
            ("paper/qwen3-1.7b-dapo-balanced", small()),
            ("paper/qwen2.5-math-7b-dapo-balanced", large()),
        ]
    }

    fn volumes(name: &str, config: &Config) -> Volumes {
        let recipe = crate::recipe::load(&[name.to_owned()], &[]).unwrap().settings;
        let longest = u64::from(recipe.sampling.max_tokens);
        Volumes::of(&recipe, config, longest).unwrap()
    }

    #[test]
    fn three_checkpoints_and_the_best_one_exist_at_once_and_host_memory_has_the_moments() {
        let of_large = volumes("paper/qwen2.5-math-7b-dapo-balanced", &large());
        let count = 7_615_616_512;
        assert_eq!(of_large.checkpoints, Some(4 * 12 * count));
        assert_eq!((of_large.weights, of_large.copies, of_large.start), (Some(4 * 2 * count), 2 * 2 * count, 0));
        assert!(of_large.host > 16 * count, "page-locked moments, and those before the step");
        let of_small = volumes("paper/qwen3-1.7b-dapo-balanced", &small());
        let head = 151_936 * 2048;
        assert_eq!(of_small.copies, 2 * 2 * (1_720_574_976 + head), "vLLM's have the tied head written out");
        assert!(of_small.host < 8 << 30, "its moments are on the GPU");
    }

    /// The manifests are held to this file by .ci/kubernetes.py.
    #[test]
    fn the_sizes_that_manifests_are_held_to_are_these() {
        let gib = |bytes: u64| bytes.div_ceil(1 << 30);
        let mut text =
            "# GiB that a recipe takes at its most, rounded up: .ci/kubernetes.py holds every overlay to them. \
                        Written by\n# EVENKEEL_GENERATE=1 cargo test --release -p evenkeel-recipe volumes\n"
                .to_owned();
        for (name, config) in deployed() {
            let Volumes { checkpoints, weights, copies, start, rollouts, host } = volumes(name, &config);
            let [checkpoints, weights] = [checkpoints, weights].map(|kept| gib(kept.expect("not all are kept")));
            text += &format!(
                "{name}: {{ checkpoints: {checkpoints}, weights: {weights}, copies: {}, start: {}, rollouts: {}, host: {} }}\n",
                gib(copies),
                gib(start),
                gib(rollouts),
                gib(host)
            );
        }
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/kubernetes/sizes.yaml");
        if std::env::var_os("EVENKEEL_GENERATE").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        assert_eq!(std::fs::read_to_string(path).unwrap(), text, "written anew by EVENKEEL_GENERATE=1");
    }
}
