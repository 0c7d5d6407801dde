//! An episode as the run sees it, which drives it: opening, waiting for an action, stepping, scoring, closed; failed or
//! lost.
//!
//! The states decide what may be sent, and which events of a worker count. A step is never repeated: an episode that
//! failed or was lost begins again from the start, as another attempt, or not at all.

/// Where an attempt at an episode is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptState {
    /// The request to open was sent, and the worker has not answered.
    Opening,
    /// The worker waits for this turn.
    Waiting {
        /// Number of the turn, from 1.
        turn: u32,
    },
    /// The worker carries this turn out.
    Stepping {
        /// Number of the turn, from 1.
        turn: u32,
    },
    /// The environment has ended it, or was told to end it, and scores it.
    Scoring,
    /// The result has arrived.
    Closed,
    /// The worker gave it up, or broke the protocol.
    Failed {
        /// Whether another attempt makes sense.
        retryable: bool,
    },
    /// The connection to the worker was lost, or nothing was heard within a deadline.
    Lost,
}

/// What a worker says, as far as states go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Said {
    /// The episode is open.
    Opened,
    /// A turn was carried out.
    Observed {
        /// Number of the turn, from 1.
        turn: u32,
        /// Whether the episode is over.
        done: bool,
    },
    /// The episode has its result.
    Scored,
    /// The worker gave it up.
    Failed {
        /// Whether another attempt makes sense.
        retryable: bool,
    },
}

/// Whether an event counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    Taken,
    /// An event of an earlier turn or attempt, or of an episode that is over, is counted and dropped.
    Late,
    /// The worker broke the protocol: the episode has failed.
    Violation(&'static str),
}

/// What may not be sent now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the episode does not wait for an action")]
pub struct NotWaiting;

/// One attempt at an episode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpisodeAttempt {
    number: u32,
    state: AttemptState,
    /// Turns that were sent.
    turns: u32,
}

impl EpisodeAttempt {
    /// The first attempt, whose request to open is sent.
    pub fn open() -> Self {
        Self { number: 1, state: AttemptState::Opening, turns: 0 }
    }

    pub fn state(&self) -> AttemptState {
        self.state
    }

    /// The number of the attempt, from 1.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The turns that were sent so far.
    pub fn turns(&self) -> u32 {
        self.turns
    }

    /// Whether nothing can happen to it any more.
    pub fn is_over(&self) -> bool {
        matches!(self.state, AttemptState::Closed | AttemptState::Failed { .. } | AttemptState::Lost)
    }

    /// The next turn is sent. Returns its number.
    ///
    /// # Errors
    /// The worker does not wait for one.
    pub fn act(&mut self) -> Result<u32, NotWaiting> {
        let AttemptState::Waiting { turn } = self.state else { return Err(NotWaiting) };
        self.state = AttemptState::Stepping { turn };
        self.turns = turn;
        Ok(turn)
    }

    /// A budget is used up: the worker is told to score what was reached.
    ///
    /// # Errors
    /// The worker does not wait for an action.
    pub fn end(&mut self) -> Result<(), NotWaiting> {
        let AttemptState::Waiting { .. } = self.state else { return Err(NotWaiting) };
        self.state = AttemptState::Scoring;
        Ok(())
    }

    /// The worker says something of that attempt.
    pub fn receive(&mut self, attempt: u32, said: Said) -> Received {
        if self.is_over() || attempt < self.number {
            return Received::Late;
        }
        if attempt > self.number {
            return self.violate("an event of an attempt that was not made");
        }
        self.state = match (self.state, said) {
            (_, Said::Failed { retryable }) => AttemptState::Failed { retryable },
            (AttemptState::Opening, Said::Opened) => AttemptState::Waiting { turn: 1 },
            (AttemptState::Opening, _) => return self.violate("an event before the episode was open"),
            (_, Said::Opened) => return Received::Late,
            (AttemptState::Stepping { turn }, Said::Observed { turn: of, done }) if turn == of => {
                if done {
                    AttemptState::Scoring
                } else {
                    AttemptState::Waiting { turn: turn + 1 }
                }
            }
            (_, Said::Observed { turn, .. }) if (1..=self.turns).contains(&turn) => return Received::Late,
            (_, Said::Observed { .. }) => return self.violate("an observation of a turn that was not sent"),
            (AttemptState::Scoring, Said::Scored) => AttemptState::Closed,
            (_, Said::Scored) => return self.violate("a score before the end of the episode"),
        };
        Received::Taken
    }

    /// The connection to its worker was lost, or a deadline has passed.
    pub fn lose(&mut self) {
        if !self.is_over() {
            self.state = AttemptState::Lost;
        }
    }

    /// The next attempt at the whole episode, where this one failed or was lost and fewer than `limit` were made.
    pub fn again(&self, limit: u32) -> Option<Self> {
        let helps = matches!(self.state, AttemptState::Lost | AttemptState::Failed { retryable: true });
        (helps && self.number < limit).then(|| Self { number: self.number + 1, ..Self::open() })
    }

