//! Checks of a training request that need nothing but the request.

use std::collections::BTreeSet;

use crate::FieldError;
use crate::segments::{FlatResponse, flatten};
use crate::v1::{RewardComponent, TrainGroup, TrainHeader, TrainKind, TrainSample, TurnContext};

/// Most components of a reward.
const MAX_COMPONENTS: usize = 64;
/// Most prompts of turns that have their own: a learner takes all sequences of a response at once.
const MAX_CONTEXTS: usize = 64;

impl TrainHeader {
    /// Refuses a header that can belong to no step.
    pub fn validate(&self) -> Result<(), FieldError> {
        if self.run_id.is_empty() {
            return Err(FieldError::missing("run_id", "the name of the run"));
        }
        if self.settings_hash.is_empty() {
            return Err(FieldError::missing("settings_hash", "the digest of the training settings"));
        }
        if self.step == 0 {
            return Err(FieldError::new("step", self.step, "1 or more"));
        }
        let groups = self.expected_groups;
        let examples = self.expected_examples;
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
    /// The responses of the samples, in their order. Refuses a group that no step can learn from, naming the field
    /// within it.
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
        if let (false, Some(correct)) = (self.valid, self.correct) {
            return Err(FieldError::new("correct", correct, "absent where the sample is not valid"));
        }
        self.validate_components()?;
        let response = flatten(&self.segments)?;
        if response.token_ids.is_empty() {
            return Err(FieldError::new("segments", "empty", "at least one token"));
        }
        self.validate_contexts()?;
        Ok(response)
    }

    /// Where each sequence of the response begins that has a prompt of its own: the index of its first token, and that
    /// prompt. The segments and contexts are valid.
    pub fn sequences(&self) -> impl Iterator<Item = (usize, &[u32])> {
        self.contexts.iter().map(|context| {
            let before = self.segments.iter().take(context.segment as usize);
            (before.map(|segment| segment.token_ids.len()).sum(), context.token_ids.as_slice())
        })
    }

    /// Refuses contexts that begin nothing.
    fn validate_contexts(&self) -> Result<(), FieldError> {
        let count = self.contexts.len();
        FieldError::ensure(count <= MAX_CONTEXTS, "contexts", count, format!("at most {MAX_CONTEXTS}"))?;
        let mut least = 0;
        for (index, TurnContext { segment, token_ids }) in self.contexts.iter().enumerate() {
            let within = |error: FieldError| error.within(format_args!("contexts[{index}]"));
            let most = self.segments.len().saturating_sub(1);
            if (*segment as usize) < least || *segment as usize > most {
                let allowed = format!("{least} to {most}, the index of a segment, ascending");
                return Err(within(FieldError::new("segment", segment, allowed)));
            }
            if token_ids.is_empty() {
                return Err(within(FieldError::new("token_ids", "empty", "at least one id")));
            }
            least = *segment as usize + 1;
        }
        Ok(())
    }

