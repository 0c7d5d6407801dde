//! From segments to tokens: the flat response with its loss mask and log-probabilities, checked on the way.

use std::ops::RangeInclusive;

use crate::FieldError;
use crate::v1::{Segment, SegmentSource};

/// A whole response, one entry for each token.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FlatResponse {
    /// The tokens.
    pub token_ids: Vec<u32>,
    /// Whether the policy sampled the token; exactly these are trained on.
    pub trainable: Vec<bool>,
    /// Natural logarithms of the probabilities that they were sampled with; 0 where not trainable.
    pub log_probabilities: Vec<f32>,
    /// Oldest and newest version that sampled a token. `None` where none was sampled.
    pub policy_versions: Option<RangeInclusive<u64>>,
    /// The versions that sampled the trainable tokens, in their order, each with how many in a row are its own.
    pub versions: Vec<(u64, usize)>,
}

impl Segment {
    /// Tokens that the policy of this version sampled, with the log-probability of each.
    pub fn sampled(token_ids: Vec<u32>, log_probabilities: Vec<f32>, policy_version: u64) -> Self {
        let source = SegmentSource::Sampled.into();
        Self { source, token_ids, log_probabilities, policy_version: Some(policy_version), ..Self::default() }
    }

    /// Injected tokens.
    pub fn injected(token_ids: Vec<u32>) -> Self {
        Self { source: SegmentSource::Injected.into(), token_ids, ..Self::default() }
    }
}

/// Adds a sampled segment to the end of a response: to its last one where that was sampled by the same engine, version,
/// arithmetic and seed, otherwise as a segment of its own.
pub fn append_sampled(segments: &mut Vec<Segment>, sampled: Segment) {
    if sampled.token_ids.is_empty() {
        return;
    }
    match segments.last_mut() {
        Some(last)
            if last.source() == SegmentSource::Sampled
                && last.policy_version == sampled.policy_version
                && last.engine == sampled.engine
                && last.arithmetic == sampled.arithmetic
                && last.seed == sampled.seed =>
        {
            last.token_ids.extend(sampled.token_ids);
            last.log_probabilities.extend(sampled.log_probabilities);
        }
        _ => segments.push(sampled),
    }
}

/// The arithmetic, by its name, that all sampled tokens of segments were drawn with. `None` where engines named none or
/// several.
pub fn arithmetic_of<'a>(segments: impl IntoIterator<Item = &'a Segment>) -> Option<&'a str> {
    let mut sampled = segments.into_iter().filter(|segment| segment.source() == SegmentSource::Sampled);
    let first = sampled.next().map(|segment| segment.arithmetic.as_str()).filter(|name| !name.is_empty())?;
    sampled.all(|segment| segment.arithmetic == first).then_some(first)
}

/// One segment after the other as one response. An empty list is an empty response, which the caller judges.
pub fn flatten(segments: &[Segment]) -> Result<FlatResponse, FieldError> {
    let total = segments.iter().map(|segment| segment.token_ids.len()).sum();
    let mut response = FlatResponse {
        token_ids: Vec::with_capacity(total),
        trainable: Vec::with_capacity(total),
        log_probabilities: Vec::with_capacity(total),
        policy_versions: None,
        versions: Vec::new(),
    };
    for (index, segment) in segments.iter().enumerate() {
        append(&mut response, segment).map_err(|error| error.within(format_args!("segments[{index}]")))?;
    }
    Ok(response)
}

fn append(response: &mut FlatResponse, segment: &Segment) -> Result<(), FieldError> {
    let count = segment.token_ids.len();
    if count == 0 {
        return Err(FieldError::new("token_ids", "empty", "at least one id"));
    }
    let given = segment.log_probabilities.len();
    match SegmentSource::try_from(segment.source) {
        Ok(SegmentSource::Sampled) => {
            if given != count {
                return Err(FieldError::new(
                    "log_probabilities",
                    format_args!("{given} values"),
                    format!("one for each of {count} sampled token ids"),
                ));
            }
            if let Some(index) =
                segment.log_probabilities.iter().position(|&value| !(value.is_finite() && value <= 0.0))
            {
                let value = segment.log_probabilities[index];
                return Err(FieldError::new(
                    format!("log_probabilities[{index}]"),
                    value,
                    "a finite number, at most 0",
                ));
            }
            let Some(version) = segment.policy_version else {
                return Err(FieldError::missing("policy_version", "the version that sampled the segment"));
            };
            response.policy_versions = Some(match response.policy_versions.take() {
                None => version..=version,
                Some(range) => version.min(*range.start())..=version.max(*range.end()),
            });
            match response.versions.last_mut() {
                Some((last, tokens)) if *last == version => *tokens += count,
                _ => response.versions.push((version, count)),
            }
            response.trainable.resize(response.trainable.len() + count, true);
            response.log_probabilities.extend_from_slice(&segment.log_probabilities);
        }
        Ok(SegmentSource::Injected) => {
            if given != 0 {
                return Err(FieldError::new(
                    "log_probabilities",
                    format_args!("{given} values"),
                    "none for injected tokens",
                ));
            }
            if let Some(version) = segment.policy_version {
                return Err(FieldError::new("policy_version", version, "absent for injected tokens"));
            }
            response.trainable.resize(response.trainable.len() + count, false);
            response.log_probabilities.resize(response.log_probabilities.len() + count, 0.0);
        }
        Ok(SegmentSource::Unspecified) | Err(_) => {
            return Err(FieldError::new(
                "source",
                segment.source,
                "SEGMENT_SOURCE_SAMPLED (1) or SEGMENT_SOURCE_INJECTED (2)",
            ));
        }
    }
    response.token_ids.extend_from_slice(&segment.token_ids);
    Ok(())
}

