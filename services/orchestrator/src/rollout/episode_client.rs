//! One attempt at an episode with the worker that has its environment: requests within their time limits, and the
//! events that count.

use std::time::Duration;

use evenkeel_environment::episode::{EpisodeAttempt, Received, Said};
use evenkeel_proto::v1::environment_event::Kind as Event;
use evenkeel_proto::v1::environment_request::Kind;
use evenkeel_proto::v1::{
    Act, CloseEpisode, CloseReason, EnvironmentEvent, EpisodeFailed, EpisodeFailure, Observed, Opened, Scored,
};
use tokio::time::{Instant, timeout_at};

use crate::clients::EpisodeLink;
use crate::instruments;

/// How much longer than the worker this side waits for an answer.
const GRACE: Duration = Duration::from_secs(2);

/// What a failure of an environment means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EpisodeFault {
    /// Another attempt may succeed.
    Retryable,
    /// The worker is full, which is no attempt.
    Overloaded,
    /// Every other attempt ends the same way.
    Final,
}

/// Why nothing more is heard of an episode.
#[derive(Debug)]
pub(crate) struct BrokenEpisode {
    pub(crate) message: String,
    pub(super) late: bool,
    pub(super) kind: EpisodeFault,
    /// Whether the environment's own code failed.
    pub(super) is_crash: bool,
}

impl BrokenEpisode {
    /// An episode that ended for another reason than time or the environment's own code.
    pub(super) fn new(message: String, kind: EpisodeFault) -> Self {
        Self { message, late: false, kind, is_crash: false }
    }

    /// The worker gave the episode up.
    fn given_up(failed: &EpisodeFailed) -> Self {
        let kind = match (failed.failure(), failed.retryable) {
            (EpisodeFailure::Overloaded, true) => EpisodeFault::Overloaded,
            (_, true) => EpisodeFault::Retryable,
            (_, false) => EpisodeFault::Final,
        };
        let label = evenkeel_proto::Label::label(failed.failure());
        Self {
            message: format!("{label}: {}", failed.message),
            late: failed.failure() == EpisodeFailure::Timeout,
            kind,
            is_crash: failed.failure() == EpisodeFailure::Crashed,
        }
    }
}

/// Time limits of an episode.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EpisodeLimits {
    /// Limit of one answer.
    pub(crate) step: Duration,
    /// When the episode must be over.
    pub(crate) deadline: Instant,
}

/// An attempt at an episode, as its worker is asked for it.
pub(crate) struct EpisodeClient {
    id: String,
    link: EpisodeLink,
    attempt: EpisodeAttempt,
    limits: EpisodeLimits,
}

impl EpisodeClient {
    /// An attempt whose request to open has been sent over the link.
    pub(crate) fn new(id: String, link: EpisodeLink, attempt: EpisodeAttempt, limits: EpisodeLimits) -> Self {
        Self { id, link, attempt, limits }
    }

    /// When the episode must be over.
    pub(super) fn deadline(&self) -> Instant {
        self.limits.deadline
    }

    /// Waits until the worker has opened the episode. Returns what is asked or said before the first turn.
    pub(crate) async fn opened(&mut self) -> Result<Opened, BrokenEpisode> {
        match self.answer().await? {
            Event::Opened(opened) => Ok(opened),
            _ => Ok(Opened::default()),
        }
    }

    /// Sends a turn and waits for the observation.
    pub(crate) async fn step(&mut self, act: Act) -> Result<Observed, BrokenEpisode> {
        let turn = self.attempt.act().map_err(|error| self.defect(&error.to_string()))?;
        let episode_id = self.id.clone();
        let attempt = self.attempt.number();
        let deadline_ms = self.step_ms();
        self.link.send(Kind::Act(Act { episode_id, attempt, turn, deadline_ms, ..act })).await;
        match self.answer().await? {
            Event::Observed(Observed { reward: Some(reward), .. }) if !reward.is_finite() => {
                Err(self.defect(&format!("the reward of a turn is {reward}, allowed: a finite number")))
            }
            Event::Observed(observed) if observed.done || says_something(&observed) => Ok(observed),
            _ => Err(self.defect("an observation without a message")),
        }
    }

    /// Ends the episode and waits for its score.
    pub(crate) async fn end(&mut self) -> Result<Scored, BrokenEpisode> {
        self.attempt.end().map_err(|error| self.defect(&error.to_string()))?;
        let episode_id = self.id.clone();
        let attempt = self.attempt.number();
        let deadline_ms = self.step_ms();
        let reason = CloseReason::Budget.into();
        self.link.send(Kind::Close(CloseEpisode { episode_id, attempt, reason, deadline_ms })).await;
        self.scored().await
    }

    /// The score of an episode that is over.
    pub(crate) async fn scored(&mut self) -> Result<Scored, BrokenEpisode> {
        let Event::Scored(scored) = self.answer().await? else {
            return Err(self.defect("no score"));
        };
        self.link.ended();
        if let Some(verdict) = &scored.verdict {
            let checked = verdict.validate().map_err(|error| error.to_string());
            checked.map_err(|error| self.defect(&format!("the score violates the protocol: {error}")))?;
            if !verdict.is_valid() {
                let message = verdict.reason_with_detail();
                return Err(BrokenEpisode::new(message, EpisodeFault::Retryable));
            }
        }
        Ok(scored)
    }

    /// The wall clock of the episode has run out. Another attempt would take as long.
    pub(super) fn out_of_time(&self) -> BrokenEpisode {
        let message = "the episode took longer than turns.episode_deadline".to_owned();
        BrokenEpisode { late: true, ..BrokenEpisode::new(message, EpisodeFault::Final) }
    }

    fn step_ms(&self) -> Option<u64> {
        Some(self.limits.step.as_millis() as u64)
    }

    /// The next event within the time limits.
    async fn next_in_time(&mut self) -> Result<EnvironmentEvent, BrokenEpisode> {
        let EpisodeLimits { step, deadline } = self.limits;
        let limit = (Instant::now() + step + GRACE).min(deadline);
        match timeout_at(limit, self.link.next()).await {
            Ok(Some(event)) => Ok(event),
            Ok(None) => {
                self.attempt.lose();
                let message = format!("the worker {} was lost", self.link.worker());
                Err(BrokenEpisode::new(message, EpisodeFault::Retryable))
            }
            Err(_) if Instant::now() >= deadline => Err(self.out_of_time()),
            Err(_) => {
                self.attempt.lose();
                let message = format!("no answer of {} within {}", self.link.worker(), evenkeel_config::human(step));
                Err(BrokenEpisode { late: true, ..BrokenEpisode::new(message, EpisodeFault::Retryable) })
            }
        }
    }

    /// The event with which the episode leaves the state that it is in.
    async fn answer(&mut self) -> Result<Event, BrokenEpisode> {
        let taken = loop {
            let event = self.next_in_time().await?;
            let Some(kind) = event.kind else {
                return Err(self.defect("an event without a kind"));
            };
            match self.attempt.receive(event.attempt, said(&kind)) {
                Received::Late => instruments::late_event(),
                Received::Violation(what) => return Err(self.defect(what)),
                Received::Taken => break kind,
            }
        };
        match taken {
            Event::Failed(failed) => {
                self.link.ended();
                Err(BrokenEpisode::given_up(&failed))
            }
            other => Ok(other),
        }
    }

    /// The worker breaks the protocol.
    pub(super) fn defect(&self, what: &str) -> BrokenEpisode {
        let message = format!("the worker {} breaks the protocol: {what}", self.link.worker());
        BrokenEpisode::new(message, EpisodeFault::Retryable)
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
