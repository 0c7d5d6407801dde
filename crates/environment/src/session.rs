//! An episode as a worker sees it, which serves it: what is carried out, what is answered with what was answered
//! before, and what is refused.

use evenkeel_proto::v1::{Act, EnvironmentEvent};

/// Where a worker is with an episode.
#[derive(Debug, Clone, PartialEq)]
enum SessionState {
    Opening,
    /// Nothing is in progress.
    Waiting,
    /// The last action is carried out.
    Stepping,
    /// The result is made.
    Scoring,
    Over,
}

/// What is to be done with an action.
#[derive(Debug, Clone, PartialEq)]
pub enum Acted {
    /// The next action: it is carried out.
    CarryOut,
    /// The last action again: this was the answer.
    Again(Box<EnvironmentEvent>),
    /// The action that is carried out at the moment: its answer follows.
    InProgress,
}

/// Why an action is refused. The episode has failed with it, since the two sides disagree about where it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The worker named another turn than the next one.
    #[error("turn is {found}, allowed: {next}, the next one, or the last one again")]
    Turn {
        /// The turn of the action.
        found: u32,
        next: u32,
    },
    /// The last turn with another content.
    #[error("turn {0} was already sent with another content")]
    Content(u32),
    /// The episode is not open yet, is being scored, or is over.
    #[error("the episode takes no actions: it is {0}")]
    State(&'static str),
}

/// One attempt at an episode, on a worker.
#[derive(Debug, Clone, PartialEq)]
pub struct EpisodeSession {
    attempt: u32,
    state: SessionState,
    /// The last action, and its answer once there is one.
    last: Option<(Act, Option<EnvironmentEvent>)>,
}

impl EpisodeSession {
    /// An attempt that is to be opened.
    pub fn new(attempt: u32) -> Self {
        Self { attempt, state: SessionState::Opening, last: None }
    }

    /// The number of the attempt.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// The environment is ready.
    pub fn opened(&mut self) {
        if self.state == SessionState::Opening {
            self.state = SessionState::Waiting;
        }
    }

    /// An action comes in. `act` is compared as it is, without its deadline.
    ///
    /// # Errors
    /// One that is neither the next nor the last one, or comes at the wrong time.
    pub fn act(&mut self, mut act: Act) -> Result<Acted, Refused> {
        act.deadline_ms = None;
        let done = self.last.as_ref().map_or(0, |(last, _)| last.turn);
        if let Some((last, answer)) = &self.last
            && act.turn == last.turn
        {
            return match answer {
                _ if act != *last => Err(Refused::Content(act.turn)),
                Some(answer) => Ok(Acted::Again(Box::new(answer.clone()))),
                None => Ok(Acted::InProgress),
            };
        }
        match self.state {
            SessionState::Waiting if act.turn == done + 1 => {
                self.state = SessionState::Stepping;
                self.last = Some((act, None));
                Ok(Acted::CarryOut)
            }
            SessionState::Waiting => Err(Refused::Turn { found: act.turn, next: done + 1 }),
            SessionState::Opening => Err(Refused::State("not open yet")),
            SessionState::Stepping => Err(Refused::State("carrying out the turn before")),
            SessionState::Scoring => Err(Refused::State("being scored")),
            SessionState::Over => Err(Refused::State("over")),
        }
    }

    /// The action is carried out; `answer` is sent, and kept for the case that it is asked for again.
    pub fn observed(&mut self, answer: &EnvironmentEvent, done: bool) {
        if self.state == SessionState::Stepping {
            self.state = if done { SessionState::Scoring } else { SessionState::Waiting };
            if let Some((_, kept)) = &mut self.last {
                *kept = Some(answer.clone());
            }
        }
    }

    /// Whether a request to end the episode with a score has to be answered: not where its score is on its way, or was
    /// sent.
    pub fn end(&mut self) -> bool {
        let ends = matches!(self.state, SessionState::Waiting);
        if ends {
            self.state = SessionState::Scoring;
        }
        ends
    }

