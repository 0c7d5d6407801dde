//! Conversion of messages to groups and examples, and of errors to those of the service.

use evenkeel_model::ModelError;
use evenkeel_proto::FieldError;
use evenkeel_proto::v1::{SupervisedExample, TrainGroup};
use evenkeel_rpc::error::ServiceError;

use crate::{Example, Group, LearnerError, Response};

/// The group of a message; `index` counts the groups received before.
pub(super) fn group(message: TrainGroup, index: u32) -> Result<Group, FieldError> {
    if message.index != index {
        return Err(FieldError::new("index", message.index, format!("{index}, the next in data order")));
    }
    let tokens = message.responses()?;
    let responses = message.samples.iter().zip(tokens).map(|(sample, tokens)| Response {
        tokens: tokens.token_ids,
        mask: tokens.trainable.into_iter().map(|trainable| trainable && !sample.exclude_from_loss).collect(),
        rollout_logp: tokens.log_probabilities,
        raw_reward: sample.raw_reward.unwrap_or(0.0),
        reward: sample.shaped_reward.unwrap_or(0.0),
        valid: sample.valid,
    });
    let responses = responses.collect();
    Ok(Group { id: message.group_id, prompt: message.prompt_token_ids, responses })
}

pub(super) fn example(message: SupervisedExample) -> Example {
    Example { prompt: message.prompt_token_ids, response: message.response_token_ids }
}

/// The service's error for an error of the learner.
pub(super) fn error(error: LearnerError) -> ServiceError {
    match error {
        LearnerError::Input(error) | LearnerError::Model(ModelError::Input(error)) => error.into(),
        LearnerError::Objective(error @ evenkeel_objective::Error::Input { .. })
        | LearnerError::Objective(error @ evenkeel_objective::Error::Length { .. }) => {
            FieldError::new("group", error, "what the objective takes").into()
        }
        LearnerError::Checkpoint { path, reason } => {
            ServiceError::DataLoss { message: format!("checkpoint {}: {reason}", path.display()) }
        }
        LearnerError::File { path, source } | LearnerError::Model(ModelError::File { path, source }) => {
            match source.kind() {
                std::io::ErrorKind::NotFound => ServiceError::NotFound { what: path.display().to_string() },
                _ => ServiceError::file(path.display(), &source),
            }
        }
        // Not a failed precondition, after which a run goes back to its checkpoint and would come to the same step again.
        error @ (LearnerError::SkippedUpdates { .. } | LearnerError::Model(ModelError::Device(_))) => {
            ServiceError::DataLoss { message: error.to_string() }
        }
        other => ServiceError::Internal { message: other.to_string() },
    }
}

/// Whole microseconds.
pub(super) fn micros(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use evenkeel_rpc::retry::is_retryable;
    use tonic::{Code, Status};

    use super::*;

    #[test]
    fn a_failed_gpu_ends_the_run_and_is_not_tried_again() {
        let text = "DriverError(CUDA_ERROR_ECC_UNCORRECTABLE, \"uncorrectable ECC error encountered\")";
        let status = Status::from(error(candle_core::Error::msg(text).into()));
        assert_eq!(status.code(), Code::DataLoss);
        assert!(!is_retryable(&status));
        for part in
            ["an error that ECC cannot correct", "CUDA_ERROR_ECC_UNCORRECTABLE", "resume from the last checkpoint"]
        {
            assert!(status.message().contains(part), "{part}: {}", status.message());
        }
    }
}
