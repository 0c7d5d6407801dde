//! The rounds of a step: its weights, one after the other, and how far its samples are with each.

use std::ops::Range;
use std::sync::Arc;

use evenkeel_proto::v1::WeightsRef;
use tokio::sync::watch;

use super::round_schedule::RoundSpan;
use super::versions_in_flight::{VersionGuard, VersionsInFlight};

/// The rounds in which a step or an evaluation is sampled. A round begins once its weights are there. Its samples are counted, so that
/// engines get the next weights no sooner than all samples of a round have begun it, and earlier weights again as long as one has not
/// ended it.
#[derive(Debug)]
pub(crate) struct Rounds {
    versions: Arc<VersionsInFlight>,
    state: watch::Sender<State>,
}

#[derive(Debug)]
struct State {
    /// The weights of the rounds that have begun, in order.
    weights: Vec<WeightsRef>,
    /// That their samples are in flight.
    guards: Vec<Option<VersionGuard>>,
    /// Samples that have not begun each round, and one more while others may be added.
    to_begin: Vec<usize>,
    /// The same for those that have not ended it.
    to_end: Vec<usize>,
    /// Rounds before this one get no further samples.
    complete: usize,
}

impl Rounds {
    /// `rounds` rounds, none of which has begun.
    pub(crate) fn new(versions: &Arc<VersionsInFlight>, rounds: usize) -> Arc<Self> {
        let (to_begin, to_end) = (vec![1; rounds], vec![1; rounds]);
        let state = State { weights: Vec::new(), guards: Vec::new(), to_begin, to_end, complete: 0 };
        Arc::new(Self { versions: Arc::clone(versions), state: watch::Sender::new(state) })
    }

    /// A single round with these weights.
    pub(crate) fn single(versions: &Arc<VersionsInFlight>, weights: &WeightsRef) -> Arc<Self> {
        let rounds = Self::new(versions, 1);
        rounds.open(weights);
        rounds
    }

    /// The next round begins, with these weights.
    pub(crate) fn open(&self, weights: &WeightsRef) {
        let guard = self.versions.enter(weights.version);
        self.state.send_modify(|state| {
            let round = state.weights.len();
            state.weights.push(weights.clone());
            state.guards.push((state.to_end[round] > 0).then_some(guard));
        });
    }

    /// How many have begun.
    pub(crate) fn begun(&self) -> usize {
        self.state.borrow().weights.len()
    }

    /// Waits until every sample has begun each round that has begun.
    pub(crate) async fn all_begun(&self) {
        self.until(|state| state.to_begin[..state.weights.len()].iter().all(|samples| *samples == 0)).await;
    }

    /// No further sample is added that the rounds before `round` sample.
    pub(crate) fn complete_before(&self, round: usize) {
        let added = self.state.borrow().complete..round;
        self.state.send_modify(|state| state.complete = round.max(state.complete));
        added.for_each(|round| {
            self.begin(round);
            self.end(round);
        });
    }

    /// Everything has ended.
    pub(super) fn close(&self) {
        self.state.send_modify(|state| {
            state.to_begin.fill(0);
            state.to_end.fill(0);
            state.guards.iter_mut().for_each(|guard| *guard = None);
            state.complete = state.to_end.len();
        });
    }

    /// Whether everything has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.state.borrow().to_end.iter().all(|samples| *samples == 0)
    }

    /// Adds samples to the rounds of a span.
    pub(super) fn add(&self, span: RoundSpan, samples: usize) {
        self.state.send_modify(|state| {
            for round in span.range() {
                state.to_begin[round] += samples;
                state.to_end[round] += samples;
            }
        });
    }

    /// The weights of a round, once it begins.
    pub(super) async fn weights(&self, round: usize) -> WeightsRef {
        let mut weights = None;
        self.until(|state| {
            weights = state.weights.get(round).cloned();
            weights.is_some()
        })
        .await;
        weights.expect("they were waited for")
    }

    async fn until(&self, holds: impl FnMut(&State) -> bool) {
        // This value holds the sender, so that the wait cannot fail.
        let _ = self.state.subscribe().wait_for(holds).await;
    }

    fn begin(&self, round: usize) {
        self.state.send_if_modified(|state| decrease(&mut state.to_begin[round]));
    }

    fn end(&self, round: usize) {
        self.state.send_if_modified(|state| {
            let is_last = decrease(&mut state.to_end[round]);
            if is_last && let Some(guard) = state.guards.get_mut(round) {
                *guard = None;
            }
            is_last
        });
    }
}

