//! Validation of an item before it costs anything.

use evenkeel_proto::v1::GenerateItem;
use evenkeel_proto::{FieldError, SamplingSettings, flatten, validate_token_ids};

#[derive(Debug, Clone)]
pub(super) struct Plan {
    /// The prompt, and the response so far.
    pub(super) token_ids: Vec<u32>,
    /// `max_tokens` fits the context.
    pub(super) sampling: SamplingSettings,
}

/// What items have to fit.
#[derive(Debug, Clone, Copy)]
pub(super) struct PlanLimits {
    pub(super) context_tokens: u32,
    /// Size of the vocabulary; `None` if unknown.
    pub(super) vocabulary_size: Option<u32>,
    /// The lowest temperature above 0 that every engine samples at.
    pub(super) min_temperature: f32,
}

impl Plan {
    /// Refuses what no engine could sample correctly.
    pub(super) fn new(item: &GenerateItem, limits: PlanLimits) -> Result<Self, FieldError> {
        let vocabulary = limits.vocabulary_size.unwrap_or(u32::MAX);
        validate_token_ids("prompt_token_ids", &item.prompt_token_ids, vocabulary)?;
        let prefix = flatten(&item.prefix_segments)
            .map_err(|error| FieldError { field: format!("prefix_{}", error.field), ..error })?;
        if !prefix.token_ids.is_empty() {
            validate_token_ids("prefix_segments[].token_ids", &prefix.token_ids, vocabulary)?;
        }
        let sampling = item.sampling.as_ref().ok_or_else(|| FieldError::missing("sampling", "settings"))?;
        let sampling = SamplingSettings::try_from(sampling).map_err(|error| error.within("sampling"))?;
        let lowest = limits.min_temperature;
        if sampling.temperature > 0.0 && sampling.temperature < lowest {
            let allowed = format!("0, or at least {lowest}, below which engines round");
            return Err(FieldError::new("sampling.temperature", sampling.temperature, allowed));
        }
        if !sampling.stop_token_ids.is_empty() {
            validate_token_ids("sampling.stop_token_ids", &sampling.stop_token_ids, vocabulary)?;
        }
        let taken = item.prompt_token_ids.len() + prefix.token_ids.len();
        let context = limits.context_tokens as usize;
        if taken >= context {
            let value = format!("{taken} ids with prefix_segments");
            return Err(FieldError::new(
                "prompt_token_ids",
                value,
                format!("at most {}, since the context is {context}", context.saturating_sub(1)),
            ));
        }
        // The context ends a sample as `max_tokens` does; engines refuse what might not fit.
        let left = u32::try_from(context - taken).unwrap_or(u32::MAX);
        let sampling = sampling.at_most(left);
        let token_ids = [item.prompt_token_ids.as_slice(), &prefix.token_ids].concat();
        Ok(Self { token_ids, sampling })
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_proto::v1::Segment;

    use super::*;

    const LIMITS: PlanLimits = PlanLimits { context_tokens: 10, vocabulary_size: Some(100), min_temperature: 0.01 };

    fn item() -> GenerateItem {
        GenerateItem {
            sample_id: "a".into(),
            prompt_token_ids: vec![1, 2, 3],
            sampling: Some(SamplingSettings::plain(4, 1).into()),
            ..GenerateItem::default()
        }
    }

    fn refused(change: impl Fn(&mut GenerateItem)) -> String {
        let mut item = item();
        change(&mut item);
        Plan::new(&item, LIMITS).unwrap_err().to_string()
    }

    #[test]
    fn a_plan_continues_the_prefix_and_fits_the_context() {
        let mut item = item();
        item.prefix_segments = vec![Segment::sampled(vec![4, 5], vec![-1.0, -1.0], 0), Segment::injected(vec![6])];
        item.sampling.as_mut().unwrap().max_tokens = Some(50);
        let plan = Plan::new(&item, LIMITS).unwrap();
        assert_eq!(plan.token_ids, [1, 2, 3, 4, 5, 6]);
        assert_eq!(plan.sampling.max_tokens, 4);
    }

    #[test]
    fn refusals_name_the_field() {
        assert_eq!(refused(|i| i.prompt_token_ids.clear()), "prompt_token_ids is empty, allowed: at least one id");
        assert_eq!(
            refused(|i| i.prompt_token_ids[1] = 100),
            "prompt_token_ids[1] is 100, allowed: an id below the vocabulary size 100"
        );
        assert_eq!(
            refused(|i| i.prompt_token_ids = vec![1; 10]),
            "prompt_token_ids is 10 ids with prefix_segments, allowed: at most 9, since the context is 10"
        );
        assert_eq!(refused(|i| i.sampling = None), "sampling is absent, required: settings");
        assert_eq!(
            refused(|i| i.sampling.as_mut().unwrap().max_tokens = Some(0)),
            "sampling.max_tokens is 0, allowed: at least 1"
        );
        assert!(
            refused(|i| i.sampling.as_mut().unwrap().temperature = Some(0.001))
                .starts_with("sampling.temperature is 0.001")
        );
        assert!(
            refused(|i| i.sampling.as_mut().unwrap().stop_token_ids = vec![5, 200])
                .starts_with("sampling.stop_token_ids[1] is 200")
        );
        assert!(
            refused(|i| i.prefix_segments = vec![Segment::injected(vec![])])
                .starts_with("prefix_segments[0].token_ids is empty")
        );
    }
}
