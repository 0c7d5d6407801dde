//! Conversion of messages to groups and examples, and of errors to those of the service.

use evenkeel_model::ModelError;
use evenkeel_model::sampling::TokenStatistics as ModelStatistics;
use evenkeel_objective::LagRun;
use evenkeel_proto::v1::{
    RewardComponent, SegmentSource, SupervisedExample, TokenStatistics, TrainGroup, TrainHeader, TrainSample,
};
use evenkeel_proto::{FieldError, FlatResponse};
use evenkeel_rpc::error::{Reason, ServiceError};

use crate::group::ComparedPart;
use crate::{Comparison, Example, LearnerError, Response, ResponseGroup, RewardPart};

/// The group of a message of this step; `index` counts the groups received before.
pub(super) fn group(message: TrainGroup, index: u32, header: &TrainHeader) -> Result<ResponseGroup, FieldError> {
    if message.index != index {
        return Err(FieldError::new("index", message.index, format!("{index}, the next in data order")));
    }
    let tokens = message.responses()?;
    validate_versions(&message, header)?;
    let responses = message.samples.iter().zip(tokens).map(|(sample, tokens)| Response {
        lags: if sample.exclude_from_loss { Vec::new() } else { lags(&tokens, header) },
        contexts: sample.sequences().map(|(first, prompt)| (first, prompt.to_vec())).collect(),
        tokens: tokens.token_ids,
        mask: tokens.trainable.into_iter().map(|trainable| trainable && !sample.exclude_from_loss).collect(),
        rollout_logp: tokens.log_probabilities,
        comparisons: comparisons(sample, header),
        raw_reward: sample.raw_reward.unwrap_or(0.0),
        reward: sample.shaped_reward.unwrap_or(0.0),
        correct: sample.correct,
        components: sample.components.iter().map(part).collect(),
        valid: sample.valid,
    });
    let responses = responses.collect();
    let hinted_prompt = Some(message.hinted_prompt_token_ids).filter(|ids| !ids.is_empty());
    Ok(ResponseGroup { id: message.group_id, prompt: message.prompt_token_ids, hinted_prompt, responses })
}

fn part(component: &RewardComponent) -> (String, RewardPart) {
    (component.name.clone(), RewardPart { weight: component.weight, value: component.value })
}

/// Refuses tokens of versions that the step may not have.
fn validate_versions(message: &TrainGroup, header: &TrainHeader) -> Result<(), FieldError> {
    let base = header.base_version;
    for (sample, of_sample) in message.samples.iter().enumerate() {
        for (segment, of_segment) in of_sample.segments.iter().enumerate() {
            let Some(version) = of_segment.policy_version else { continue };
            let allowed = match (base.checked_sub(version), header.max_lag) {
                (None, _) => format!("at most base_version, which is {base}"),
                (Some(lag), Some(most)) if lag > u64::from(most) => {
                    format!("at least {}: base_version is {base}, max_lag {most}", base.saturating_sub(most.into()))
                }
                (Some(_), _) => continue,
            };
            let field = format!("samples[{sample}].segments[{segment}].policy_version");
            return Err(FieldError::new(field, version, allowed));
        }
    }
    Ok(())
}

/// How the log-probabilities of a response are compared with the learner's.
fn comparisons(sample: &TrainSample, header: &TrainHeader) -> Vec<Comparison> {
    if header.equal_arithmetic.is_empty() {
        return Vec::new();
    }
    let parts = sample.segments.iter().map(|segment| ComparedPart {
        tokens: segment.token_ids.len(),
        is_sampled: segment.source() == SegmentSource::Sampled,
        is_exact: segment.arithmetic == header.equal_arithmetic && segment.policy_version == Some(header.base_version),
    });
    Comparison::of_parts(parts, header.min_tokens as usize)
}

/// How far the versions of a response are behind the step's; empty where none is.
fn lags(tokens: &FlatResponse, header: &TrainHeader) -> Vec<LagRun> {
    let lag = |version: u64| u32::try_from(header.base_version.saturating_sub(version)).unwrap_or(u32::MAX);
    let runs = tokens.versions.iter().map(|&(version, tokens)| LagRun { lag: lag(version), tokens });
    if tokens.versions.iter().all(|(version, _)| *version == header.base_version) { Vec::new() } else { runs.collect() }
}

pub(super) fn example(message: SupervisedExample) -> Example {
    Example { prompt: message.prompt_token_ids, response: message.response_token_ids }
}

/// One list for each statistic.
pub(super) fn statistics(tokens: &[ModelStatistics]) -> TokenStatistics {
    let list = |of: fn(&ModelStatistics) -> f64| tokens.iter().map(|token| of(token) as f32).collect();
    TokenStatistics {
        log_probabilities: list(|token| token.log_probability),
        entropies: list(|token| token.entropy),
        variances: list(|token| token.variance),
        surprises: list(|token| token.surprise),
        less_likely: list(|token| token.less_likely),
        equally_likely: list(|token| token.equally_likely),
        ranks: tokens.iter().map(|token| token.rank).collect(),
        beyond_rank_5: list(|token| token.beyond_rank[0]),
        beyond_rank_50: list(|token| token.beyond_rank[1]),
        largest_log_probabilities: list(|token| token.largest_log_probability),
        below_hundredth: list(|token| token.below_floor[0]),
        below_floor: list(|token| token.below_floor[1]),
        end_probabilities: list(|token| token.end_probability),
        drawn_token_ids: Vec::new(),
    }
}

/// The service's error for an error of the learner.
pub(super) fn error(error: LearnerError) -> ServiceError {
    match error {
        LearnerError::Input(error) | LearnerError::Model(ModelError::Input(error)) => error.into(),
        LearnerError::Checkpoint { path, reason } => {
            ServiceError::DataLoss { message: format!("checkpoint {}: {reason}", path.display()) }
        }
        LearnerError::File { path, source } | LearnerError::Model(ModelError::File { path, source }) => {
            match source.kind() {
                std::io::ErrorKind::NotFound => ServiceError::NotFound { what: path.display().to_string() },
                _ => ServiceError::file(path.display(), &source),
            }
        }
        error @ LearnerError::WeightsGone { .. } => {
            ServiceError::Precondition { reason: Reason::WeightsGone, message: error.to_string() }
        }
        error @ LearnerError::SampledOtherwise { .. } => {
            ServiceError::Precondition { reason: Reason::SampledOtherwise, message: error.to_string() }
        }
        error @ LearnerError::Rank(_) => {
            ServiceError::Unavailable { reason: Reason::RankLost, message: error.to_string() }
        }
        error @ (LearnerError::NothingAccumulated | LearnerError::IncompleteSum { .. }) => {
            ServiceError::Precondition { reason: Reason::NotAccumulated, message: error.to_string() }
        }
        error @ LearnerError::NoRoom(_) => ServiceError::NoMemory { message: error.to_string() },
        // Not a failed precondition, after which a run goes back to its checkpoint and would come to the same step
        // again.
        error @ (LearnerError::SkippedUpdates { .. }
        | LearnerError::NotApplied { .. }
        | LearnerError::NotFinite { .. }
        | LearnerError::Model(
            ModelError::Device(_) | ModelError::NotFinite { .. } | ModelError::NotFiniteLogits,
        )) => ServiceError::DataLoss { message: error.to_string() },
        other => ServiceError::Internal { message: other.to_string() },
    }
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
