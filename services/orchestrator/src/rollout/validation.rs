//! Whether a rollout is the sample that was requested. Anything else must not be trained on.

use std::sync::Arc;

use evenkeel_proto::v1::{FinishReason, LogProbabilityMode, Rollout};
use evenkeel_proto::{FieldError, FlatResponse, engine_advice, flatten, validate_token_ids};

use super::group_request::GroupRequest;
use super::response_part::ResponsePart;

/// How a rollout differs from the sample that was requested.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum RolloutMismatch {
    /// Segments are malformed, or hold tokens outside the vocabulary.
    #[error(transparent)]
    Segments(#[from] FieldError),
    /// The answer did not end by itself.
    #[error("its finish reason is {}", .0.as_str_name())]
    FinishReason(FinishReason),
    /// A stop after a token that ends no response: the answers of an engine that leaves the end out would be trained on
    /// as if the policy never ended one.
    #[error(
        "it has stopped after token {last}, allowed: after one of the model's end tokens {ends:?}, or of \
         sampling.stop_token_ids {stops:?}, which belongs to the response"
    )]
    NoEnd {
        /// Last token of the response.
        last: u32,
        /// The end tokens of the model's folder.
        ends: Vec<u32>,
        /// The stop tokens that were requested.
        stops: Vec<u32>,
    },
    /// An answer to another prompt.
    #[error("the engine used another prompt than was sent")]
    Prompt,
    /// The answer does not begin with the response so far.
    #[error("it does not continue the response that was sent")]
    Prefix,
    /// The answer adds nothing, or more than was requested.
    #[error("{added} tokens were added to the response, allowed: 1 to {allowed}")]
    Length {
        /// Tokens after the response that was sent.
        added: usize,
        allowed: u32,
    },
    /// Other weights sampled it. Each version comes with the tokens that it sampled.
    #[error("it was sampled by versions (with tokens) {found:?}, requested were {requested:?}")]
    Versions {
        /// What the rollout has.
        found: Vec<(u64, usize)>,
        requested: Vec<(u64, usize)>,
    },
    /// Log-probabilities are those of another distribution than was sampled.
    #[error(
        "the engine returns log-probabilities of the raw logits, allowed with this sampling: processed ones ({})",
        engine_advice::PROCESSED_LOG_PROBABILITIES
    )]
    RawLogProbabilities,
}

/// What a rollout must satisfy.
#[derive(Debug, Clone)]
pub(super) struct Requirements {
    /// Token ids are below it.
    pub(super) vocabulary_size: u32,
    /// The tokens that end a response; empty if they are not known.
    pub(super) ends: Arc<[u32]>,
    /// The learner uses the log-probabilities, so they must be those of the distribution that was sampled.
    pub(super) for_training: bool,
}

impl Requirements {
    /// Returns the number of response tokens so far. `part` was requested.
    ///
    /// # Errors
    /// What differs from the request.
    pub(super) fn validate(
        &self,
        rollout: &Rollout,
        request: &GroupRequest,
        part: &ResponsePart,
    ) -> Result<usize, RolloutMismatch> {
        let reason = rollout.finish_reason();
        let sampling = &part.sampling;
        if !matches!(reason, FinishReason::Stop | FinishReason::Length | FinishReason::Repetition) {
            return Err(RolloutMismatch::FinishReason(reason));
        }
        if *rollout.prompt_token_ids != *part.prompt_in(request) {
            return Err(RolloutMismatch::Prompt);
        }
        let response = flatten(&rollout.segments)?;
        validate_token_ids("segments", &response.token_ids, self.vocabulary_size)?;
        let before = flatten(&part.before)?;
        if !begins_with(&response, &before) {
            return Err(RolloutMismatch::Prefix);
        }
        let tokens = response.token_ids.len() - before.token_ids.len();
        if tokens == 0 || tokens > sampling.max_tokens as usize {
            return Err(RolloutMismatch::Length { added: tokens, allowed: sampling.max_tokens });
        }
        let may_end = |last: &u32| self.ends.contains(last) || sampling.stop_token_ids.contains(last);
        if let Some(last) = response.token_ids.last().filter(|last| reason == FinishReason::Stop && !may_end(last))
            && !self.ends.is_empty()
        {
            let ends = self.ends.to_vec();
            return Err(RolloutMismatch::NoEnd { last: *last, ends, stops: sampling.stop_token_ids.clone() });
        }
        if let Some(version) = part.version() {
            let mut requested = before.versions;
            match requested.last_mut() {
                Some((last, count)) if *last == version => *count += tokens,
                _ => requested.push((version, tokens)),
            }
            if response.versions != requested {
                return Err(RolloutMismatch::Versions { found: response.versions, requested });
            }
        }
        let plain = sampling.temperature == 1.0 && sampling.is_untruncated() && sampling.repetition_penalty == 1.0;
        if self.for_training && !plain && rollout.log_probability_mode() == LogProbabilityMode::Raw {
            return Err(RolloutMismatch::RawLogProbabilities);
        }
        Ok(response.token_ids.len())
    }
}

fn begins_with(response: &FlatResponse, before: &FlatResponse) -> bool {
    response.token_ids.starts_with(&before.token_ids)
        && response.log_probabilities.starts_with(&before.log_probabilities)
        && response.trainable.starts_with(&before.trainable)
}

#[cfg(test)]
mod tests {
    use evenkeel_proto::v1::{Segment, WeightsRef};
    use evenkeel_proto::{GroupId, Purpose, SamplingSettings};

