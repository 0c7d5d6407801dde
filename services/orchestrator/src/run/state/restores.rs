//! Whether a sample or a proof gets weights back that the engines lack, such as after a restart of the generation
//! service or since they have moved on to later ones.
//!
//! Samples of the earliest version in flight come first, so that two versions never switch the engines back and forth.
//! Each request is answered once.

use std::cmp::Ordering;
use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::{Action, LoopState};
use crate::rollout::{EnginesSeen, MissingWeights, UpdateCounts};

/// What the engines were updated to, and who waits for other weights.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Restores {
    counts: UpdateCounts,
    /// The weights of the last update, be it the run's own or for a request.
    last: Option<u64>,
    /// Requests that are not answered, in order.
    waiting: VecDeque<Request>,
    /// The request for which the engines are updated at the moment.
    current: Option<Request>,
}

/// A request for weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Request {
    number: u64,
    /// Version of the weights; `None` for those that the run has updated the engines to.
    version: Option<u64>,
    /// The updates when what lacks them began.
    seen: UpdateCounts,
    cause: MissingWeights,
}

impl Restores {
    pub(super) fn updated(&mut self, version: u64) {
        self.counts.add(self.last != Some(version));
        self.last = Some(version);
    }

    /// Why engines that had been seen so lack a version.
    fn cause(&self, seen: UpdateCounts, version: u64, is_updating: bool) -> MissingWeights {
        let stayed = !is_updating && self.counts.has_same_version(seen);
        if stayed && self.last == Some(version) { MissingWeights::Lost } else { MissingWeights::Superseded }
    }

    /// Whether the engines were updated to the version since they were seen.
    fn have(&self, version: u64, seen: UpdateCounts) -> bool {
        self.counts != seen && self.last == Some(version)
    }
}

impl LoopState {
    /// What samples may know of the engines.
    pub(in crate::run) fn engines_seen(&self) -> EnginesSeen {
        let Restores { counts, current, .. } = &self.restores;
        EnginesSeen { updates: *counts, target: self.engines.target, is_restoring: current.is_some() }
    }

    /// A sample or a proof lacks weights.
    pub(super) fn weights_missing(
        &mut self,
        number: u64,
        version: Option<u64>,
        seen: UpdateCounts,
        out: &mut Vec<Action>,
    ) {
        let updating = self.engines.updating_to();
        let cause = match version.or(self.engines.target) {
            None => MissingWeights::Lost,
            // The newest weights are those that the engines are about to have.
            wanted if updating.is_some() && (version.is_none() || wanted == updating) => MissingWeights::Updating,
            Some(wanted) => {
                let cause = self.restores.cause(seen, wanted, updating.is_some());
                self.restores.waiting.push_back(Request { number, version, seen, cause });
                return;
            }
        };
        out.push(Action::Answer { request: number, cause });
    }

    /// Answers requests, or has the engines updated for one. Returns whether anything has changed.
    pub(super) fn restore(&mut self, out: &mut Vec<Action>) -> bool {
        let before = out.len();
        while self.restores.current.is_none() {
            let due = self.restores.waiting.iter().position(|request| self.turn(request).is_le());
            let Some(request) = due.and_then(|at| self.restores.waiting.remove(at)) else { break };
            // Who asked for a version that nothing needs any more is gone.
            let needed = self.wanted(&request).filter(|_| self.turn(&request).is_eq());
            match needed.filter(|&version| !self.restores.have(version, request.seen)) {
                Some(version) => {
                    out.push(Action::Restore { request: request.number, version });
                    self.restores.current = Some(request);
                }
                None => out.push(Action::Answer { request: request.number, cause: request.cause }),
            }
        }
        out.len() > before
    }

    /// The version of a request beside the first one that is needed.
    fn turn(&self, request: &Request) -> Ordering {
        let otherwise = match request.version {
            // In order of completion nobody counts the samples in flight.
            None => self.engines.version,
            Some(_) => self.engines.proving(),
        };
        let first = self.earliest_in_flight().or(otherwise);
        first.map_or(Ordering::Less, |_| self.wanted(request).cmp(&first))
    }

    fn wanted(&self, request: &Request) -> Option<u64> {
        request.version.or(self.engines.target)
    }

    /// The engines have weights that a request asked for.
    pub(super) fn restored(&mut self, version: u64, out: &mut Vec<Action>) {
        self.restores.updated(version);
        if let Some(Request { number, cause, .. }) = self.restores.current.take() {
            out.push(Action::Answer { request: number, cause });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_lost_only_where_engines_were_moved_to_them_and_nowhere_else() {
        let mut engines = Restores::default();
        assert_eq!(engines.cause(engines.counts, 5, false), MissingWeights::Superseded);
        engines.updated(5);
        let seen = engines.counts;
        assert_eq!(
            [engines.cause(seen, 5, false), engines.cause(seen, 6, false)],
            [MissingWeights::Lost, MissingWeights::Superseded]
        );
        // Another sample had them restored meanwhile.
        engines.updated(5);
        assert_eq!(engines.cause(seen, 5, false), MissingWeights::Lost);
        assert_eq!(engines.cause(seen, 5, true), MissingWeights::Superseded);
    }

    #[test]
    fn weights_that_the_run_moved_the_engines_away_from_are_not_lost() {
        let mut engines = Restores::default();
        engines.updated(5);
        let seen = engines.counts;
        engines.updated(6);
        assert_eq!(engines.cause(seen, 5, false), MissingWeights::Superseded);
        engines.updated(5);
        assert_eq!(engines.cause(seen, 5, false), MissingWeights::Superseded);
        assert_eq!(engines.cause(engines.counts, 5, false), MissingWeights::Lost);
    }
}
