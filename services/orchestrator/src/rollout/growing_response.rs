//! The response of an episode as it grows: one list of tokens, or one for each turn whose prompt is its own.

use std::sync::Arc;

use evenkeel_proto::v1::{Segment, TurnContext};

/// What precedes the next turn.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum BeforeTurn {
    /// These tokens, which follow those before.
    Added(Vec<u32>),
    /// This prompt, and nothing else.
    Prompt(Vec<u32>),
}

/// A response so far.
#[derive(Debug, Default)]
pub(super) struct GrowingResponse {
    segments: Vec<Segment>,
    /// The prompts of turns that have their own.
    contexts: Vec<TurnContext>,
    /// Tokens of the prompt of the row.
    prompt: usize,
    /// Tokens that are lent to the turn that is sampled.
    lent: usize,
    /// Whether turns may have prompts of their own.
    rewrites: bool,
}

impl GrowingResponse {
    /// An empty one, to a prompt of that many tokens. `rewrites`: turns may have prompts of their own.
    pub(super) fn to_prompt(tokens: usize, rewrites: bool) -> Self {
        Self { prompt: tokens, rewrites, ..Self::default() }
    }

    /// The first turn follows this prompt, which may be the row's.
    pub(super) fn begin(&mut self, first_prompt: &[u32], prompt: Vec<u32>) {
        if prompt != first_prompt {
            self.contexts.push(TurnContext { segment: 0, token_ids: prompt });
        }
    }

    /// The prompt of the turn that is sampled, unless that is the row's.
    pub(super) fn own_prompt(&self) -> Option<Arc<[u32]>> {
        self.contexts.last().map(|context| context.token_ids.as_slice().into())
    }

    /// What was sampled and added since that prompt, for the turn that goes on from it: it comes back with
    /// [`Self::take`].
    pub(super) fn lend(&mut self) -> Vec<Segment> {
        self.lent = tokens(self.since_prompt());
        self.segments.split_off(self.first())
    }

    fn since_prompt(&self) -> &[Segment] {
        &self.segments[self.first()..]
    }

    /// Tokens that count against the budget of the whole response: the sequence with which the next turn goes on,
    /// beyond the row's prompt, or all that was sampled where that is more.
    pub(super) fn used(&self) -> u32 {
        let own = self.contexts.last().map_or(0, |context| context.token_ids.len().saturating_sub(self.prompt));
        as_u32(own + tokens(self.since_prompt())).max(self.sampled())
    }

    /// Tokens that count as used after what precedes the next turn.
    pub(super) fn used_after(&self, next: &BeforeTurn) -> u32 {
        match next {
            BeforeTurn::Added(added) => self.used().saturating_add(as_u32(added.len())),
            BeforeTurn::Prompt(prompt) => as_u32(prompt.len().saturating_sub(self.prompt)).max(self.sampled()),
        }
    }

    /// What names the place of the next token among all of the episode: it never goes back.
    pub(super) fn position(&self) -> u32 {
        if self.rewrites { self.sampled() } else { self.used() }
    }

    /// Takes a turn that was sampled: `segments` are all since the prompt. Returns its tokens.
    pub(super) fn take(&mut self, segments: Vec<Segment>) -> Vec<u32> {
        let ids = segments.iter().flat_map(|segment| segment.token_ids.iter().copied());
        let sampled = ids.skip(std::mem::take(&mut self.lent)).collect();
        self.segments.extend(segments);
        sampled
    }

    /// Leaves out the last tokens of the turn that was taken.
    pub(super) fn shorten(&mut self, mut tokens: usize) {
        while let Some(last) = self.segments.last_mut().filter(|_| tokens > 0) {
            let kept = last.token_ids.len().saturating_sub(tokens);
            tokens -= last.token_ids.len() - kept;
            last.token_ids.truncate(kept);
            last.log_probabilities.truncate(kept);
            if kept == 0 {
                self.segments.pop();
            }
        }
    }

    /// The log-probabilities of the tokens that were sampled last.
    pub(super) fn last_log_probabilities(&self, tokens: usize) -> Vec<f32> {
        let all: Vec<_> = self.since_prompt().iter().flat_map(|segment| &segment.log_probabilities).copied().collect();
        all[all.len().saturating_sub(tokens)..].to_vec()
    }

    /// Goes on to the next turn. A prompt that only adds to what is there is no new one. Returns how many tokens are
    /// added.
    pub(super) fn go_on(&mut self, first_prompt: &[u32], next: BeforeTurn) -> usize {
        let added = match next {
            BeforeTurn::Added(added) => added,
            BeforeTurn::Prompt(prompt) => {
                let context = self.contexts.last().map_or(first_prompt, |context| &context.token_ids[..]);
                let since = self.since_prompt().iter().flat_map(|segment| &segment.token_ids);
                let there = context.len() + tokens(self.since_prompt());
                let extends =
                    prompt.len() > there && prompt.iter().zip(context.iter().chain(since)).all(|(a, b)| a == b);
                if !extends {
                    let segment = as_u32(self.segments.len());
                    self.contexts.push(TurnContext { segment, token_ids: prompt });
                    return 0;
                }
                prompt[there..].to_vec()
            }
        };
        let count = added.len();
        self.segments.push(Segment::injected(added));
        count
    }

