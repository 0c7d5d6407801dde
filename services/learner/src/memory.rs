//! What training takes of a GPU's memory, computed before it begins.

use std::fmt;

use evenkeel_model::kernels::cuda::Chip;
use evenkeel_model::{Config, count_pass, parameter_specs};

use crate::error::{LearnerError, Result};
use crate::settings::LearnerSettings;

/// Memory of the driver, of CUDA's libraries and of their kernels: an estimate.
const LIBRARIES: u64 = 1 << 30;
/// Of activations and workspace: what is lost between blocks of the pool, an estimate.
const LOST_SHARE: u64 = 20;
/// An H200's. More or fewer change the workspace by little.
const CHIP: Chip = Chip { multiprocessors: 132 };

/// A part of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryPart {
    /// What it holds.
    pub what: &'static str,
    /// Its bytes.
    pub bytes: u64,
}

/// The memory of a learner at its peak.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryPlan {
    /// Its parts, all of them at a time.
    pub parts: Vec<MemoryPart>,
}

impl MemoryPlan {
    /// For micro-batches that are full of sequences of `longest` tokens. The pass is counted through the learner's own code on a device that
    /// computes nothing.
    ///
    /// # Errors
    /// No tokens, or more than the model's context.
    pub fn of(config: &Config, settings: &LearnerSettings, longest: usize) -> Result<Self> {
        let compute = &settings.compute;
        if longest == 0 || longest > config.max_position_embeddings {
            let allowed = format!("1 to max_position_embeddings = {}", config.max_position_embeddings);
            return Err(LearnerError::setting("longest", longest, allowed));
        }
        let count =
            parameter_specs(config).0.iter().map(|spec| spec.shape.iter().product::<usize>() as u64).sum::<u64>();
        let sequences = (compute.resolved_micro_batch_tokens() / longest).max(1);
        let pass =
            count_pass(config, &vec![longest; sequences], compute.dtype.into(), compute.network_options(), CHIP)?;
        let pass = pass.peak.saturating_sub(4 * count);
        let mut parts = vec![
            MemoryPart { what: "weights, fp32", bytes: 4 * count },
            MemoryPart { what: "gradients, fp32", bytes: 4 * count },
            MemoryPart { what: "moments, fp32", bytes: 8 * count },
        ];
        if settings.objective.kl_coefficient != 0.0 {
            parts.push(MemoryPart { what: "weights of the reference, fp32", bytes: 4 * count });
        }
        if !settings.is_single_update() {
            parts.push(MemoryPart { what: "weights and moments before the step, fp32", bytes: 12 * count });
        }
        parts.push(MemoryPart { what: "activations and workspace of a pass", bytes: pass });
        parts.push(MemoryPart { what: "lost between blocks (estimate)", bytes: pass / LOST_SHARE });
        parts.push(MemoryPart { what: "driver and libraries (estimate)", bytes: LIBRARIES });
        Ok(Self { parts })
    }

    /// The bytes of all parts.
    pub fn total(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes).sum()
    }

    /// Refuses a device that is too small.
    ///
    /// # Errors
    /// The memory that there is, what is needed and for what, and what to change.
    pub fn check(&self, available: u64, settings: &LearnerSettings) -> Result<()> {
        if self.total() <= available {
            return Ok(());
        }
        let compute = &settings.compute;
        let mut advice =
            vec![format!("lower compute.micro_batch_tokens (now {})", compute.resolved_micro_batch_tokens())];
        if !compute.recompute {
            advice.push("set compute.recompute = true".into());
        }
        if !settings.is_single_update() {
            advice.push("take one update for each batch (mini_batch_groups = 0, epochs = 1)".into());
        }
        let parts: Vec<String> =
            self.parts.iter().map(|part| format!("{} GiB {}", gibibytes(part.bytes), part.what)).collect();
        let allowed = format!(
            "{} GiB or more for {}; to need less, {}",
            gibibytes(self.total()),
            parts.join(", "),
            advice.join(", or ")
        );
        Err(LearnerError::setting("free memory of compute.device", format!("{} GiB", gibibytes(available)), allowed))
    }
}

fn gibibytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / (1u64 << 30) as f64)
}

impl fmt::Display for MemoryPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in &self.parts {
            writeln!(f, "{:>8} GiB  {}", gibibytes(part.bytes), part.what)?;
        }
        write!(f, "{:>8} GiB  in all", gibibytes(self.total()))
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_model::Family;

    use super::*;
    use crate::settings::{Compute, ComputeType};

    fn config(hidden: usize, inner: usize, heads: usize, kv_heads: usize, tied: bool) -> Config {
        Config {
            family: if tied { Family::Qwen3 } else { Family::Qwen2 },
            vocab_size: 151_936,
            hidden_size: hidden,
            intermediate_size: inner,
            num_layers: 28,
            num_heads: heads,
            num_kv_heads: kv_heads,
            head_dim: 128,
            max_position_embeddings: 8192,
            rms_norm_eps: 1e-6,
            rope_theta: 1e6,
            qkv_bias: !tied,
            output_bias: false,
            tie_word_embeddings: tied,
            eos_token_ids: Vec::new(),
        }
    }

    fn settings(tokens: usize, recompute: bool) -> LearnerSettings {
        let compute = Compute {
            device: "cuda".into(),
            dtype: ComputeType::Bf16,
            micro_batch_tokens: tokens,
            recompute,
            ..Compute::default()
        };
        LearnerSettings { compute, ..LearnerSettings::default() }
    }

    const H200: u64 = 150_754_820_096;

    #[test]
    fn a_model_of_two_billion_parameters_needs_no_recomputing_on_an_h200() {
        let (config, settings) = (config(2048, 6144, 16, 8, true), settings(32_768, false));
        let plan = MemoryPlan::of(&config, &settings, 4096).unwrap();
        plan.check(H200, &settings).unwrap();
        // 16 bytes for each of 1.72 billion parameters, and 60 GiB of activations.
        let gib = |bytes: u64| bytes as f64 / (1u64 << 30) as f64;
        let state: u64 = plan.parts[..3].iter().map(|part| part.bytes).sum();
        assert!((gib(state) - 25.6).abs() < 0.1, "{}", gib(state));
        assert!((60.0..70.0).contains(&gib(plan.parts[3].bytes)), "{plan}");
    }

    #[test]
    fn one_of_eight_billion_fits_if_it_recomputes_and_is_refused_by_name_if_not() {
        let config = config(3584, 18_944, 28, 4, false);
        let small = settings(16_384, true);
        MemoryPlan::of(&config, &small, 2048).unwrap().check(H200, &small).unwrap();
        let large = settings(16_384, false);
        let error = MemoryPlan::of(&config, &large, 2048).unwrap().check(H200, &large).unwrap_err().to_string();
        assert!(error.starts_with("free memory of compute.device is 140.4 GiB, allowed: "), "{error}");
        for part in ["GiB moments, fp32", "micro_batch_tokens (now 16384)", "compute.recompute = true"] {
            assert!(error.contains(part), "{part}: {error}");
        }
    }

    #[test]
    fn several_updates_and_a_reference_have_their_own_parts() {
        let (config, mut settings) = (config(256, 512, 4, 2, true), settings(1024, true));
        let plain = MemoryPlan::of(&config, &settings, 512).unwrap();
        settings.epochs = 2;
        settings.objective.kl_coefficient = 0.1;
        let more = MemoryPlan::of(&config, &settings, 512).unwrap();
        assert_eq!(more.total() - plain.total(), 4 * plain.parts[0].bytes);
    }
}
