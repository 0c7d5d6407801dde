//! An episode with whoever answers it: a worker that has its environment, or nobody, where the first turn is the
//! answer. The states are the same for both.

use std::collections::VecDeque;
use std::time::Duration;

use evenkeel_environment::episode::{Episode as States, Received, Said};
use evenkeel_proto::v1::environment_event::Kind as Event;
use evenkeel_proto::v1::environment_request::Kind;
use evenkeel_proto::v1::{
    Act, CloseEpisode, CloseReason, EnvironmentEvent, EpisodeFailure, ModelRequest, Observed, Scored,
};
use tokio::time::{Instant, timeout_at};

use crate::clients::EpisodeLink;
use crate::instruments;

/// How much longer than the worker this side waits for an answer.
const GRACE: Duration = Duration::from_secs(2);

/// What a failure of an environment means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// Another attempt may succeed.
    Retryable,
    /// The worker is full, which is no attempt.
    Overloaded,
    /// Every other attempt ends the same way.
    Final,
}

/// Why nothing more is heard of an episode.
#[derive(Debug)]
pub(super) struct Broken {
    pub(super) message: String,
    pub(super) late: bool,
    pub(super) kind: Fault,
}

/// An episode, and who answers.
pub(super) struct Table {
    answers: Answers,
    states: States,
    limits: Option<Limits>,
    id: String,
}

/// Time limits of an episode with a worker.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Of one answer.
    pub(super) step: Duration,
    /// When the episode must be over.
    pub(super) deadline: Instant,
}

/// Where events come from.
enum Answers {
    Worker(EpisodeLink),
    /// A single answer: what is said of it is known beforehand, and its verifier judges it.
    Alone(VecDeque<EnvironmentEvent>),
}

impl Table {
    /// An attempt at an episode with a worker.
    pub(super) fn with_worker(id: String, link: EpisodeLink, states: States, limits: Limits) -> Self {
        Self { answers: Answers::Worker(link), states, limits: Some(limits), id }
    }

    /// An episode of one turn, which is open at once.
    pub(super) fn alone(id: String) -> Self {
        let mut table = Self { answers: Answers::Alone(VecDeque::new()), states: States::open(), limits: None, id };
        table.states.receive(table.states.attempt(), Said::Opened);
        table
    }

