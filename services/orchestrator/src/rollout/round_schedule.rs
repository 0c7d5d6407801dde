//! Which rounds of a step sample which part of which response.

use std::ops::RangeInclusive;

use evenkeel_proto::SamplingSettings;

use crate::settings::LoopSettings;

/// The rounds of a step that sample the responses of a group, one part each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RoundSpan {
    first: usize,
    last: usize,
    /// Tokens of each part but the last one, which is whatever is left.
    tokens: u32,
}

impl RoundSpan {
    /// All of a response in that round.
    pub(crate) fn whole(round: usize) -> Self {
        Self { first: round, last: round, tokens: u32::MAX }
    }

    /// The rounds, in order.
    pub(crate) fn range(self) -> RangeInclusive<usize> {
        self.first..=self.last
    }

    /// How the part of that round is sampled, of a response that has `sampled` tokens so far and is sampled as `whole` in all.
    pub(super) fn sampling(self, whole: &SamplingSettings, round: usize, sampled: u32) -> SamplingSettings {
        let rest = whole.rest(sampled);
        if round < self.last { rest.at_most(self.tokens) } else { rest }
    }
}

/// How a step divides among its rounds, which are sampled with successive weights. The position of a prompt in the data order decides,
/// counted from the first one of the step, and that of a token in its response; neither the order in which samples end nor the number of
/// engines does.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RoundSchedule {
    /// Groups that make the step.
    groups: u64,
    /// How many of them, the last ones, begin with the second round.
    later: u64,
    /// Rounds that may sample parts of one response, 1 or more.
    parts_per_answer: usize,
    /// Tokens of each of these parts but the last one.
    tokens: u32,
}

impl RoundSchedule {
    /// The schedule that the settings ask for.
    pub(crate) fn new(settings: &LoopSettings) -> Self {
        let (pipeline, sampling) = (&settings.pipeline, &settings.sampling);
        let versions = if pipeline.partial { pipeline.max_versions.max(1) } else { 1 };
        Self {
            groups: sampling.prompts_per_step.into(),
            later: pipeline.split.into(),
            parts_per_answer: versions as usize,
            // Parts of equal length: no switch of weights waits for more tokens of a response than it must.
            tokens: sampling.max_tokens.div_ceil(versions),
        }
    }

    /// Prompts that a step begins with.
    pub(crate) fn groups(self) -> u64 {
        self.groups
    }

    /// Rounds of a step, 1 or more.
    pub(crate) fn rounds(self) -> usize {
        self.parts_per_answer + usize::from(self.later > 0)
    }

    /// The rounds that sample the group at that position of a step, from 0. A prompt beyond the groups of the step is tried in place of one
    /// that was filtered, which shows late: it is left to the last round.
    pub(crate) fn rounds_of(self, position: u64) -> RoundSpan {
        if position >= self.groups {
            return RoundSpan::whole(self.rounds() - 1);
        }
        let first = usize::from(self.later > 0 && position >= self.groups - self.later);
        RoundSpan { first, last: first + self.parts_per_answer - 1, tokens: self.tokens }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn schedule(groups: u32, split: u32, versions: u32, max_tokens: u32) -> RoundSchedule {
        let mut settings = LoopSettings::default();
        settings.sampling.prompts_per_step = groups;
        settings.sampling.max_tokens = max_tokens;
        settings.pipeline.split = split;
        settings.pipeline.partial = versions > 1;
        settings.pipeline.max_versions = versions;
        RoundSchedule::new(&settings)
    }

    fn rounds(schedule: RoundSchedule, positions: std::ops::Range<u64>) -> Vec<(usize, usize)> {
        positions.map(|position| schedule.rounds_of(position).range().into_inner()).collect()
    }

    #[test]
    fn without_a_split_one_round_samples_everything() {
        let whole = schedule(4, 0, 1, 80);
        assert_eq!((whole.rounds(), rounds(whole, 0..6)), (1, vec![(0, 0); 6]));
    }

    #[test]
    fn a_split_leaves_the_last_groups_and_replacements_to_the_second_round() {
        let split = schedule(4, 1, 1, 80);
        assert_eq!((split.rounds(), rounds(split, 2..6)), (2, vec![(0, 0), (1, 1), (1, 1), (1, 1)]));
    }

    #[test]
    fn partial_answers_go_through_successive_rounds_and_replacements_through_the_last() {
        let partial = schedule(4, 0, 3, 80);
        assert_eq!((partial.rounds(), rounds(partial, 3..5)), (3, vec![(0, 2), (2, 2)]));
        let both = schedule(4, 1, 2, 80);
        assert_eq!((both.rounds(), rounds(both, 2..5)), (3, vec![(0, 1), (1, 2), (2, 2)]));
    }

    #[test]
    fn the_first_part_of_an_answer_has_its_seed_and_later_ones_their_own() {
        let whole = SamplingSettings { min_tokens: 30, ..SamplingSettings::plain(50, 7) };
        let span = schedule(4, 0, 2, 50).rounds_of(0);
        let [first, second] = [(0, 0), (1, 25)].map(|(round, sampled)| span.sampling(&whole, round, sampled));
        assert_eq!((first.max_tokens, first.min_tokens, first.seed), (25, 25, 7));
        assert_eq!((second.max_tokens, second.min_tokens), (25, 5));
        assert_ne!(second.seed, 7);
        assert_eq!(RoundSpan::whole(3).sampling(&whole, 3, 0), whole);
    }

    proptest! {
        #[test]
        fn every_token_of_an_answer_belongs_to_one_part_and_no_part_is_longer_than_it_must(
            max_tokens in 1..5000_u32, versions in 1..9_u32, position in 0..6_u64,
        ) {
            let versions = versions.min(max_tokens);
            let span = schedule(4, 0, versions, max_tokens).rounds_of(position);
            let whole = SamplingSettings::plain(max_tokens, 1);
            let mut sampled = 0;
            for round in span.range() {
                if sampled == max_tokens {
                    break;
                }
                let part = span.sampling(&whole, round, sampled);
                prop_assert!(position >= 4 || part.max_tokens <= max_tokens.div_ceil(versions));
                sampled += part.max_tokens;
            }
            prop_assert_eq!(sampled, max_tokens);
        }
    }
}
