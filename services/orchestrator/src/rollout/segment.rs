//! How the tokens of a response divide among its segments.

use evenkeel_proto::SamplingSettings;

use crate::settings::LoopSettings;

/// The lengths of the segments of a response. The position of a token in its response decides which of them it is in,
/// and nothing else does.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SegmentTokens {
    count: u8,
    /// Tokens of each but the last, which is whatever is left.
    tokens: u32,
}

impl SegmentTokens {
    /// A response in one segment.
    pub(crate) const WHOLE: Self = Self { count: 1, tokens: u32::MAX };

    /// As the settings say: segments of equal length, so that no switch of weights waits for more tokens of a response
    /// than it must.
    pub(crate) fn new(settings: &LoopSettings) -> Self {
        let (pipeline, max_tokens) = (&settings.pipeline, settings.sampling.max_tokens);
        match pipeline.segment_tokens(max_tokens) {
            Some(tokens) => Self { count: pipeline.max_versions.clamp(1, u8::MAX.into()) as u8, tokens },
            None => Self { count: 1, tokens: max_tokens },
        }
    }

    /// How many there are at most.
    pub(crate) fn count(self) -> u8 {
        self.count
    }

    /// How a segment is sampled, of a response that has `sampled` tokens so far and is sampled as `whole` in all.
    pub(super) fn sampling(self, whole: &SamplingSettings, is_last: bool, sampled: u32) -> SamplingSettings {
        let rest = whole.rest(sampled);
        if is_last { rest } else { rest.at_most(self.tokens) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn segments(versions: u32, max_tokens: u32) -> SegmentTokens {
        let mut settings = LoopSettings::default();
        settings.sampling.max_tokens = max_tokens;
        settings.pipeline.partial = versions > 1;
        settings.pipeline.max_versions = versions;
        SegmentTokens::new(&settings)
    }

    #[test]
    fn the_first_segment_has_the_seed_of_its_response_and_later_ones_their_own() {
        let whole = SamplingSettings { min_tokens: 30, ..SamplingSettings::plain(50, 7) };
        let [first, second] =
            [(false, 0), (true, 25)].map(|(is_last, sampled)| segments(2, 50).sampling(&whole, is_last, sampled));
        assert_eq!((first.max_tokens, first.min_tokens, first.seed), (25, 25, 7));
        assert_eq!((second.max_tokens, second.min_tokens), (25, 5));
        assert_ne!(second.seed, 7);
        assert_eq!(SegmentTokens::WHOLE.sampling(&whole, true, 0), whole);
    }

    proptest! {
        #[test]
        fn every_token_of_a_response_belongs_to_one_segment_and_none_is_longer_than_it_must(
            max_tokens in 1..5000_u32, versions in 1..9_u32,
        ) {
            let versions = versions.min(max_tokens);
            let segments = segments(versions, max_tokens);
            let whole = SamplingSettings::plain(max_tokens, 1);
            let mut sampled = 0;
            for segment in 0..segments.count() {
                if sampled == max_tokens {
                    break;
                }
                let part = segments.sampling(&whole, segment + 1 == segments.count(), sampled);
                prop_assert!(part.max_tokens <= max_tokens.div_ceil(versions));
                sampled += part.max_tokens;
            }
            prop_assert_eq!(sampled, max_tokens);
        }
    }
}
