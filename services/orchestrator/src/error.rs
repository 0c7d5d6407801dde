//! Why a run was refused or ended.

use std::path::{Path, PathBuf};

use evenkeel_config::ConfigError;
use evenkeel_proto::FieldError;
use evenkeel_tasks::{Cancelled, DataError};

/// Why a run was refused or ended. What it had finished is in its directory and can be resumed.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A setting that cannot be, with its path.
    #[error(transparent)]
    Setting(#[from] FieldError),
    /// Settings that cannot be read.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A data set that cannot be used.
    #[error("{}: {message}", path.display())]
    Data {
        /// The file, with the line where one is to blame.
        path: PathBuf,
        /// What is wrong, and what is allowed.
        message: String,
    },
    /// A prompt that leaves no room for an answer.
    #[error(
        "prompt `{id}` has {tokens} tokens, allowed: at most {allowed} (context {context} less max_tokens {max_tokens})"
    )]
    PromptTooLong {
        /// The problem.
        id: String,
        /// Its length.
        tokens: usize,
        /// The longest that fits.
        allowed: usize,
        /// The model's context.
        context: usize,
        /// `sampling.max_tokens`.
        max_tokens: usize,
    },
    /// A run directory that is not this run's, or not one at all.
    #[error("run directory {}: {message}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What is wrong, and what to do.
        message: String,
    },
    /// A file that cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A model folder or a tokenizer that cannot be used.
    #[error("model {}: {message}", path.display())]
    Model {
        /// The folder or file.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// A service that was gone for longer than `services.wait_ms`.
    #[error("the {service} service at {endpoint} did not come back within {waited_ms} ms: {message}")]
    ServiceLost {
        /// generation, reward or learner.
        service: &'static str,
        /// Where it was.
        endpoint: String,
        /// How long it was waited for.
        waited_ms: u64,
        /// The last failure.
        message: String,
    },
    /// A disk that stayed full (or otherwise refused to be written) for longer than `services.wait_ms`.
    #[error("cannot write {} since {waited_ms} ms: {message}", path.display())]
    DiskLost {
        /// The file.
        path: PathBuf,
        /// How long it was tried.
        waited_ms: u64,
        /// The last failure.
        message: String,
    },
    /// A service that is there and says no.
    #[error("the {service} service refuses {what}: {message}")]
    Refused {
        /// generation, reward or learner.
        service: &'static str,
        /// What was asked.
        what: String,
        /// What it said.
        message: String,
    },
    /// Two services, or a service and the recipe, that do not go together.
    #[error("the services do not go together: {0}")]
    Mismatch(String),
    /// A step without a single sample that could be trained on.
    #[error("step {step}: no sample could be had, last: {last}")]
    NoSamples {
        /// The step.
        step: u64,
        /// Why the last one failed.
        last: String,
    },
    /// Too many samples took too long. The long ones are late, so that going on without them would favour short answers.
    #[error(
        "{what}: {late} of {samples} samples took too long, allowed: services.max_late_share = {allowed} of them, since late samples are \
         the long ones (more engines or reward workers, a larger services.rollout_deadline_ms or verify_deadline_ms, or a smaller \
         sampling.max_tokens help); last: {last}"
    )]
    Late {
        /// The step or evaluation.
        what: String,
        /// Samples that took too long, or whose verdicts did.
        late: usize,
        /// All of them.
        samples: usize,
        /// `services.max_late_share`.
        allowed: f64,
        /// Why the last one failed.
        last: String,
    },
    /// The learner went back again and again without getting on.
    #[error("the learner lost the run {times} times at step {step}: {message}")]
    NoProgress {
        /// The step.
        step: u64,
        /// How often.
        times: u32,
        /// What it said last.
        message: String,
    },
    /// Its start was taken back while it was being loaded. Nothing of it is left.
    #[error("the start of the run was taken back before it began")]
    Cancelled,
    /// The task of the run ended in a way that it did not expect.
    #[error("the run ended unexpectedly: {0}")]
    Defect(String),
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

/// Why the loop left its way. Only [`Halt::Error`] is an error of the run.
#[derive(Debug)]
pub(crate) enum Halt {
    /// It was asked to stop and did.
    Stop,
    /// The learner no longer has what it was trained to: back to the last checkpoint.
    LearnerLost(String),
    /// The run ends.
    Error(RunError),
}

impl<E: Into<RunError>> From<E> for Halt {
    fn from(error: E) -> Self {
        Self::Error(error.into())
    }
}
