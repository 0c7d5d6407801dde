//! One episode: a task that takes its requests one after the other and sends its events, so that episodes never wait
//! for each other.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_environment::session::{Acted, EpisodeSession};
use evenkeel_proto::v1::environment_event::Kind;
use evenkeel_proto::v1::{Act, EnvironmentEvent, Observed, OpenEpisode, Opened, Scored};
use evenkeel_rpc::error::micros;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};
use tonic::Status;

use crate::action::Action;
use crate::catalog::{Catalog, Entry};
use crate::counts::{Counted, End};
use crate::failure::Failure;
use crate::played::Played;
use crate::rewards::Rewards;

/// Requests of one episode that wait: a client sends one after the other.
pub(crate) const MAX_WAITING: usize = 16;
/// How long a client may read nothing.
const READ_TIMEOUT: Duration = Duration::from_secs(120);
/// What the rewards of turns may be together.
const RANGE: [f64; 2] = [0.0, 1.0];

/// Events on their way to the client.
pub(crate) type Events = mpsc::Sender<Result<EnvironmentEvent, Status>>;

/// Limits of a worker.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WorkerLimits {
    pub(crate) step: Duration,
    pub(crate) idle: Duration,
}

impl WorkerLimits {
    /// The limit of a request, at most the worker's.
    fn step(self, deadline_ms: Option<u64>) -> Duration {
        deadline_ms.map_or(self.step, |limit| Duration::from_millis(limit).min(self.step))
    }

    fn idle(self, idle_ms: Option<u64>) -> Duration {
        idle_ms.map_or(self.idle, |idle| Duration::from_millis(idle).min(self.idle))
    }
}

/// What is asked of an episode.
pub(crate) enum Request {
    /// Opens the episode again, which changes nothing.
    Open,
    Act(Act),
    /// A budget is used up: the episode is scored as it stands, within these milliseconds.
    End(Option<u64>),
    Hear,
}

/// An episode of a stream.
pub(crate) struct EpisodeTask {
    pub(crate) id: String,
    pub(crate) attempt: u32,
    pub(crate) limits: WorkerLimits,
    pub(crate) requests: mpsc::Receiver<Request>,
    pub(crate) events: Events,
    /// The episode's place among those that run, and how the episode ends.
    pub(crate) counted: Counted,
    /// Rewards of the turns so far.
    pub(crate) rewards: Rewards,
}

/// Why an episode goes on no more.
enum Over {
    Failed(Failure),
    Scored(Box<EnvironmentEvent>),
    /// Nobody wants it any more.
    Gone,
}

impl From<Failure> for Over {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl EpisodeTask {
    /// Plays it to its end. Dropping the future ends it as well.
    pub(crate) async fn run(mut self, catalog: Arc<Catalog>, open: OpenEpisode) {
        let over = self.play(&catalog, open).await;
        // Before its last event: who reads that may open it again.
        self.requests.close();
        let (end, last) = match over {
            Over::Gone => (End::Closed, None),
            Over::Scored(event) => (End::Scored, Some(*event)),
            Over::Failed(failure) => (End::Failed(failure.kind), Some(failure.event(&self.id, self.attempt))),
        };
        let Self { counted, events, .. } = self;
        counted.end(end);
        if let Some(last) = last {
            let _ = timeout(READ_TIMEOUT, events.send(Ok(last))).await;
        }
    }