    /// When the episode must be over. `None` for a single answer, which has no clock of its own.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.limits.map(|limits| limits.deadline)
    }

    /// Waits until the worker has opened the episode. Returns what an agent asks first.
    pub(super) async fn opened(&mut self) -> Result<Option<ModelRequest>, Broken> {
        match self.answer().await? {
            Event::Opened(opened) => Ok(opened.request),
            _ => Ok(None),
        }
    }

    /// Has a turn carried out.
    pub(super) async fn step(&mut self, act: Act) -> Result<Observed, Broken> {
        let turn = self.states.act().map_err(|error| self.defect(&error.to_string()))?;
        let episode_id = self.id.clone();
        let attempt = self.states.attempt();
        let deadline_ms = self.step_ms();
        self.send(Kind::Act(Act { episode_id, attempt, turn, deadline_ms, ..act })).await;
        match self.answer().await? {
            Event::Observed(Observed { reward: Some(reward), .. }) if !reward.is_finite() => {
                Err(self.defect(&format!("the reward of a turn is {reward}, allowed: a finite number")))
            }
            Event::Observed(observed) if observed.done || says_something(&observed) => Ok(observed),
            _ => Err(self.defect("an observation without a message")),
        }
    }

    /// Has what was reached scored.
    pub(super) async fn end(&mut self) -> Result<Scored, Broken> {
        self.states.end().map_err(|error| self.defect(&error.to_string()))?;
        let episode_id = self.id.clone();
        let attempt = self.states.attempt();
        let deadline_ms = self.step_ms();
        let reason = CloseReason::Budget.into();
        self.send(Kind::Close(CloseEpisode { episode_id, attempt, reason, deadline_ms })).await;
        self.scored().await
    }

    /// The score of an episode that is over.
    pub(super) async fn scored(&mut self) -> Result<Scored, Broken> {
        let Event::Scored(scored) = self.answer().await? else {
            return Err(self.defect("no score"));
        };
        self.ended();
        if let Some(verdict) = &scored.verdict {
            let checked = verdict.validate().map_err(|error| error.to_string());
            checked.map_err(|error| self.defect(&format!("the score violates the protocol: {error}")))?;
            if !verdict.is_valid() {
                let message = verdict.reason_with_detail();
                return Err(Broken { message, late: false, kind: Fault::Retryable });
            }
        }
        Ok(scored)
    }

    /// The wall clock of the episode has run out. Another attempt would take as long.
    pub(super) fn out_of_time(&self) -> Broken {
        let message = "the episode took longer than turns.episode_deadline".to_owned();
        Broken { message, late: true, kind: Fault::Final }
    }

    fn step_ms(&self) -> Option<u64> {
        self.limits.map(|limits| limits.step.as_millis() as u64)
    }

    async fn send(&mut self, kind: Kind) {
        let events = match &mut self.answers {
            Answers::Worker(link) => return link.send(kind).await,
            Answers::Alone(events) => events,
        };
        let Kind::Act(act) = kind else { return };
        let observed = Observed { turn: act.turn, done: true, ..Observed::default() };
        let answers = [Event::Observed(observed), Event::Scored(Scored::default())];
        let id = &self.id;
        let attempt = act.attempt;
        events.extend(answers.map(|kind| EnvironmentEvent { episode_id: id.clone(), attempt, kind: Some(kind) }));
    }

    fn ended(&mut self) {
        if let Answers::Worker(link) = &mut self.answers {
            link.ended();
        }
    }

    fn worker(&self) -> &str {
        match &self.answers {
            Answers::Worker(link) => link.worker(),
            Answers::Alone(_) => "(none)",
        }
    }

    /// The next event. `None`: there is nobody any more.
    async fn next(&mut self) -> Option<EnvironmentEvent> {
        match &mut self.answers {
            Answers::Worker(link) => link.next().await,
            Answers::Alone(events) => events.pop_front(),
        }
    }

    /// The next event within the time limits.
    async fn next_in_time(&mut self) -> Result<EnvironmentEvent, Broken> {
        let Some(Limits { step, deadline }) = self.limits else {
            return self.next().await.ok_or_else(|| self.defect("nothing is said of a single answer"));
        };
        let limit = (Instant::now() + step + GRACE).min(deadline);
        match timeout_at(limit, self.next()).await {
            Ok(Some(event)) => Ok(event),
            Ok(None) => {
                self.states.lose();
                let message = format!("the worker {} was lost", self.worker());
                Err(Broken { message, late: false, kind: Fault::Retryable })
            }
            Err(_) if Instant::now() >= deadline => Err(self.out_of_time()),
            Err(_) => {
                self.states.lose();
                let message = format!("no answer of {} within {}", self.worker(), evenkeel_config::human(step));
                Err(Broken { message, late: true, kind: Fault::Retryable })
            }
        }
    }

    /// The event with which the episode leaves the state that it is in.
    async fn answer(&mut self) -> Result<Event, Broken> {
        loop {
            let event = self.next_in_time().await?;
            let Some(kind) = event.kind else {
                return Err(self.defect("an event without a kind"));
            };
            match self.states.receive(event.attempt, said(&kind)) {
                Received::Late => instruments::late_event(),
                Received::Violation(what) => return Err(self.defect(what)),
                Received::Taken => match kind {
                    Event::Failed(failed) => {
                        self.ended();
                        let kind = match (failed.failure(), failed.retryable) {
                            (EpisodeFailure::Overloaded, true) => Fault::Overloaded,
                            (_, true) => Fault::Retryable,
                            (_, false) => Fault::Final,
                        };
                        let late = failed.failure() == EpisodeFailure::Timeout;
                        let label = evenkeel_proto::Label::label(failed.failure());
                        return Err(Broken { message: format!("{label}: {}", failed.message), late, kind });
                    }
                    other => return Ok(other),
                },
            }
        }
    }

    /// The worker breaks the protocol.
    pub(super) fn defect(&self, what: &str) -> Broken {
        let message = format!("the worker {} breaks the protocol: {what}", self.worker());
        Broken { message, late: false, kind: Fault::Retryable }
    }
}

/// Whether there is something for the model to answer.
fn says_something(observed: &Observed) -> bool {
    let has_own = observed.request.as_ref().is_some_and(|request| !request.conversation.is_empty());
    has_own || !observed.messages.is_empty()
}

fn said(kind: &Event) -> Said {
    match kind {
        Event::Opened(_) => Said::Opened,
        Event::Observed(observed) => Said::Observed { turn: observed.turn, done: observed.done },
        Event::Scored(_) => Said::Scored,
        Event::Failed(failed) => Said::Failed { retryable: failed.retryable },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_single_answer_is_over_with_its_first_turn_and_is_not_judged_twice() {
        let mut table = Table::alone("train/1/0/0".to_owned());
        assert!(table.deadline().is_none());
        let observed = table.step(Act::default()).await.unwrap();
        assert!(observed.done && observed.turn == 1 && observed.messages.is_empty());
        let broken = table.step(Act::default()).await.unwrap_err();
        assert!(broken.message.contains("does not wait for an action"), "{}", broken.message);
        assert_eq!(table.scored().await.unwrap().verdict, None, "its verifier judges it");
        assert!(table.scored().await.is_err());
    }
}
