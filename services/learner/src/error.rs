//! Why a step, a checkpoint or a setting is refused.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use evenkeel_model::ModelError;
use evenkeel_objective::Location;
use evenkeel_proto::FieldError;

use crate::memory::{MemoryPhase, MemoryPlan, NotEnoughMemory, OutOfMemory};
use crate::ranks::RankError;
use crate::settings::TrainingSettings;
use crate::skip_reason::SkipReason;

/// An error of the learner. Messages name the location, the field, its value and what is allowed.
#[derive(Debug, thiserror::Error)]
pub enum LearnerError {
    /// A setting outside its range.
    #[error(transparent)]
    Setting(FieldError),

    /// A value of a request outside its range.
    #[error(transparent)]
    Input(FieldError),

    /// An error of the objective without a location in the step.
    #[error(transparent)]
    Objective(evenkeel_objective::Error),

    /// An error of the model.
    #[error(transparent)]
    Model(ModelError),

    /// More updates in a row were skipped than `max_skipped_updates` allows.
    #[error(
        "skipped updates in a row: {count}, allowed: fewer than max_skipped_updates = {limit}; the last one was \
         skipped for {reason}. The weights are those of version {version}: go back to an earlier checkpoint, or lower \
         the learning rate"
    )]
    SkippedUpdates {
        /// Skipped updates in a row.
        count: u64,
        /// The setting `max_skipped_updates`.
        limit: u64,
        /// Why the last one was skipped.
        reason: SkipReason,
        /// The version of the weights, which have not changed since the step began.
        version: u64,
    },

    /// Weights that an update has made useless.
    #[error(
        "the update to version {version} made {count} values of `{tensor}` not finite (the first is {value} at \
         {index:?}), allowed: finite numbers; the last good version is {last_good}: go back to its checkpoint, and \
         lower the learning rate or max_grad_norm"
    )]
    NotFinite {
        /// The version of the weights.
        version: u64,
        /// The version before this one.
        last_good: u64,
        /// The first such tensor.
        tensor: String,
        /// Values in it that are not finite.
        count: usize,
        /// Where the first of them is.
        index: Vec<usize>,
        /// Value that is not allowed.
        value: f32,
    },

    /// A device or a host that has less memory than training needs.
    #[error(transparent)]
    NotEnoughMemory(#[from] NotEnoughMemory),

    /// Memory that was refused.
    #[error(transparent)]
    OutOfMemory(OutOfMemory),

    /// Ranks that cannot go on together.
    #[error(transparent)]
    Rank(#[from] RankError),

    /// Weights that an exchange between ranks has left in the middle of a step.
    #[error(
        "a step ended in the middle of an exchange between ranks: load a checkpoint, or reset the learner, before \
        anything else"
    )]
    Torn,

    /// A measurement that was requested after the first group of a step.
    #[error("the step already has {groups} groups: request {measurement} before the first one")]
    StepBegun {
        /// What was to be measured.
        measurement: &'static str,
        /// Groups of the step so far.
        groups: usize,
    },

    /// A step that is used after one of its passes failed.
    #[error("a pass of the step failed: begin a new step")]
    StepFailed,

    /// Samples of an engine that has other weights, or draws from another distribution, than it says.
    #[error(
        "groups[{group}].responses[{index}]: the engine reported a log-probability of {reported:?} for sampled token \
         {token}, allowed: {computed:?}, which the learner computes from the weights of that version; {differing} of \
         {tokens} tokens of this response differ. Both compute with the same arithmetic, so the engine has other \
         weights or settings than it says, or what it returned was changed on the way"
    )]
    SampledOtherwise {
        /// Index of the group in the step.
        group: usize,
        /// Index of the response in the group.
        index: usize,
        /// Index of the first such token among the trainable ones.
        token: usize,
        /// The engine's log-probability of it, in nats.
        reported: f32,
        /// The learner's log-probability of it, in nats.
        computed: f32,
        /// Number of tokens that differ.
        differing: usize,
        /// Tokens that were compared.
        tokens: usize,
    },

    /// An update without anything that was accumulated for it.
    #[error("there is no gradient to apply: nothing was accumulated since the last update")]
    NothingAccumulated,

    /// An update of which a part could not be accumulated.
    #[error("the gradient is incomplete and nothing was applied: {reason}")]
    IncompleteSum {
        /// What happened to it.
        reason: String,
    },

    /// An update whose loss or gradient is not finite.
    #[error("nothing was applied: {reason}; the weights are still those of version {version}")]
    NotApplied {
        /// Reason for skipping.
        reason: SkipReason,
        /// The version of the weights.
        version: u64,
    },

    /// A return to the initial weights of a model that was created in memory.
    #[error("the model was created in memory: only one that was loaded from a folder can be reset")]
    NoModelFolder,

    /// Published weights whose folder was removed, or never written.
    #[error("version {version} is not published (any more): there is no complete folder {}", path.display())]
    WeightsGone {
        /// Version of the weights.
        version: u64,
        /// The folder of the version.
        path: PathBuf,
    },

    /// A second set of weights that does not fit into memory.
    #[error("no memory for published weights beside those in training: {0}")]
    NoRoom(String),

    /// An export to a folder that holds files.
    #[error("{} holds files, allowed: an empty or a new folder", .0.display())]
    OutputNotEmpty(PathBuf),

    /// A file of a model folder.
    #[error(transparent)]
    Folder(#[from] evenkeel_model_folder::FolderError),

    /// A file that cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// File that failed.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },

    /// A checkpoint that is damaged, or belongs to another run.
    #[error("checkpoint {path}: {reason}")]
    Checkpoint {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

/// Result with a [`LearnerError`] by default.
pub type Result<T, E = LearnerError> = std::result::Result<T, E>;

impl LearnerError {
    pub(crate) fn setting(field: impl Into<String>, value: impl Display, allowed: impl Into<String>) -> Self {
        Self::Setting(FieldError::new(field, value, allowed))
    }

    pub(crate) fn input(field: impl Into<String>, value: impl Display, allowed: impl Into<String>) -> Self {
        Self::Input(FieldError::new(field, value, allowed))
    }

    pub(crate) fn file(path: impl AsRef<Path>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.as_ref().to_owned();
        move |source| Self::File { path, source }
    }

    /// Adds what was planned and what to change to an error of memory.
    pub(crate) fn during(self, phase: MemoryPhase, plan: Option<&MemoryPlan>, settings: &TrainingSettings) -> Self {
        match self {
            Self::Model(source) if OutOfMemory::is(&source) => {
                Self::OutOfMemory(OutOfMemory::new(phase, plan, settings, source))
            }
            other => other,
        }
    }

    /// The error of weights of that version that cannot be written: those that are not finite name the versions, and no
    /// file that is gone by then.
    pub(crate) fn of_weights(error: ModelError, version: u64) -> Self {
        match (error, version.checked_sub(1)) {
            (ModelError::NotFinite { tensor, count, index, value, .. }, Some(last_good)) => {
                Self::NotFinite { version, last_good, tensor, count, index, value }
            }
            (error, _) => error.into(),
        }
    }

    pub(crate) fn checkpoint(path: impl AsRef<Path>, reason: impl ToString) -> Self {
        Self::Checkpoint { path: path.as_ref().to_owned(), reason: reason.to_string() }
    }
}

impl From<evenkeel_objective::Error> for LearnerError {
    fn from(error: evenkeel_objective::Error) -> Self {
        match error {
            evenkeel_objective::Error::Refused { location, field } if location.group.is_some() => {
                Self::Input(FieldError { field: path(location, &field.field), ..field })
            }
            other => Self::Objective(other),
        }
    }
}

/// The path of a field in a step: `groups[3].responses[5].rollout_logp[117]`.
fn path(Location { group, response, token }: Location, field: &str) -> String {
    let list = |name: &str, index: Option<usize>| index.map_or_else(String::new, |index| format!("{name}[{index}]."));
    let index = token.map_or_else(String::new, |token| format!("[{token}]"));
    format!("{}{}{field}{index}", list("groups", group), list("responses", response))
}

impl From<ModelError> for LearnerError {
    fn from(error: ModelError) -> Self {
        match error {
            // Errors of the objective come back from the model as those of a loss.
            ModelError::Loss(source) => match source.downcast::<evenkeel_objective::Error>() {
                Ok(error) => (*error).into(),
                Err(source) => Self::Model(ModelError::Loss(source)),
            },
            other => Self::Model(other),
        }
    }
}

impl From<candle_core::Error> for LearnerError {
    fn from(error: candle_core::Error) -> Self {
        Self::Model(ModelError::from(error))
    }
}