    async fn play(&mut self, catalog: &Catalog, open: OpenEpisode) -> Over {
        let entry = match catalog.entry(&open.environment) {
            Ok(entry) => entry,
            Err(failure) => return failure.into(),
        };
        self.counted.plays(entry.name());
        let idle = self.limits.idle(open.idle_ms);
        let mut played = match entry.open(&open, self.limits.step(open.deadline_ms)).await {
            Ok(played) => played,
            Err(failure) => return failure.into(),
        };
        drop(open);
        let mut session = EpisodeSession::new(self.attempt);
        session.opened();
        let opened = self.event(Kind::Opened(Opened { request: played.request(), messages: played.first_messages() }));
        if self.send_event(opened.clone()).await.is_err() {
            return Over::Gone;
        }
        loop {
            let heard = Instant::now();
            let request = match timeout_at(heard + idle, self.requests.recv()).await {
                Ok(Some(request)) => request,
                Ok(None) => return Over::Gone,
                Err(_) => return Failure::timeout("the pause in which nothing was heard of the episode", idle).into(),
            };
            let done = match request {
                Request::Hear => Ok(()),
                Request::Open => self.send_event(opened.clone()).await,
                Request::Act(act) => self.act(act, &entry, &mut session, &mut played).await,
                Request::End(deadline_ms) if session.end() => Err(self.score(deadline_ms, &mut played).await),
                // Its score is on its way.
                Request::End(_) => Ok(()),
            };
            if let Err(over) = done {
                return over;
            }
        }
    }

    /// Carries out an action, or answers it as it was answered before.
    async fn act(
        &mut self,
        act: Act,
        entry: &Entry,
        session: &mut EpisodeSession,
        played: &mut Played,
    ) -> Result<(), Over> {
        let turn = act.turn;
        let deadline_ms = act.deadline_ms;
        let token_ids = (act.prompt_token_ids.clone(), act.tokens.clone());
        let acted = Action {
            message: act.message.clone().unwrap_or_default(),
            finish_reason: act.finish_reason(),
            turn,
            tokens: (act.prompt_tokens, act.sampled_tokens),
            token_ids,
        };
        match session.act(act) {
            Ok(Acted::CarryOut) => {}
            Ok(Acted::Again(event)) => return self.send_event(*event).await,
            Ok(Acted::InProgress) => return Ok(()),
            Err(refused) => return Err(Failure::refused(refused.to_string()).into()),
        }
        let began = Instant::now();
        let done = played.step(entry.tools(), acted, self.limits.step(deadline_ms)).await?;
        let took = began.elapsed();
        let environment = entry.name().to_owned();
        metrics::histogram!("evenkeel_episode_step_seconds", "environment" => environment.clone()).record(took);
        metrics::counter!("evenkeel_episode_tool_errors_total", "environment" => environment)
            .increment(done.tool_errors.into());
        if let Some(reward) = done.reward.filter(|reward| !reward.is_finite()) {
            let message = format!("the reward of turn {turn} is {reward}, allowed: a finite number");
            return Err(Failure::crashed(message).into());
        }
        self.rewards.add(done.reward);
        let asks = done.request.as_ref().is_some_and(|request| !request.conversation.is_empty());
        if !done.done && !asks && done.messages.is_empty() {
            return Err(Failure::crashed("the environment said nothing and did not end the episode").into());
        }
        let observed = self.event(Kind::Observed(Observed {
            turn,
            messages: done.messages,
            done: done.done,
            tool_errors: done.tool_errors,
            work_us: micros(took),
            request: done.request,
            reward: done.reward,
        }));
        session.observed(&observed, done.done);
        self.send_event(observed).await?;
        if done.done { Err(self.score(None, played).await) } else { Ok(()) }
    }

    /// What the environment makes of the episode, or what its turns have earned.
    async fn score(&self, deadline_ms: Option<u64>, played: &mut Played) -> Over {
        let verdict = match played.verdict(&self.id, self.limits.step(deadline_ms)).await {
            Ok(None) => self.rewards.verdict(&self.id, RANGE, "or a score of its own"),
            scored => scored,
        };
        match verdict {
            Ok(verdict) => Over::Scored(Box::new(self.event(Kind::Scored(Scored { verdict })))),
            Err(failure) => failure.into(),
        }
    }

    /// Sends an event. Waiting for a client that does not read is the backpressure on it.
    async fn send_event(&self, event: EnvironmentEvent) -> Result<(), Over> {
        match timeout(READ_TIMEOUT, self.events.send(Ok(event))).await {
            Ok(Ok(())) => Ok(()),
            _ => Err(Over::Gone),
        }
    }

    fn event(&self, kind: Kind) -> EnvironmentEvent {
        EnvironmentEvent { episode_id: self.id.clone(), attempt: self.attempt, kind: Some(kind) }
    }
}