/// Takes one away. Returns whether nothing is left: nobody waits for anything between.
fn decrease(samples: &mut usize) -> bool {
    *samples = samples.saturating_sub(1);
    *samples == 0
}

/// A sample on its way through its rounds. Those that it does not come to count as begun and ended once it is dropped.
#[derive(Debug)]
pub(super) struct SampleProgress {
    /// Absent where any weights will do.
    rounds: Option<Arc<Rounds>>,
    to_begin: Range<usize>,
    to_end: Range<usize>,
}

impl SampleProgress {
    pub(super) fn new(rounds: Option<Arc<Rounds>>, span: RoundSpan) -> Self {
        let (first, last) = span.range().into_inner();
        Self { rounds, to_begin: first..last + 1, to_end: first..last + 1 }
    }

    /// It begins that round: it is on its way to the generation service.
    pub(super) fn begin(&mut self, round: usize) {
        self.advance(round + 1, round);
    }

    /// It has ended that round.
    pub(super) fn end(&mut self, round: usize) {
        self.advance(round + 1, round + 1);
    }

    /// It comes to no further round.
    pub(super) fn finish(&mut self) {
        self.advance(self.to_begin.end, self.to_end.end);
    }

    /// Every round before `begun` has begun, and every one before `ended` has ended.
    fn advance(&mut self, begun: usize, ended: usize) {
        let Some(rounds) = &self.rounds else { return };
        while self.to_begin.start < begun.min(self.to_begin.end) {
            rounds.begin(self.to_begin.start);
            self.to_begin.start += 1;
        }
        while self.to_end.start < ended.min(self.to_end.end) {
            rounds.end(self.to_end.start);
            self.to_end.start += 1;
        }
    }
}

impl Drop for SampleProgress {
    fn drop(&mut self) {
        self.finish();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn weights(version: u64) -> WeightsRef {
        WeightsRef::at_path(version, "sha256:ab", "/w", 0)
    }

    fn two_rounds() -> Arc<Rounds> {
        Rounds::new(&Arc::default(), 2)
    }

    #[test]
    fn all_have_begun_once_each_sample_has_and_none_can_be_added() {
        let rounds = two_rounds();
        rounds.open(&weights(1));
        rounds.add(RoundSpan::whole(0), 1);
        rounds.add(RoundSpan::whole(1), 1);
        let mut first = SampleProgress::new(Some(Arc::clone(&rounds)), RoundSpan::whole(0));
        first.begin(0);
        assert!(rounds.all_begun().now_or_never().is_none(), "another may be added");
        rounds.complete_before(1);
        assert!(rounds.all_begun().now_or_never().is_some(), "the second round has not begun");
        rounds.open(&weights(2));
        assert!(rounds.all_begun().now_or_never().is_none());
        rounds.complete_before(2);
        drop(SampleProgress::new(Some(Arc::clone(&rounds)), RoundSpan::whole(1)));
        assert!(rounds.all_begun().now_or_never().is_some(), "a sample that fails counts, too");
        assert!(!rounds.is_over());
        drop(first);
        assert!(rounds.is_over());
    }

    #[test]
    fn the_weights_of_a_round_are_waited_for() {
        let rounds = two_rounds();
        rounds.open(&weights(4));
        assert_eq!(rounds.weights(0).now_or_never(), Some(weights(4)));
        assert_eq!(rounds.weights(1).now_or_never(), None);
        rounds.open(&weights(5));
        assert_eq!(rounds.weights(1).now_or_never(), Some(weights(5)));
        assert_eq!(rounds.begun(), 2);
    }

    #[test]
    fn samples_of_a_round_are_in_flight_until_the_last_has_ended_it() {
        let versions = Arc::<VersionsInFlight>::default();
        let rounds = Rounds::new(&versions, 2);
        let open = || [1, 2].map(|version| versions.is_open(version));
        rounds.open(&weights(1));
        rounds.add(RoundSpan::whole(0), 1);
        rounds.complete_before(1);
        let mut sample = SampleProgress::new(Some(Arc::clone(&rounds)), RoundSpan::whole(0));
        sample.begin(0);
        assert_eq!(open(), [true, false]);
        rounds.open(&weights(2));
        sample.end(0);
        assert_eq!(open(), [false, true], "others may be added to the second round");
        rounds.close();
        assert_eq!(open(), [false, false]);
    }
}
