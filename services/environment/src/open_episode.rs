//! One episode of a stream: its requests in, its events out.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use evenkeel_episode::session::{Acted, Session};
use evenkeel_episode::{BuiltIn, Environment, step};
use evenkeel_proto::v1::environment_event::Kind;
use evenkeel_proto::v1::{Act, EnvironmentEvent, EpisodeFailed, EpisodeFailure, Observed, OpenEpisode, Opened, Scored};
use evenkeel_rpc::error::micros;
use tokio::time::Instant;

use crate::counts::Slot;

/// Why an episode has ended without a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) kind: EpisodeFailure,
    /// Whether another attempt makes sense.
    pub(crate) retryable: bool,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(kind: EpisodeFailure, message: impl Into<String>) -> Self {
        // Another attempt at a task that cannot be done ends the same way.
        Self { kind, retryable: kind != EpisodeFailure::TaskInvalid, message: message.into() }
    }

    /// As an event of an episode.
    pub(crate) fn event(self, episode_id: &str, attempt: u32) -> EnvironmentEvent {
        let failed = EpisodeFailed { failure: self.kind.into(), retryable: self.retryable, message: self.message };
        EnvironmentEvent { episode_id: episode_id.to_owned(), attempt, kind: Some(Kind::Failed(failed)) }
    }
}

/// What an action leads to.
pub(crate) enum Answer {
    /// It is answered.
    Events(Vec<EnvironmentEvent>),
    /// It is answered, and the episode is over.
    Last(Vec<EnvironmentEvent>),
}

/// Limits of a worker.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) step: Duration,
    pub(crate) idle: Duration,
}

impl Limits {
    /// The limit of a request, at most the worker's.
    fn step(self, deadline_ms: Option<u64>) -> Duration {
        deadline_ms.map_or(self.step, |limit| Duration::from_millis(limit).min(self.step))
    }
}

/// An episode that is open.
pub(crate) struct OpenedEpisode {
    id: String,
    name: &'static str,
    session: Session,
    environment: Box<dyn Environment>,
    limits: Limits,
    heard: Instant,
    _slot: Slot,
}

impl OpenedEpisode {
    /// Opens an episode, which has a place.
    ///
    /// # Errors
    /// An environment or a task that there is not; a deadline.
    pub(crate) fn open(request: &OpenEpisode, limits: Limits, slot: Slot) -> Result<Self, Failure> {
        let began = Instant::now();
        let unknown = |error: evenkeel_proto::FieldError| Failure::new(EpisodeFailure::TaskInvalid, error.to_string());
        let built_in = BuiltIn::named("environment", &request.environment).map_err(unknown)?;
        let opened = guarded(|| built_in.open(&request.task, request.seed))?;
        let environment = opened.map_err(|error| Failure::new(EpisodeFailure::TaskInvalid, error.to_string()))?;
        within(began, limits.step(request.deadline_ms), "opening it")?;
        let mut session = Session::new(request.attempt);
        session.opened();
        let idle = request.idle_ms.map_or(limits.idle, |idle| Duration::from_millis(idle).min(limits.idle));
        Ok(Self {
            id: request.episode_id.clone(),
            name: built_in.name(),
            session,
            environment,
            limits: Limits { idle, ..limits },
            heard: Instant::now(),
            _slot: slot,
        })
    }

    /// The name of its environment.
    pub(crate) fn environment(&self) -> &'static str {
        self.name
    }

    pub(crate) fn attempt(&self) -> u32 {
        self.session.attempt()
    }

    /// That it is open.
    pub(crate) fn opened(&self) -> EnvironmentEvent {
        self.event(Kind::Opened(Opened {}))
    }

    /// Something was heard of it.
    pub(crate) fn hear(&mut self) {
        self.heard = Instant::now();
    }

    /// Whether nothing was heard of it for too long.
    pub(crate) fn is_idle(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.heard) >= self.limits.idle
    }

    /// That it has ended since nothing was heard of it.
    pub(crate) fn idle_failure(&self) -> Failure {
        let limit = evenkeel_config::human(self.limits.idle);
        Failure::new(EpisodeFailure::Timeout, format!("nothing was heard of the episode for {limit}"))
    }

    /// Carries out an action, or answers it as it was answered before.
    ///
    /// # Errors
    /// An action that breaks the protocol, a step that takes too long, a defect.
    pub(crate) fn act(&mut self, act: Act) -> Result<Answer, Failure> {
        let (turn, finish_reason, deadline_ms) = (act.turn, act.finish_reason(), act.deadline_ms);
        let message = act.message.clone().unwrap_or_default();
        match self.session.act(act) {
            Ok(Acted::CarryOut) => {}
            Ok(Acted::Again(event)) => return Ok(Answer::Events(vec![*event])),
            Ok(Acted::InProgress) => return Ok(Answer::Events(Vec::new())),
            Err(refused) => return Err(Failure::new(EpisodeFailure::Refused, refused.to_string())),
        }
        let began = Instant::now();
        let done = guarded(|| step(self.environment.as_mut(), &message, finish_reason))?;
        let took = began.elapsed();
        metrics::histogram!("evenkeel_episode_step_seconds", "environment" => self.name).record(took);
        metrics::counter!("evenkeel_episode_tool_errors_total", "environment" => self.name)
            .increment(done.tool_errors.into());
        within(began, self.limits.step(deadline_ms), "the step")?;
        let observed = self.event(Kind::Observed(Observed {
            turn,
            messages: done.messages,
            done: done.done,
            tool_errors: done.tool_errors,
            work_us: micros(took),
        }));
        self.session.observed(&observed, done.done);
        if !done.done {
            return Ok(Answer::Events(vec![observed]));
        }
        let scored = self.score(None)?;
        Ok(Answer::Last(vec![observed, scored]))
    }

    /// Ends it where a budget is used up. `None` where its score is on its way.
    ///
    /// # Errors
    /// Scoring that takes too long, a defect.
    pub(crate) fn end(&mut self, deadline_ms: Option<u64>) -> Result<Option<EnvironmentEvent>, Failure> {
        if self.session.end() { self.score(deadline_ms).map(Some) } else { Ok(None) }
    }

    fn score(&mut self, deadline_ms: Option<u64>) -> Result<EnvironmentEvent, Failure> {
        let began = Instant::now();
        let verdict = guarded(|| self.environment.verdict(&self.id))?;
        within(began, self.limits.step(deadline_ms), "scoring")?;
        self.session.close();
        Ok(self.event(Kind::Scored(Scored { verdict })))
    }

    fn event(&self, kind: Kind) -> EnvironmentEvent {
        EnvironmentEvent { episode_id: self.id.clone(), attempt: self.attempt(), kind: Some(kind) }
    }
}

/// Does something of an environment, whose defects end the episode alone.
fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| {
        tracing::error!("an environment panicked");
        Failure::new(EpisodeFailure::Internal, "the environment failed unexpectedly")
    })
}

fn within(began: Instant, limit: Duration, what: &str) -> Result<(), Failure> {
    if began.elapsed() <= limit {
        return Ok(());
    }
    let limit = evenkeel_config::human(limit);
    Err(Failure::new(EpisodeFailure::Timeout, format!("{what} took longer than {limit}")))
}
