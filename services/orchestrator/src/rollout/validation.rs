//! Whether a rollout is the sample that was requested. Anything else must not be trained on.

use evenkeel_proto::v1::{FinishReason, LogProbabilityMode, Rollout};
use evenkeel_proto::{check_token_ids, flatten};

use super::group::GroupPlan;

/// What a rollout must satisfy.
#[derive(Debug, Clone)]
pub(super) struct Requirements {
    /// Whose samples they must be; `None` where any version will do.
    pub(super) policy_version: Option<u64>,
    /// Token ids are below it.
    pub(super) vocabulary_size: u32,
    /// The learner uses the log-probabilities, so they must be those of the distribution that was sampled.
    pub(super) for_training: bool,
}

impl Requirements {
    /// Returns the number of response tokens.
    ///
    /// # Errors
    /// What differs from the request.
    pub(super) fn validate(&self, rollout: &Rollout, plan: &GroupPlan) -> Result<usize, String> {
        let (reason, sampling) = (rollout.finish_reason(), &plan.sampling.settings);
        if !matches!(reason, FinishReason::Stop | FinishReason::Length | FinishReason::Repetition) {
            return Err(format!("its finish reason is {}", reason.as_str_name()));
        }
        if *rollout.prompt_token_ids != *plan.prompt_token_ids {
            return Err("the engine used another prompt than was sent".to_owned());
        }
        let response = flatten(&rollout.segments).map_err(|error| error.to_string())?;
        check_token_ids("segments", &response.token_ids, self.vocabulary_size).map_err(|error| error.to_string())?;
        if response.token_ids.len() > sampling.max_tokens as usize {
            let (tokens, most) = (response.token_ids.len(), sampling.max_tokens);
            return Err(format!("the response has {tokens} tokens, allowed: at most {most}"));
        }
        match (self.policy_version, response.policy_versions) {
            (None, _) => {}
            (Some(wanted), Some(versions)) if versions == (wanted..=wanted) => {}
            (Some(wanted), found) => {
                return Err(format!("it was sampled by version {found:?}, requested was {wanted}"));
            }
        }
        let plain = sampling.temperature == 1.0 && sampling.is_untruncated() && sampling.repetition_penalty == 1.0;
        if self.for_training && !plain && rollout.log_probability_mode() == LogProbabilityMode::Raw {
            let message =
                "the engine returns log-probabilities of the raw logits, allowed with this sampling: processed ones";
            return Err(format!("{message} (vLLM: --logprobs-mode processed_logprobs)"));
        }
        Ok(response.token_ids.len())
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_proto::v1::Segment;
    use evenkeel_proto::{GroupId, Purpose, SamplingSettings};

    use super::*;
    use crate::rollout::group::GroupSampling;

    fn plan() -> GroupPlan {
        with_temperature(1.0)
    }

    fn with_temperature(temperature: f32) -> GroupPlan {
        let id = GroupId { purpose: Purpose::Train, step: 0, prompt: 0 };
        let settings = SamplingSettings { temperature, ..SamplingSettings::plain(4, 0) };
        GroupPlan {
            id,
            prompt_token_ids: vec![5].into(),
            task: evenkeel_tasks::Task::math(["1".to_owned()]).unwrap(),
            named: None,
            data_source: "sums".into(),
            sampling: GroupSampling { settings, samples: 1 }.into(),
        }
    }

    fn rollout() -> Rollout {
        Rollout {
            prompt_token_ids: vec![5],
            segments: vec![Segment::sampled(vec![6, 1], vec![-0.5, -0.1], 3)],
            finish_reason: FinishReason::Stop.into(),
            log_probability_mode: LogProbabilityMode::Raw.into(),
            ..Rollout::default()
        }
    }

    fn requirements() -> Requirements {
        Requirements { policy_version: Some(3), vocabulary_size: 10, for_training: true }
    }

    #[test]
    fn the_requested_sample_passes() {
        assert_eq!(requirements().validate(&rollout(), &plan()), Ok(2));
    }

    #[test]
    fn any_version_passes_where_none_was_requested() {
        let any = Requirements { policy_version: None, ..requirements() };
        assert_eq!(any.validate(&rollout(), &plan()), Ok(2));
        let mut mixed = rollout();
        mixed.segments[0].policy_version = Some(7);
        assert_eq!(any.validate(&mixed, &plan()), Ok(2));
    }

    #[test]
    fn every_difference_is_named() {
        type Case = (fn(&mut Rollout), &'static str);
        let cases: [Case; 6] = [
            (|r| r.prompt_token_ids = vec![4], "another prompt"),
            (|r| r.segments[0].token_ids[0] = 10, "vocabulary size"),
            (|r| r.segments[0].policy_version = Some(2), "sampled by version"),
            (|r| r.segments.clear(), "segments is empty"),
            (|r| r.finish_reason = FinishReason::Aborted.into(), "ABORTED"),
            (|r| r.segments.push(Segment::sampled(vec![1; 3], vec![-0.1; 3], 3)), "at most 4"),
        ];
        for (change, words) in cases {
            let mut other = rollout();
            change(&mut other);
            let error = requirements().validate(&other, &plan()).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        let (mut warm, plan) = (requirements(), with_temperature(0.7));
        assert!(warm.validate(&rollout(), &plan).unwrap_err().contains("processed"));
        warm.for_training = false;
        assert!(warm.validate(&rollout(), &plan).is_ok());
    }
}
