//! Why a run was refused or ended.

mod checkpoint;
mod incompatible;

pub use checkpoint::{CheckpointError, StateProblem};
pub use incompatible::Incompatible;

use std::path::{Path, PathBuf};

use evenkeel_config::ConfigError;
use evenkeel_data::{Cancelled, DataError};
use evenkeel_model_folder::FolderError;
use evenkeel_proto::FieldError;
use evenkeel_run::RunFilesError;
use evenkeel_trust::{SamplerFault, WeightsFault};

use crate::dependency::Dependency;

/// Why a run was refused or ended. Finished steps are in its directory and can be resumed.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// An invalid setting, with its path.
    #[error(transparent)]
    Setting(#[from] FieldError),
    /// Settings that cannot be read.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A data set that cannot be used.
    #[error("{}: {message}", path.display())]
    Data {
        /// The file, with the line where one is at fault.
        path: PathBuf,
        /// What is wrong, and what is allowed.
        message: String,
    },
    /// A prompt that leaves too few tokens for a response.
    #[error(
        "prompt `{id}` has {tokens} tokens, allowed: at most {allowed}, what an answer of {max_tokens} tokens \
         (sampling.max_tokens, evaluation.max_tokens) leaves of the model's context of {context}"
    )]
    PromptTooLong {
        id: String,
        /// Tokens of the prompt.
        tokens: usize,
        /// The longest that fits.
        allowed: usize,
        context: usize,
        /// The setting `sampling.max_tokens`.
        max_tokens: usize,
    },
    /// A prompt that cannot be rendered.
    #[error("prompt `{id}`: {message}")]
    Prompt { id: String, message: String },
    /// A run directory of another run, or none at all.
    #[error("run directory {}: {message}", path.display())]
    Directory {
        path: PathBuf,
        /// What is wrong, and what to do.
        message: String,
    },
    /// A file that cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A model folder or a tokenizer that cannot be used.
    #[error("model {}: {message}", path.display())]
    Model {
        /// The folder or file.
        path: PathBuf,
        message: String,
    },
    /// A service that was unreachable for longer than `services.outage_timeout`.
    #[error("the {service} service at {endpoint} did not come back within {waited_ms} ms: {message}")]
    ServiceLost {
        service: Dependency,
        /// Address of the service.
        endpoint: String,
        /// How long the run waited.
        waited_ms: u64,
        message: String,
    },
    /// A disk that stayed full or otherwise unwritable for longer than `services.outage_timeout`.
    #[error("could not write {} for {waited_ms} ms: {message}", path.display())]
    DiskLost {
        path: PathBuf,
        /// How long the run retried.
        waited_ms: u64,
        /// Whether the disk was full at the last attempt.
        full: bool,
        message: String,
    },
    /// A service that refuses a request.
    #[error("the {service} service refuses {what}: {message}")]
    Refused {
        service: Dependency,
        what: String,
        /// The reason that the service gives.
        message: String,
    },
    /// Two services, or a service and the recipe, that are incompatible.
    #[error("the services are incompatible: {0}")]
    Incompatible(#[from] Incompatible),
    /// A checkpoint that the run cannot go on from.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// A benchmark whose prompts cannot be used.
    #[error("benchmark `{name}`: {source}")]
    Benchmark {
        /// Name of the benchmark in the recipe.
        name: String,
        source: Box<RunError>,
    },
    /// A step without a single valid sample.
    #[error("step {step}: no sample is valid, last failure: {last}")]
    NoSamples {
        step: u64,
        /// Why the last one failed.
        last: String,
    },
    /// Too many samples took too long. Long samples are the late ones: continuing without them would favour short
    /// responses.
    #[error(
        "{what}: {late} of {samples} samples took too long, allowed: services.max_late_share = {allowed} of them, \
         since late samples are the long ones (more engines or reward workers, a larger services.rollout_deadline or \
         verify_deadline, or a smaller sampling.max_tokens help); last failure: {last}"
    )]
    Late {
        /// The step or evaluation.
        what: String,
        /// Samples that took too long, or whose verdicts did.
        late: usize,
        samples: usize,
        /// The setting `services.max_late_share`.
        allowed: f64,
        /// Why the last one failed.
        last: String,
    },
    /// Too many samples without a verdict: engines whose answers are refused, a verifier that returns malformed
    /// verdicts, or tasks that it cannot judge.
    #[error(
        "{what}: of {samples} samples {failed} could not be generated and {invalid} have no verdict, allowed: \
         services.max_invalid_share = {allowed} of them; last reason: {last}"
    )]
    Invalid {
        /// The step or evaluation.
        what: String,
        /// Samples that were generated and have no verdict, for another reason than time.
        invalid: usize,
        /// Samples that could not be generated, for another reason than time.
        failed: usize,
        samples: usize,
        /// The setting `services.max_invalid_share`.
        allowed: f64,
        /// Why the last one has none.
        last: String,
    },
    /// A reward function or an environment of the user's own that failed too often. They fail at malformed answers, so
    /// that going on would train on the others alone.
    #[error("{what}: {who} failed on {failures} of {samples} answers, allowed: {allowed}; first failure: {first}")]
    RewardFunction {
        /// The step or sample.
        what: String,
        /// The function or environment, by its name in the settings.
        who: String,
        /// Answers at which it failed.
        failures: u64,
        samples: u64,
        /// How many it may fail at, and the setting that says so.
        allowed: String,
        /// Why it failed first.
        first: String,
    },
    /// A judge that may make no more calls. A run has stopped with its finished steps, an evaluation with its answers.
    #[error(
        "the judge's budget is used up: {limit}; recorded verdicts are not asked for again: continue with a larger budget \
         (--set {}=N)",
        reached(limit)
    )]
    JudgeBudget {
        /// The setting that is reached, and what was used.
        limit: String,
    },
    /// Weights that have blown up, or engines that do not have them.
    #[error(transparent)]
    Weights(#[from] WeightsFault),
    /// An engine whose samples do not come from the policy.
    #[error(transparent)]
    Sampler(#[from] SamplerFault),
    /// Published weights that a resumed run needs and that are gone.
    #[error(
        "version {version}, the weights after step {step} with which the steps after the checkpoint are sampled \
         (pipeline.max_lag), cannot be loaded any more: {message}; put its folder back, resume from an older \
         checkpoint, or fork the run, which starts without a lag"
    )]
    WeightsGone {
        /// GRPO steps before them.
        step: u64,
        version: u64,
        /// What the generation service says, with the folder.
        message: String,
    },
    /// The learner lost its state repeatedly at the same step.
    #[error("the learner lost its state {times} times at step {step}: {message}")]
    NoProgress {
        step: u64,
        times: u32,
        /// The last error of the learner.
        message: String,
    },
    /// The start was cancelled while the run was being loaded. Nothing of it remains.
    #[error("the start of the run was cancelled")]
    Cancelled,
    /// A defect of this program.
    #[error("the run ended unexpectedly: {0}")]
    Defect(String),
}