    fn validate_components(&self) -> Result<(), FieldError> {
        let count = self.components.len();
        FieldError::ensure(count <= MAX_COMPONENTS, "components", count, format!("at most {MAX_COMPONENTS}"))?;
        let mut names = BTreeSet::new();
        for (index, RewardComponent { name, weight, value }) in self.components.iter().enumerate() {
            let within = |error: FieldError| error.within(format_args!("components[{index}]"));
            if name.is_empty() {
                return Err(within(FieldError::missing("name", "the name of the component")));
            }
            if !names.insert(name) {
                return Err(within(FieldError::quoted("name", name, "a name that no other component has")));
            }
            for (field, number) in [("weight", *weight), ("value", *value)] {
                FieldError::ensure(number.is_finite(), field, number, "a finite number").map_err(within)?;
            }
        }
        Ok(())
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
            step: 1,
            expected_groups: 2,
            ..TrainHeader::default()
        }
    }

    fn sample() -> TrainSample {
        TrainSample {
            sample_id: "train/1/0/0".into(),
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
        assert_eq!(refused(TrainHeader { step: 0, ..header() }), "step");
        assert_eq!(refused(TrainHeader { kind: 0, ..header() }), "kind");
        assert_eq!(refused(TrainHeader { kind: TrainKind::Supervised.into(), ..header() }), "expected_examples");
    }

    #[test]
    fn components_have_names_and_numbers_of_their_own() {
        let component = |name: &str, weight, value| RewardComponent { name: name.to_owned(), weight, value };
        let with = |components: Vec<RewardComponent>| TrainSample { components, ..sample() }.response();
        assert!(with(vec![component("a", 1.0, 0.5), component("b", 2.0, -1.0)]).is_ok());
        for (components, words) in [
            (vec![component("a", 1.0, 0.5), component("a", 1.0, 0.5)], "components[1].name is \"a\""),
            (vec![component("", 1.0, 0.5)], "components[0].name is absent"),
            (vec![component("a", f64::NAN, 0.5)], "components[0].weight is NaN"),
            (vec![component("a", 1.0, f64::INFINITY)], "components[0].value is inf"),
            ((0..65).map(|at| component(&at.to_string(), 1.0, 0.0)).collect(), "components is 65, allowed: at most 64"),
        ] {
            let error = with(components).unwrap_err().to_string();
            assert!(error.starts_with(words), "{error}");
        }
    }

    #[test]
    fn contexts_begin_sequences_at_segments_one_after_the_other() {
        let segment = |token: u32| Segment::sampled(vec![token; 2], vec![-0.1; 2], 0);
        let segments: Vec<_> = (0..3).map(segment).collect();
        let with = |contexts: &[(u32, Vec<u32>)]| TrainSample {
            segments: segments.clone(),
            contexts: contexts
                .iter()
                .map(|(segment, token_ids)| TurnContext { segment: *segment, token_ids: token_ids.clone() })
                .collect(),
            ..sample()
        };
        let two = with(&[(1, vec![7]), (2, vec![8, 9])]);
        assert!(two.response().is_ok());
        assert_eq!(two.sequences().collect::<Vec<_>>(), [(2, &[7][..]), (4, &[8, 9][..])]);
        let own = with(&[(0, vec![7]), (1, vec![8])]);
        assert!(own.response().is_ok(), "no token follows the prompt of the group");
        assert_eq!(own.sequences().collect::<Vec<_>>(), [(0, &[7][..]), (2, &[8][..])]);
        for (contexts, words) in [
            (vec![(0, vec![7]), (0, vec![7])], "contexts[1].segment is 0, allowed: 1 to 2"),
            (vec![(3, vec![7])], "contexts[0].segment is 3, allowed: 0 to 2"),
            (vec![(2, vec![7]), (2, vec![7])], "contexts[1].segment is 2, allowed: 3 to 2"),
            (vec![(1, vec![])], "contexts[0].token_ids is empty"),
            (vec![(1, vec![7]); 65], "contexts is 65, allowed: at most 64"),
        ] {
            let error = with(&contexts).response().unwrap_err().to_string();
            assert!(error.starts_with(words), "{error}");
        }
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
        let unjudged = TrainSample { valid: false, raw_reward: None, shaped_reward: None, ..sample() };
        assert!(unjudged.response().is_ok());
        assert_eq!(
            refused(TrainSample { correct: Some(true), ..unjudged }),
            "correct is true, allowed: absent where the sample is not valid"
        );
    }

    #[test]
    fn a_refusal_is_named_from_the_group_on() {
        let broken = TrainSample { segments: vec![Segment::sampled(vec![5], vec![f32::NAN], 0)], ..sample() };
        let group = TrainGroup {
            group_id: "g".into(),
            prompt_token_ids: vec![1],
            samples: vec![sample(), broken],
            ..TrainGroup::default()
        };
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