    use super::*;
    use crate::rollout::group_request::GroupSampling;

    fn request() -> GroupRequest {
        with_temperature(1.0)
    }

    fn with_temperature(temperature: f32) -> GroupRequest {
        let id = GroupId { purpose: Purpose::Train, step: 1, prompt: 0 };
        let settings = SamplingSettings { temperature, ..SamplingSettings::plain(4, 0) };
        GroupRequest {
            id,
            prompt_token_ids: vec![5].into(),
            hinted: None,
            task: evenkeel_data::Task::math(["1".to_owned()]).unwrap(),
            environment: None,
            asked: None,
            named: None,
            data_source: "sums".into(),
            problem: ("sums#0".into(), 0),
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

    /// The whole response by that version.
    fn part(version: Option<u64>, request: &GroupRequest) -> ResponsePart {
        let weights = version.map(|version| WeightsRef::at_path(version, "sha256:ab", "/w", 0));
        let sampling = request.sampling.settings.clone();
        ResponsePart { weights, prompt: None, before: Vec::new(), engine: String::new(), sampling, is_last: true }
    }

    fn validate(rollout: &Rollout, version: Option<u64>) -> Result<usize, RolloutMismatch> {
        requirements().validate(rollout, &request(), &part(version, &request()))
    }

    fn requirements() -> Requirements {
        Requirements { vocabulary_size: 10, ends: [1].into(), for_training: true }
    }

    #[test]
    fn the_requested_sample_passes() {
        assert_eq!(validate(&rollout(), Some(3)), Ok(2));
    }

    #[test]
    fn a_response_that_stops_ends_with_a_token_that_may_end_it() {
        let ended_by = |last: u32, reason: FinishReason, stops: &[u32]| {
            let segments = vec![Segment::sampled(vec![6, last], vec![-0.5, -0.1], 3)];
            let request = request();
            let mut part = part(Some(3), &request);
            part.sampling.stop_token_ids = stops.to_vec();
            requirements().validate(&Rollout { segments, finish_reason: reason.into(), ..rollout() }, &request, &part)
        };
        assert_eq!(ended_by(7, FinishReason::Stop, &[7]), Ok(2));
        assert_eq!(ended_by(7, FinishReason::Length, &[]), Ok(2));
        let cut = ended_by(7, FinishReason::Stop, &[8]).unwrap_err();
        assert_eq!(cut, RolloutMismatch::NoEnd { last: 7, ends: vec![1], stops: vec![8] });
        let nobody_knows = Requirements { ends: [].into(), ..requirements() };
        let cut = Rollout { segments: vec![Segment::sampled(vec![6], vec![-0.5], 3)], ..rollout() };
        assert_eq!(nobody_knows.validate(&cut, &request(), &part(Some(3), &request())), Ok(1));
    }

    #[test]
    fn any_version_passes_where_none_was_requested() {
        assert_eq!(validate(&rollout(), None), Ok(2));
        let mut mixed = rollout();
        mixed.segments[0].policy_version = Some(7);
        assert_eq!(validate(&mixed, None), Ok(2));
    }

    #[test]
    fn a_turn_with_a_prompt_of_its_own_is_sampled_after_that_one() {
        let part = ResponsePart { prompt: Some(vec![8, 9].into()), ..part(Some(3), &request()) };
        let after = |prompt: &[u32]| {
            let rollout = Rollout { prompt_token_ids: prompt.to_vec(), ..rollout() };
            requirements().validate(&rollout, &request(), &part)
        };
        assert_eq!((after(&[8, 9]), after(&[5])), (Ok(2), Err(RolloutMismatch::Prompt)));
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
            (
                |r| r.segments.push(Segment::sampled(vec![1; 3], vec![-0.1; 3], 3)),
                "5 tokens were added to the response, allowed: 1 to 4",
            ),
        ];
        for (change, words) in cases {
            let mut other = rollout();
            change(&mut other);
            let error = validate(&other, Some(3)).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        let mut warm = requirements();
        let request = with_temperature(0.7);
        let part = part(Some(3), &request);
        assert_eq!(warm.validate(&rollout(), &request, &part), Err(RolloutMismatch::RawLogProbabilities));
        warm.for_training = false;
        assert!(warm.validate(&rollout(), &request, &part).is_ok());
    }

    #[test]
    fn a_later_part_continues_what_was_sent_and_nothing_else() {
        let before = vec![Segment::sampled(vec![4, 7], vec![-0.5, -0.2], 3)];
        let whole = part(Some(4), &request());
        let part = ResponsePart { before: before.clone(), sampling: whole.sampling.rest(2), ..whole };
        let continued =
            |segments: Vec<Segment>| requirements().validate(&Rollout { segments, ..rollout() }, &request(), &part);
        let added = Segment::sampled(vec![1], vec![-0.1], 4);
        assert_eq!(continued(vec![before[0].clone(), added.clone()]), Ok(3));
        let mut other = before[0].clone();
        other.log_probabilities[1] = -0.3;
        for (segments, words) in [
            (vec![added.clone()], "does not continue"),
            (vec![other, added.clone()], "does not continue"),
            (before.clone(), "0 tokens were added"),
            (vec![Segment::sampled(vec![4, 7, 1], vec![-0.5, -0.2, -0.1], 3)], "sampled by versions"),
            (vec![Segment { policy_version: Some(2), ..before[0].clone() }, added], "sampled by versions"),
        ] {
            let error = continued(segments).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