    fn violate(&mut self, what: &'static str) -> Received {
        self.state = AttemptState::Failed { retryable: true };
        Received::Violation(what)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn said() -> impl Strategy<Value = Said> {
        prop_oneof![
            Just(Said::Opened),
            (0..6_u32, any::<bool>()).prop_map(|(turn, done)| Said::Observed { turn, done }),
            Just(Said::Scored),
            any::<bool>().prop_map(|retryable| Said::Failed { retryable }),
        ]
    }

    /// An event of an episode, from either side.
    #[derive(Debug, Clone)]
    enum Move {
        Act,
        End,
        Lose,
        Again,
        Hear(u32, Said),
    }

    fn moves() -> impl Strategy<Value = Vec<Move>> {
        let one = prop_oneof![
            4 => Just(Move::Act),
            1 => Just(Move::End),
            1 => Just(Move::Lose),
            1 => Just(Move::Again),
            8 => (1..4_u32, said()).prop_map(|(attempt, said)| Move::Hear(attempt, said)),
        ];
        proptest::collection::vec(one, 0..60)
    }

    #[test]
    fn an_episode_goes_through_its_turns_to_its_score() {
        let mut episode = EpisodeAttempt::open();
        assert_eq!(episode.act(), Err(NotWaiting));
        assert_eq!(episode.receive(1, Said::Opened), Received::Taken);
        assert_eq!(episode.act(), Ok(1));
        assert_eq!(episode.act(), Err(NotWaiting), "one action at a time");
        assert_eq!(episode.receive(1, Said::Observed { turn: 1, done: false }), Received::Taken);
        assert_eq!(episode.receive(1, Said::Observed { turn: 1, done: false }), Received::Late, "a duplicate");
        assert_eq!(episode.act(), Ok(2));
        assert_eq!(episode.receive(1, Said::Observed { turn: 1, done: true }), Received::Late, "of the turn before");
        assert_eq!(episode.receive(1, Said::Observed { turn: 2, done: true }), Received::Taken);
        assert_eq!(episode.receive(1, Said::Scored), Received::Taken);
        assert_eq!((episode.state(), episode.turns(), episode.again(9)), (AttemptState::Closed, 2, None));
        assert_eq!(episode.receive(1, Said::Scored), Received::Late);
    }

    #[test]
    fn a_worker_that_breaks_the_protocol_has_failed_with_the_episode() {
        let cases: [(&[Said], &str); 4] = [
            (&[Said::Scored], "before the episode was open"),
            (&[Said::Opened, Said::Scored], "before the end"),
            (&[Said::Opened, Said::Observed { turn: 1, done: false }], "was not sent"),
            (&[Said::Opened, Said::Observed { turn: 0, done: false }], "was not sent"),
        ];
        for (events, words) in cases {
            let mut episode = EpisodeAttempt::open();
            let last = events.iter().map(|said| episode.receive(1, *said)).last();
            assert!(matches!(last, Some(Received::Violation(what)) if what.contains(words)), "{events:?}: {last:?}");
            assert_eq!(episode.state(), AttemptState::Failed { retryable: true });
        }
    }

    #[test]
    fn a_lost_episode_begins_again_from_the_start_as_often_as_it_may() {
        let mut first = EpisodeAttempt::open();
        first.receive(1, Said::Opened);
        first.act().unwrap();
        first.lose();
        let mut second = first.again(2).unwrap();
        assert_eq!((second.number(), second.state(), second.turns()), (2, AttemptState::Opening, 0));
        assert_eq!(second.receive(1, Said::Observed { turn: 1, done: true }), Received::Late, "of the attempt before");
        second.receive(2, Said::Failed { retryable: true });
        assert_eq!(second.again(2), None);
        let mut refused = EpisodeAttempt::open();
        refused.receive(1, Said::Failed { retryable: false });
        assert_eq!(refused.again(9), None, "nothing else would come of it");
    }

    proptest! {
        #[test]
        fn whatever_happens_in_whatever_order_turns_count_up_by_one_and_the_end_is_the_end(moves in moves()) {
            let mut episode = EpisodeAttempt::open();
            let mut sent = 0;
            let mut taken = 0;
            for step in moves {
                let before = episode;
                match step {
                    Move::Act => if let Ok(turn) = episode.act() {
                        sent += 1;
                        prop_assert_eq!(turn, sent, "no turn is sent twice or left out");
                        prop_assert_eq!(sent, taken + 1, "none is sent before the one before it was observed");
                    },
                    Move::End => drop(episode.end()),
                    Move::Lose => episode.lose(),
                    Move::Again => if let Some(next) = episode.again(3) {
                        let may = matches!(episode.state(), AttemptState::Lost | AttemptState::Failed { retryable: true });
                        prop_assert!(may);
                        prop_assert_eq!((next.number(), next.state()), (before.number() + 1, AttemptState::Opening));
                        (episode, sent, taken) = (next, 0, 0);
                        continue;
                    },
                    Move::Hear(attempt, said) => {
                        let received = episode.receive(attempt, said);
                        match (received, said) {
                            (Received::Taken, Said::Observed { turn, .. }) => {
                                taken += 1;
                                prop_assert_eq!(turn, taken);
                            }
                            (Received::Taken, Said::Scored) => prop_assert_eq!(episode.state(), AttemptState::Closed),
                            (Received::Late, _) => prop_assert_eq!(episode, before, "what is late changes nothing"),
                            _ => {}
                        }
                        prop_assert!(received != Received::Taken || attempt == before.number());
                    }
                }
                if before.is_over() {
                    prop_assert_eq!(episode, before, "nothing follows the end");
                }
                prop_assert!(taken <= sent && sent <= taken + 1);
            }
        }
    }
}
