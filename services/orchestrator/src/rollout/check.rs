//! Whether a rollout is the sample that was asked for. An engine that answers something else must not be trained on.

use evenkeel_proto::v1::{FinishReason, LogProbabilityMode, Rollout};
use evenkeel_proto::{SamplingSettings, check_token_ids, flatten};

use super::Plan;

/// What a rollout must agree with.
#[derive(Debug, Clone)]
pub(crate) struct Expected {
    /// The settings of the samples; their seeds differ.
    pub(crate) sampling: SamplingSettings,
    pub(crate) policy_version: u64,
    /// Ids are below it.
    pub(crate) vocabulary_size: u32,
    /// Log-probabilities are trained with, so that they must be those of the distribution that was drawn from.
    pub(crate) trained: bool,
}

impl Expected {
    /// The number of response tokens.
    pub(crate) fn check(&self, rollout: &Rollout, plan: &Plan) -> Result<usize, String> {
        let reason = rollout.finish_reason();
        if !matches!(reason, FinishReason::Stop | FinishReason::Length | FinishReason::Repetition) {
            return Err(format!("ended as {}", reason.as_str_name()));
        }
        if *rollout.prompt_token_ids != *plan.prompt_token_ids {
            return Err("the engine read another prompt than was sent".to_owned());
        }
        let response = flatten(&rollout.segments).map_err(|error| error.to_string())?;
        check_token_ids("segments", &response.token_ids, self.vocabulary_size).map_err(|error| error.to_string())?;
        if response.token_ids.len() > self.sampling.max_tokens as usize {
            let (tokens, most) = (response.token_ids.len(), self.sampling.max_tokens);
            return Err(format!("the response has {tokens} tokens, allowed: at most {most}"));
        }
        let wanted = self.policy_version;
        match response.policy_versions {
            Some(versions) if versions == (wanted..=wanted) => {}
            found => return Err(format!("it was sampled by version {found:?}, asked for was {wanted}")),
        }
        let plain = self.sampling.temperature == 1.0
            && self.sampling.is_untruncated()
            && self.sampling.repetition_penalty == 1.0;
        if self.trained && !plain && rollout.log_probability_mode() == LogProbabilityMode::Raw {
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
    use evenkeel_proto::{GroupId, Purpose};

    use super::*;

    fn plan() -> Plan {
        let id = GroupId { purpose: Purpose::Train, step: 0, prompt: 0 };
        Plan { id, prompt_token_ids: vec![5].into(), task: evenkeel_tasks::Task::math(["1".to_owned()]).unwrap() }
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

    fn expected() -> Expected {
        Expected { sampling: SamplingSettings::plain(4, 0), policy_version: 3, vocabulary_size: 10, trained: true }
    }

    #[test]
    fn the_sample_that_was_asked_for_passes() {
        assert_eq!(expected().check(&rollout(), &plan()), Ok(2));
    }

    #[test]
    fn anything_else_is_named() {
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
            let error = expected().check(&other, &plan()).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        let mut warm = expected();
        warm.sampling.temperature = 0.7;
        assert!(warm.check(&rollout(), &plan()).unwrap_err().contains("processed"));
        warm.trained = false;
        assert!(warm.check(&rollout(), &plan()).is_ok());
    }
}
