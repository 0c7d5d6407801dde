//! Problems as a run uses them: encoded once, in an order that follows from the seed.

mod agent;
mod demonstrations;
mod prompts;
mod renderer;
mod sampled_turn;
mod sampler;
mod turns;

use evenkeel_data::read::ReadLimits;
use evenkeel_data::{
    Cancel, DataError, Dataset, EnvironmentTask, Problem, arithmetic, products, programs, trails, word_problems,
};
use evenkeel_proto::FieldError;

use crate::error::RunError;
use crate::settings::{DataKind, DataSettings, LoopSettings, WordProblemsSettings};

pub(crate) use agent::AgentConversation;
pub(crate) use demonstrations::{DemonstrationAnswers, Demonstrations, ToPlay, ends_early, refused};
pub use prompts::reason_of;
pub(crate) use prompts::{Fit, MAX_DATA_SOURCES, Prompt, Prompts, encode, environments};
pub use renderer::{Encoder, hint_of};
pub(crate) use sampled_turn::SampledTurn;
pub(crate) use sampler::PromptSampler;
pub(crate) use turns::{Asked, EpisodeText, EpisodeTexts, PastTurns};

/// The data set of a recipe: the same settings, seed and number of held-out problems give the same problems in the same
/// order.
///
/// # Errors
/// A file that cannot be read, has no row that is a problem, or has a row at fault, where such are refused; nothing
/// left to train on.
pub(crate) fn dataset(
    settings: &DataSettings,
    seed: u64,
    held_out: u32,
    limits: &ReadLimits,
    cancel: Cancel<'_>,
) -> Result<Dataset, RunError> {
    let dataset = match settings.built_in(seed, held_out) {
        Some(dataset) => dataset,
        None => Dataset::read(&settings.name(), &settings.file_set(), seed, held_out, limits, cancel)
            .map_err(|error| settings.named(error))?,
    };
    if dataset.train.is_empty() { Err(nothing_to_train_on(settings, held_out, &dataset).into()) } else { Ok(dataset) }
}

/// Which setting leaves no problem to train on.
fn nothing_to_train_on(settings: &DataSettings, held_out: u32, dataset: &Dataset) -> FieldError {
    let problems = dataset.held_out.len();
    if !settings.held_out_files.is_empty() {
        let found = "files with every problem that is trained on";
        return FieldError::new(
            "data.held_out_files",
            found,
            "files with other problems, so that some are left to train on",
        );
    }
    let found = format!("{held_out}, of {problems} problems that could be trained on");
    FieldError::new("evaluation.problems", found, format!("below {problems}, so that some are left to train on"))
}

/// The problems of the named benchmarks, in their order; those with the same text are no longer trained on.
///
/// # Errors
/// A file that cannot be read or has no row that is a problem; a row at fault, where such are refused.
pub(crate) fn benchmark_problems(
    settings: &LoopSettings,
    dataset: &mut Dataset,
    limits: &ReadLimits,
    cancel: Cancel<'_>,
) -> Result<Vec<Vec<Problem>>, RunError> {
    let benchmarks = settings.evaluation.benchmarks.iter();
    let problems = benchmarks.map(|benchmark| dataset.add_benchmark(&benchmark.files(&settings.data), limits, cancel));
    Ok(problems.collect::<Result<_, _>>()?)
}

impl DataSettings {
    /// An error of a file that is not there, with the setting that names the file.
    fn named(&self, error: DataError) -> RunError {
        let DataError::File { path, .. } = &error else { return error.into() };
        let is_missing = |error: std::io::Error| error.kind() == std::io::ErrorKind::NotFound;
        if !std::fs::metadata(path).is_err_and(is_missing) {
            return error.into();
        }
        let of_sources = self
            .sources
            .iter()
            .enumerate()
            .map(|(index, source)| (format!("data.sources[{index}].files"), &source.files));
        let lists = [("data.files".to_owned(), &self.files), ("data.held_out_files".to_owned(), &self.held_out_files)];
        match lists.into_iter().chain(of_sources).find(|(_, files)| files.contains(path)) {
            Some((field, _)) => {
                let found = format!("{}, which does not exist", path.display());
                FieldError::new(field, found, "files that can be read, or patterns that match some").into()
            }
            None => error.into(),
        }
    }

    /// The data set that these settings make themselves; `None` where they name files.
    pub fn built_in(&self, seed: u64, held_out: u32) -> Option<Dataset> {
        let mut dataset = match self.kind() {
            DataKind::Arithmetic => arithmetic::dataset(seed, held_out, &self.rules()),
            DataKind::Programs => programs::dataset(seed, held_out, &self.rules()),
            DataKind::Products => products::dataset(seed, held_out, &self.rules()),
            DataKind::Trails => trails::dataset(seed, held_out, self.trails.of_demonstrations(), &self.rules()),
            DataKind::WordProblems => {
                let WordProblemsSettings { kinds, difficulty } = &self.word_problems;
                word_problems::dataset(seed, held_out, kinds, *difficulty, &self.rules())
            }
            DataKind::Files => return None,
        };
        if !self.source.is_empty() {
            dataset.name.clone_from(&self.source);
        }
        // They have no row that could name an environment.
        let task = self.environment.as_deref().map(EnvironmentTask::new);
        let problems = dataset.train.iter_mut().chain(&mut dataset.held_out);
        problems.for_each(|problem| problem.environment.clone_from(&task));
        Some(dataset)
    }
}
