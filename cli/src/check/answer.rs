//! What recomputing a step shows: one of three answers.

use std::process::ExitCode;

use evenkeel_learner::ReplayError;

/// Exit status of a step that cannot be recomputed.
const NOT_RECOMPUTED: u8 = 2;

/// What recomputing a step shows.
#[derive(Debug, PartialEq)]
pub(super) enum Answer {
    /// Everything is what was recorded.
    Equal { step: u64 },
    /// Something is not.
    Different { step: Option<u64>, file: String, what: String },
    /// The step could not be done again.
    CannotBeRecomputed { why: String },
}

impl Answer {
    /// A difference in a file, with the step that it is of.
    pub(super) fn different(step: impl Into<Option<u64>>, file: impl Into<String>, what: impl Into<String>) -> Self {
        Self::Different { step: step.into(), file: file.into(), what: what.into() }
    }

    /// A step that could not be done again, and why.
    pub(super) fn cannot(why: impl Into<String>) -> Self {
        Self::CannotBeRecomputed { why: why.into() }
    }

    /// The answer in words.
    pub(super) fn sentence(&self) -> String {
        match self {
            Self::Equal { step } => format!("equal: step {step} is what the run recorded"),
            Self::Different { step: Some(step), file, what } => format!("different in step {step}, {file}: {what}"),
            Self::Different { step: None, file, what } => format!("different in {file}: {what}"),
            Self::CannotBeRecomputed { why } => format!("cannot be recomputed because {why}"),
        }
    }

    pub(super) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Equal { .. } => ExitCode::SUCCESS,
            Self::Different { .. } => ExitCode::FAILURE,
            Self::CannotBeRecomputed { .. } => NOT_RECOMPUTED.into(),
        }
    }
}

impl From<ReplayError> for Answer {
    fn from(error: ReplayError) -> Self {
        match error {
            ReplayError::Different { step, file, what } => Self::different(step, file, what),
            ReplayError::Missing { step, reason } => Self::cannot(format!("{reason} (step {step})")),
            ReplayError::BeyondTolerance { step, file, what } => Self::cannot(format!(
                "bits differ on another device, and values by more than the tolerance (step {step}, {file}: {what})"
            )),
            error => Self::cannot(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_names_step_and_file_and_what_is_missing_is_none() {
        let different = ReplayError::Different { step: 3, file: "metrics.jsonl".to_owned(), what: "x".to_owned() };
        assert_eq!(Answer::from(different).sentence(), "different in step 3, metrics.jsonl: x");
        let missing = ReplayError::Missing { step: 3, reason: "its rollouts are not there".to_owned() };
        let sentence = Answer::from(missing).sentence();
        assert_eq!(sentence, "cannot be recomputed because its rollouts are not there (step 3)");
    }
}