    /// All of it, with the prompts of turns that have their own.
    pub(super) fn into_parts(self) -> (Vec<Segment>, Vec<TurnContext>) {
        (self.segments, self.contexts)
    }

    fn first(&self) -> usize {
        self.contexts.last().map_or(0, |context| context.segment as usize)
    }

    /// Tokens that were sampled, in all turns.
    pub(super) fn sampled(&self) -> u32 {
        as_u32(self.segments.iter().map(|segment| segment.log_probabilities.len()).sum())
    }
}

fn tokens(segments: &[Segment]) -> usize {
    segments.iter().map(|segment| segment.token_ids.len()).sum()
}

fn as_u32(tokens: usize) -> u32 {
    u32::try_from(tokens).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampled(token_ids: &[u32]) -> Segment {
        Segment::sampled(token_ids.to_vec(), vec![-0.5; token_ids.len()], 3)
    }

    #[test]
    fn what_is_added_counts_and_turns_follow_one_another() {
        let mut response = GrowingResponse::to_prompt(2, false);
        assert_eq!(response.take(vec![sampled(&[5, 6])]), [5, 6]);
        assert_eq!(response.used_after(&BeforeTurn::Added(vec![7])), 3);
        assert_eq!(response.go_on(&[1, 2], BeforeTurn::Added(vec![7])), 1);
        let all = [sampled(&[5, 6]), Segment::injected(vec![7]), sampled(&[8])];
        assert_eq!(response.lend(), all[..2]);
        assert_eq!(response.take(all.to_vec()), [8]);
        assert_eq!((response.used(), response.position(), response.own_prompt()), (4, 4, None));
        assert_eq!(response.into_parts(), (all.to_vec(), vec![]));
    }

    #[test]
    fn a_turn_with_a_prompt_of_its_own_begins_a_sequence_and_one_that_only_adds_does_not() {
        let mut response = GrowingResponse::to_prompt(2, true);
        response.take(vec![sampled(&[5, 6])]);
        // The template strips 5.
        let rewritten = BeforeTurn::Prompt(vec![1, 2, 6, 7]);
        assert_eq!(response.used_after(&rewritten), 2);
        assert_eq!(response.go_on(&[1, 2], rewritten), 0);
        assert_eq!((response.own_prompt().as_deref(), response.lend().len()), (Some(&[1, 2, 6, 7][..]), 0));
        assert_eq!(response.take(vec![sampled(&[8, 9])]), [8, 9]);
        assert_eq!((response.used(), response.position()), (4, 4));
        assert_eq!(response.go_on(&[1, 2], BeforeTurn::Prompt(vec![1, 2, 6, 7, 8, 9, 10])), 1);
        assert_eq!(response.lend().len(), 2);
        assert_eq!(response.take(vec![sampled(&[8, 9]), Segment::injected(vec![10]), sampled(&[11])]), [11]);
        let (segments, contexts) = response.into_parts();
        assert_eq!(contexts, [TurnContext { segment: 1, token_ids: vec![1, 2, 6, 7] }]);
        assert_eq!(segments, [sampled(&[5, 6]), sampled(&[8, 9]), Segment::injected(vec![10]), sampled(&[11])]);
    }

    #[test]
    fn a_first_prompt_of_its_own_begins_the_first_sequence_and_that_of_the_row_is_none() {
        let mut response = GrowingResponse::to_prompt(2, true);
        response.begin(&[1, 2], vec![1, 2]);
        assert_eq!(response.own_prompt(), None);
        response.begin(&[1, 2], vec![1, 3, 4]);
        assert_eq!((response.own_prompt().as_deref(), response.used()), (Some(&[1, 3, 4][..]), 1));
        assert_eq!(response.take(vec![sampled(&[5])]), [5]);
        assert_eq!(response.go_on(&[1, 2], BeforeTurn::Prompt(vec![1, 3, 4, 5, 6])), 1, "it only adds");
        assert_eq!(response.lend().len(), 2);
        response.take(vec![sampled(&[5]), Segment::injected(vec![6]), sampled(&[7])]);
        assert_eq!(response.into_parts().1, [TurnContext { segment: 0, token_ids: vec![1, 3, 4] }]);
    }

    #[test]
    fn a_turn_that_is_shortened_has_its_first_tokens_alone() {
        let mut response = GrowingResponse::to_prompt(2, false);
        response.take(vec![sampled(&[5, 6]), Segment::sampled(vec![7, 8], vec![-1.0, -2.0], 4)]);
        response.shorten(0);
        assert_eq!(response.last_log_probabilities(3), [-0.5, -1.0, -2.0]);
        response.shorten(3);
        assert_eq!((response.used(), response.last_log_probabilities(1)), (1, vec![-0.5]));
        assert_eq!(response.into_parts().0, [sampled(&[5])]);
    }

    #[test]
    fn positions_grow_though_contexts_shrink() {
        let mut response = GrowingResponse::to_prompt(1, true);
        response.take(vec![sampled(&[5; 9])]);
        response.go_on(&[1], BeforeTurn::Prompt(vec![1, 2]));
        let second = response.position();
        response.take(vec![sampled(&[6])]);
        response.go_on(&[1], BeforeTurn::Prompt(vec![1, 3]));
        assert_eq!((second, response.position(), response.used()), (9, 10, 10));
    }
}
