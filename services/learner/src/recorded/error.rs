//! Why a recorded step is not reproduced.

use evenkeel_run::RunFilesError;

use crate::error::LearnerError;

/// Why a recorded step cannot be replayed, or is not what the run recorded.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// Files that the step needs are missing or do not fit together.
    #[error("step {step} cannot be replayed: {reason}")]
    Missing {
        /// The step, from 1.
        step: u64,
        /// What is missing, and which setting keeps it.
        reason: String,
    },
    /// The step was done again, with another result.
    #[error("step {step} is not what was recorded: {what}")]
    Different {
        /// The step, from 1.
        step: u64,
        /// The file or folder that has it, within the directory of the run.
        file: String,
        /// The first value that differs, as it was recorded and as it is.
        what: String,
    },
    /// The step was done again on another kind of device, and a value is farther away than the tolerance.
    #[error("step {step} is not within the tolerance for another device: {what}")]
    BeyondTolerance {
        /// The step, from 1.
        step: u64,
        /// The file that has the value, within the directory of the run.
        file: String,
        /// The first value that is too far away, as it was recorded and as it is, with their distance.
        what: String,
    },
    /// Weights that cannot be loaded, or a failure of the device.
    #[error(transparent)]
    Learner(Box<LearnerError>),
    /// Files of the run that cannot be read.
    #[error(transparent)]
    Files(#[from] RunFilesError),
}

impl From<LearnerError> for ReplayError {
    fn from(error: LearnerError) -> Self {
        Self::Learner(Box::new(error))
    }
}

/// What of a step is not what was recorded, and the file or folder that has it.
#[derive(Debug)]
pub(super) struct Deviation {
    pub(super) file: String,
    pub(super) what: String,
}

impl Deviation {
    pub(super) fn at(self, step: u64) -> ReplayError {
        let Self { file, what } = self;
        ReplayError::Different { step, file, what }
    }
}

impl ReplayError {
    pub(super) fn missing(step: u64, reason: impl Into<String>) -> Self {
        Self::Missing { step, reason: reason.into() }
    }
}
