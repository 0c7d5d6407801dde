//! Problems as a run uses them: encoded once, in an order that follows from the seed.

mod prompts;
mod renderer;
mod sampler;

use evenkeel_tasks::read::Limits;
use evenkeel_tasks::{Cancel, Dataset, Problem, arithmetic, programs, trails};

use crate::error::RunError;
use crate::settings::{DataKind, DataSettings, LoopSettings};

pub(crate) use prompts::{Demonstrations, Fit, Prompt, Prompts, encode};
pub(crate) use renderer::Encoder;
pub(crate) use sampler::PromptSampler;

/// The data set of a recipe: the same settings, seed and number of held-out problems give the same problems in the same order.
///
/// # Errors
/// A file that cannot be read, has no row that is a problem, or has a row at fault, where such are refused; nothing left to train on.
pub(crate) fn dataset(
    settings: &DataSettings,
    seed: u64,
    held_out: u32,
    limits: &Limits,
    cancel: Cancel<'_>,
) -> Result<Dataset, RunError> {
    let dataset = match settings.built_in(seed, held_out) {
        Some(dataset) => dataset,
        None => Dataset::read(&settings.name(), &settings.file_set(), seed, held_out, limits, cancel)?,
    };
    if dataset.train.is_empty() {
        let allowed = "at least one problem to train on besides those that are held out";
        return Err(evenkeel_proto::FieldError::new("data", "0 problems", allowed).into());
    }
    Ok(dataset)
}

/// The problems of the named benchmarks, in their order; those with the same text are no longer trained on.
///
/// # Errors
/// A file that cannot be read or has no row that is a problem; a row at fault, where such are refused.
pub(crate) fn benchmark_problems(
    settings: &LoopSettings,
    dataset: &mut Dataset,
    limits: &Limits,
    cancel: Cancel<'_>,
) -> Result<Vec<Vec<Problem>>, RunError> {
    let benchmarks = settings.evaluation.benchmarks.iter();
    let problems = benchmarks.map(|benchmark| dataset.add_benchmark(&benchmark.files(&settings.data), limits, cancel));
    Ok(problems.collect::<Result<_, _>>()?)
}

impl DataSettings {
    /// The data set that these settings make themselves; `None` where they name files.
    pub fn built_in(&self, seed: u64, held_out: u32) -> Option<Dataset> {
        let mut dataset = match self.kind() {
            DataKind::Arithmetic => arithmetic::dataset(seed, held_out, &self.rules()),
            DataKind::Programs => programs::dataset(seed, held_out, &self.rules()),
            DataKind::Trails => trails::dataset(seed, held_out, self.trails.of_demonstrations(), &self.rules()),
            DataKind::Files => return None,
        };
        if !self.source.is_empty() {
            dataset.name.clone_from(&self.source);
        }
        Some(dataset)
    }
}