    /// The result was sent, or the episode was given up.
    pub fn close(&mut self) {
        self.state = SessionState::Over;
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_proto::v1::{AssistantMessage, Observed, environment_event::Kind};
    use proptest::prelude::*;

    use super::*;
    use crate::episode::{EpisodeAttempt, Received, Said};

    fn act(turn: u32, content: &str) -> Act {
        let message = AssistantMessage { content: content.to_owned(), ..AssistantMessage::default() };
        Act { turn, message: Some(message), ..Act::default() }
    }

    fn answer(turn: u32) -> EnvironmentEvent {
        EnvironmentEvent {
            kind: Some(Kind::Observed(Observed { turn, ..Observed::default() })),
            ..EnvironmentEvent::default()
        }
    }

    #[test]
    fn the_same_turn_again_has_the_same_answer_and_is_not_carried_out_again() {
        let mut session = EpisodeSession::new(1);
        session.opened();
        assert_eq!(session.act(act(1, "a")), Ok(Acted::CarryOut));
        assert_eq!(session.act(Act { deadline_ms: Some(9), ..act(1, "a") }), Ok(Acted::InProgress));
        session.observed(&answer(1), false);
        assert_eq!(session.act(act(1, "a")), Ok(Acted::Again(Box::new(answer(1)))));
        assert_eq!(session.act(act(1, "b")), Err(Refused::Content(1)));
        assert_eq!(session.act(act(2, "b")), Ok(Acted::CarryOut));
    }

    #[test]
    fn an_action_at_the_wrong_time_is_refused() {
        let mut session = EpisodeSession::new(1);
        assert_eq!(session.act(act(1, "a")), Err(Refused::State("not open yet")));
        session.opened();
        for turn in [0, 2, 7] {
            assert_eq!(session.act(act(turn, "a")), Err(Refused::Turn { found: turn, next: 1 }));
        }
        session.act(act(1, "a")).unwrap();
        assert_eq!(session.act(act(2, "a")), Err(Refused::State("carrying out the turn before")));
        session.observed(&answer(1), true);
        assert_eq!(session.act(act(2, "a")), Err(Refused::State("being scored")));
        assert!(!session.end(), "its score is on its way");
        session.close();
        assert_eq!(session.act(act(2, "a")), Err(Refused::State("over")));
    }

    proptest! {
        /// Drives worker and run against each other, over a connection that repeats messages in both directions.
        #[test]
        fn an_episode_over_a_connection_that_repeats_itself_carries_out_every_turn_once(
            repeats in proptest::collection::vec((0..3_usize, 0..3_usize), 8), turns in 1..6_u32,
        ) {
            let mut episode = EpisodeAttempt::open();
            let mut session = EpisodeSession::new(1);
            session.opened();
            prop_assert_eq!(episode.receive(1, Said::Opened), Received::Taken);
            let mut carried_out = Vec::new();
            for turn in 1..=turns {
                let (requests, answers) = repeats[turn as usize];
                prop_assert_eq!(episode.act(), Ok(turn));
                for _ in 0..=requests {
                    match session.act(act(turn, "a")).unwrap() {
                        Acted::CarryOut => {
                            carried_out.push(turn);
                            session.observed(&answer(turn), turn == turns);
                        }
                        Acted::Again(again) => prop_assert_eq!(*again, answer(turn)),
                        Acted::InProgress => prop_assert!(false, "it was carried out at once"),
                    }
                }
                let mut taken = 0;
                for _ in 0..=answers {
                    let said = Said::Observed { turn, done: turn == turns };
                    taken += usize::from(episode.receive(1, said) == Received::Taken);
                }
                prop_assert_eq!(taken, 1);
            }
            prop_assert_eq!(carried_out, (1..=turns).collect::<Vec<_>>());
            prop_assert_eq!(episode.receive(1, Said::Scored), Received::Taken);
        }
    }
}
