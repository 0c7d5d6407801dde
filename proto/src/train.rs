//! Checks of a training request that need nothing but the request.

use crate::FieldError;
use crate::segments::{FlatResponse, flatten};
use crate::v1::{TrainGroup, TrainHeader, TrainKind, TrainSample};

impl TrainHeader {
    /// Refuses a header that can belong to no step.
    pub fn validate(&self) -> Result<(), FieldError> {
        if self.run_id.is_empty() {
            return Err(FieldError::missing("run_id", "the name of the run"));
        }
        if self.settings_hash.is_empty() {
            return Err(FieldError::missing("settings_hash", "the digest of the training settings"));
        }
        let (groups, examples) = (self.expected_groups, self.expected_examples);
        match TrainKind::try_from(self.kind) {
            Ok(TrainKind::Grpo) if groups == 0 => Err(FieldError::new("expected_groups", groups, "at least 1")),
            Ok(TrainKind::Grpo) if examples != 0 => {
                Err(FieldError::new("expected_examples", examples, "0 for a GRPO step"))
            }
            Ok(TrainKind::Supervised) if examples == 0 => {
                Err(FieldError::new("expected_examples", examples, "at least 1"))
            }
            Ok(TrainKind::Supervised) if groups != 0 => {
                Err(FieldError::new("expected_groups", groups, "0 for a supervised step"))
            }
            Ok(TrainKind::Grpo | TrainKind::Supervised) => Ok(()),
            Ok(TrainKind::Unspecified) | Err(_) => {
                Err(FieldError::new("kind", self.kind, "TRAIN_KIND_GRPO (1) or TRAIN_KIND_SUPERVISED (2)"))
            }
        }
    }
}

impl TrainGroup {
    /// The responses of the samples, in their order. Refuses a group that no step can learn from, naming the field within it.
    pub fn responses(&self) -> Result<Vec<FlatResponse>, FieldError> {
        if self.group_id.is_empty() {
            return Err(FieldError::missing("group_id", "the id of the group"));
        }
        if self.prompt_token_ids.is_empty() {
            return Err(FieldError::new("prompt_token_ids", "empty", "at least one id"));
        }
        if self.samples.is_empty() {
            return Err(FieldError::new("samples", "empty", "at least one sample"));
        }
        let response = |(index, sample): (usize, &TrainSample)| {
            sample.response().map_err(|e| e.within(format_args!("samples[{index}]")))
        };
        self.samples.iter().enumerate().map(response).collect()
    }
}

impl TrainSample {
    /// The response. Refuses an empty one, and rewards that do not fit the validity.
    pub fn response(&self) -> Result<FlatResponse, FieldError> {
        if self.sample_id.is_empty() {
            return Err(FieldError::missing("sample_id", "the id of the sample"));
        }
        for (field, reward) in [("raw_reward", self.raw_reward), ("shaped_reward", self.shaped_reward)] {
            match reward {
                Some(reward) if !self.valid => {
                    return Err(FieldError::new(field, reward, "absent where the sample is not valid"));
                }
                Some(reward) if !reward.is_finite() => return Err(FieldError::new(field, reward, "a finite number")),
                None if self.valid => {
                    return Err(FieldError::missing(field, "a finite number where the sample is valid"));
                }
                Some(_) | None => {}
            }
        }
        let response = flatten(&self.segments)?;
        if response.token_ids.is_empty() {
            return Err(FieldError::new("segments", "empty", "at least one token"));
        }
        Ok(response)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::Segment;

    fn header() -> TrainHeader {
        TrainHeader {
            run_id: "r".into(),
            settings_hash: "h".into(),
            kind: TrainKind::Grpo.into(),
            expected_groups: 2,
            ..TrainHeader::default()
        }
    }

    fn sample() -> TrainSample {
        TrainSample {
            sample_id: "train/0/0/0".into(),
            segments: vec![Segment::sampled(vec![5], vec![-0.1], 0)],
            raw_reward: Some(1.0),
            shaped_reward: Some(0.9),
            valid: true,
            ..TrainSample::default()
        }
    }

    #[test]
    fn a_header_says_what_follows() {
        assert_eq!(header().validate(), Ok(()));
        let refused = |header: TrainHeader| header.validate().unwrap_err().field;
        assert_eq!(refused(TrainHeader { run_id: String::new(), ..header() }), "run_id");
        assert_eq!(refused(TrainHeader { settings_hash: String::new(), ..header() }), "settings_hash");
        assert_eq!(refused(TrainHeader { expected_groups: 0, ..header() }), "expected_groups");
        assert_eq!(refused(TrainHeader { expected_examples: 1, ..header() }), "expected_examples");
        assert_eq!(refused(TrainHeader { kind: 0, ..header() }), "kind");
        assert_eq!(refused(TrainHeader { kind: TrainKind::Supervised.into(), ..header() }), "expected_examples");
    }

    #[test]
    fn rewards_go_with_validity() {
        assert!(sample().response().is_ok());
        let refused = |sample: TrainSample| sample.response().unwrap_err().to_string();
        assert_eq!(
            refused(TrainSample { shaped_reward: None, ..sample() }),
            "shaped_reward is absent, required: a finite number where the sample is valid"
        );
        assert_eq!(
            refused(TrainSample { raw_reward: Some(f64::NAN), ..sample() }),
            "raw_reward is NaN, allowed: a finite number"
        );
        assert_eq!(
            refused(TrainSample { valid: false, ..sample() }),
            "raw_reward is 1, allowed: absent where the sample is not valid"
        );
    }

    #[test]
    fn a_refusal_is_named_from_the_group_on() {
        let broken = TrainSample { segments: vec![Segment::sampled(vec![5], vec![f32::NAN], 0)], ..sample() };
        let group =
            TrainGroup { group_id: "g".into(), index: 0, prompt_token_ids: vec![1], samples: vec![sample(), broken] };
        assert_eq!(
            group.responses().unwrap_err().to_string(),
            "samples[1].segments[0].log_probabilities[0] is NaN, allowed: a finite number, at most 0"
        );
    }

    #[test]
    fn an_empty_response_is_refused() {
        let error = TrainSample { segments: vec![], ..sample() }.response().unwrap_err();
        assert_eq!(error.to_string(), "segments is empty, allowed: at least one token");
    }
}