/// Refuses an empty list and ids outside the vocabulary.
pub fn validate_token_ids(field: &str, token_ids: &[u32], vocabulary_size: u32) -> Result<(), FieldError> {
    if token_ids.is_empty() {
        return Err(FieldError::new(field, "empty", "at least one id"));
    }
    match token_ids.iter().position(|&id| id >= vocabulary_size) {
        None => Ok(()),
        Some(index) => {
            let allowed = format!("an id below the vocabulary size {vocabulary_size}");
            Err(FieldError::new(format!("{field}[{index}]"), token_ids[index], allowed))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_turn_between_two_versions_becomes_one_masked_response() {
        let segments = [
            Segment::sampled(vec![1, 2], vec![-0.5, -1.0], 7),
            Segment::injected(vec![3]),
            Segment::sampled(vec![4], vec![0.0], 5),
        ];
        let response = flatten(&segments).unwrap();
        assert_eq!(response.token_ids, [1, 2, 3, 4]);
        assert_eq!(response.trainable, [true, true, false, true]);
        assert_eq!(response.log_probabilities, [-0.5, -1.0, 0.0, 0.0]);
        assert_eq!(response.policy_versions, Some(5..=7));
        assert_eq!(response.versions, [(7, 2), (5, 1)]);
    }

    #[test]
    fn tokens_of_one_version_on_both_sides_of_a_tool_turn_are_one_run() {
        let segments = [
            Segment::sampled(vec![1], vec![-0.5], 7),
            Segment::injected(vec![3]),
            Segment::sampled(vec![4], vec![0.0], 7),
        ];
        assert_eq!(flatten(&segments).unwrap().versions, [(7, 2)]);
    }

    #[test]
    fn nothing_is_an_empty_response() {
        assert_eq!(flatten(&[]).unwrap(), FlatResponse::default());
    }

    #[test]
    fn refusals_name_segment_index_and_value() {
        let good = Segment::sampled(vec![1], vec![-1.0], 0);
        let refused = |segment: Segment| flatten(&[good.clone(), segment]).unwrap_err().to_string();
        for (value, said) in [(f32::NAN, "NaN"), (0.25, "0.25"), (f32::NEG_INFINITY, "-inf")] {
            assert_eq!(
                refused(Segment::sampled(vec![1, 2], vec![-1.0, value], 0)),
                format!("segments[1].log_probabilities[1] is {said}, allowed: a finite number, at most 0")
            );
        }
        assert_eq!(
            refused(Segment::sampled(vec![1, 2], vec![-1.0], 0)),
            "segments[1].log_probabilities is 1 values, allowed: one for each of 2 sampled token ids"
        );
        assert_eq!(refused(Segment::injected(vec![])), "segments[1].token_ids is empty, allowed: at least one id");
        assert_eq!(
            refused(Segment { log_probabilities: vec![-1.0], ..Segment::injected(vec![1]) }),
            "segments[1].log_probabilities is 1 values, allowed: none for injected tokens"
        );
        assert_eq!(
            refused(Segment { policy_version: None, ..good.clone() }),
            "segments[1].policy_version is absent, required: the version that sampled the segment"
        );
        assert_eq!(
            refused(Segment { source: 9, ..good.clone() }),
            "segments[1].source is 9, allowed: SEGMENT_SOURCE_SAMPLED (1) or SEGMENT_SOURCE_INJECTED (2)"
        );
    }

    #[test]
    fn sampled_tokens_join_the_segment_of_their_engine_and_version() {
        let mut segments = vec![Segment::injected(vec![9])];
        let mut append = |id: u32, version| {
            append_sampled(&mut segments, Segment::sampled(vec![id], vec![-(id as f32)], version));
        };
        append(1, 3);
        append(2, 3);
        append(3, 4);
        append_sampled(&mut segments, Segment::sampled(vec![], vec![], 5));
        let named = Segment { arithmetic: "other".to_owned(), ..Segment::sampled(vec![4], vec![-4.0], 4) };
        append_sampled(&mut segments, named.clone());
        let of_another = Segment { engine: "b".to_owned(), ..named.clone() };
        append_sampled(&mut segments, of_another.clone());
        assert_eq!(
            segments,
            [
                Segment::injected(vec![9]),
                Segment::sampled(vec![1, 2], vec![-1.0, -2.0], 3),
                Segment::sampled(vec![3], vec![-3.0], 4),
                named,
                of_another
            ]
        );
    }

    #[test]
    fn ids_outside_the_vocabulary_are_named() {
        assert_eq!(validate_token_ids("prompt_token_ids", &[0, 9], 10), Ok(()));
        assert_eq!(
            validate_token_ids("prompt_token_ids", &[0, 10], 10).unwrap_err().to_string(),
            "prompt_token_ids[1] is 10, allowed: an id below the vocabulary size 10"
        );
        assert!(validate_token_ids("prompt_token_ids", &[], 10).is_err());
    }
}