/// The setting whose limit the message of a judge names.
fn reached(limit: &str) -> &'static str {
    let tokens = "reward.judge.budget.tokens";
    if limit.contains(tokens) { tokens } else { "reward.judge.budget.calls" }
}

impl From<FolderError> for RunError {
    fn from(error: FolderError) -> Self {
        match error {
            FolderError::File { path, problem } => Self::Model { path, message: problem.to_string() },
            FolderError::Cancelled => Self::Cancelled,
        }
    }
}

impl From<DataError> for RunError {
    fn from(error: DataError) -> Self {
        match error {
            DataError::File { path, message } => Self::Data { path, message },
            DataError::Field(error) => Self::Setting(error),
            DataError::Cancelled(_) => Self::Cancelled,
        }
    }
}

impl From<RunFilesError> for RunError {
    fn from(error: RunFilesError) -> Self {
        match error {
            RunFilesError::Setting(error) => Self::Setting(error),
            RunFilesError::Config(error) => Self::Config(error),
            RunFilesError::Directory { path, message } => Self::Directory { path, message },
            RunFilesError::File { path, source } => Self::File { path, source },
            RunFilesError::Defect(message) => Self::Defect(message),
        }
    }
}

impl From<Cancelled> for RunError {
    fn from(_: Cancelled) -> Self {
        Self::Cancelled
    }
}

impl RunError {
    pub(crate) fn file(path: impl AsRef<Path>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.as_ref().to_owned();
        move |source| Self::File { path, source }
    }

    pub(crate) fn directory(path: impl AsRef<Path>, message: impl Into<String>) -> Self {
        Self::Directory { path: path.as_ref().to_owned(), message: message.into() }
    }

    /// A model folder or file that cannot be used.
    pub fn model(path: impl AsRef<Path>, message: impl ToString) -> Self {
        Self::Model { path: path.as_ref().to_owned(), message: message.to_string() }
    }
}

/// Why the loop was interrupted. Only [`Halt::Error`] is an error of the run.
#[derive(Debug)]
pub(crate) enum Halt {
    /// A stop was requested.
    Stop,
    /// The learner lost its state: return to the last checkpoint.
    LearnerLost(String),
    /// The run ends with an error.
    Error(RunError),
}

impl<E: Into<RunError>> From<E> for Halt {
    fn from(error: E) -> Self {
        Self::Error(error.into())
    }
}
