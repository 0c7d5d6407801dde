//! One call of `Run`: the episodes of one client, until it goes away.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_proto::FieldError;
use evenkeel_proto::v1::environment_request::Kind;
use evenkeel_proto::v1::{
    Act, CloseEpisode, CloseReason, EnvironmentEvent, EnvironmentRequest, EpisodeFailure, OpenEpisode,
};
use evenkeel_rpc::error::ServiceError;
use evenkeel_rpc::server::Drain;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_stream::{Stream, StreamExt};
use tonic::Status;

use crate::counts::{End, Episodes};
use crate::open_episode::{Answer, Failure, Limits, OpenedEpisode};

/// Events that may be unread before no more requests are taken.
pub(crate) const MAX_UNREAD: usize = 256;
/// How long a client may read nothing.
const READ_TIMEOUT: Duration = Duration::from_secs(120);
/// How often episodes are looked for of which nothing is heard.
const IDLE_CHECK: Duration = Duration::from_millis(100);
/// Longest id of an episode, in bytes.
const MAX_ID: usize = 1024;

/// Events on their way to the client.
type Events = mpsc::Sender<Result<EnvironmentEvent, Status>>;

/// The episodes of one client.
pub(crate) struct EpisodeStream {
    episodes: Arc<Episodes>,
    limits: Limits,
    drain: Drain,
    events: Events,
    open: HashMap<String, OpenedEpisode>,
}

/// The client is gone, or does not read.
struct Gone;

impl EpisodeStream {
    pub(crate) fn new(episodes: Arc<Episodes>, limits: Limits, drain: Drain, events: Events) -> Self {
        Self { episodes, limits, drain, events, open: HashMap::new() }
    }

    /// Serves requests until the client ends them or goes away.
    pub(crate) async fn run<S>(mut self, mut requests: S)
    where
        S: Stream<Item = Result<EnvironmentRequest, Status>> + Send + Unpin,
    {
        let (drain, events) = (self.drain.clone(), self.events.clone());
        let mut check = interval(IDLE_CHECK);
        check.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let served = tokio::select! {
                biased;
                () = drain.aborting() => {
                    let _ = self.events.try_send(Err(ServiceError::Draining.into()));
                    break;
                }
                () = events.closed() => break,
                _ = check.tick() => match self.drain.is_draining() && self.open.is_empty() {
                    true => {
                        let _ = self.events.try_send(Err(ServiceError::Draining.into()));
                        break;
                    }
                    false => self.end_idle().await,
                },
                request = requests.next() => match request {
                    Some(Ok(request)) => self.serve(request).await,
                    Some(Err(status)) => {
                        let _ = self.events.try_send(Err(status));
                        break;
                    }
                    None => break,
                },
            };
            if served.is_err() {
                break;
            }
        }
        for episode in self.open.into_values() {
            self.episodes.ended(episode.environment(), End::Closed);
        }
    }

    async fn serve(&mut self, request: EnvironmentRequest) -> Result<(), Gone> {
        match request.kind {
            Some(Kind::Open(open)) => self.open(open).await,
            Some(Kind::Act(act)) => self.act(act).await,
            Some(Kind::Close(close)) => self.close(close).await,
            Some(Kind::KeepAlive(keep_alive)) => {
                for id in &keep_alive.episode_ids {
                    if let Some(episode) = self.open.get_mut(id) {
                        episode.hear();
                    }
                }
                Ok(())
            }
            None => self.violated(FieldError::missing("kind", "open, act, close or keep_alive")).await,
        }
    }

    async fn open(&mut self, request: OpenEpisode) -> Result<(), Gone> {
        let id = &request.episode_id;
        if id.is_empty() || id.len() > MAX_ID {
            let allowed = format!("an id of at most {MAX_ID} bytes that no other open episode of the stream has");
            return self.violated(FieldError::quoted("open.episode_id", id, allowed)).await;
        }
        if let Some(known) = self.open.get(id) {
            if known.attempt() == request.attempt {
                let opened = known.opened();
                return self.send(opened).await;
            }
            if known.attempt() > request.attempt {
                let failure = Failure::new(EpisodeFailure::Refused, "a later attempt at the episode is open");
                return self.send(failure.event(id, request.attempt)).await;
            }
            self.forget(id, End::Closed);
        }
        let opened = self.opened(&request);
        match opened {
            Ok(episode) => {
                let event = episode.opened();
                self.open.insert(request.episode_id, episode);
                self.send(event).await
            }
            Err(failure) => {
                self.episodes.ended("unknown", End::Failed(failure.kind));
                self.send(failure.event(&request.episode_id, request.attempt)).await
            }
        }
    }

    fn opened(&self, request: &OpenEpisode) -> Result<OpenedEpisode, Failure> {
        let full = |message: String| Failure::new(EpisodeFailure::Overloaded, message);
        if self.drain.is_draining() {
            return Err(full("the worker is about to stop".to_owned()));
        }
        let most = self.episodes.most();
        let slot = self.episodes.enter().ok_or_else(|| full(format!("{most} episodes are open (max_episodes)")))?;
        OpenedEpisode::open(request, self.limits, slot)
    }

    async fn act(&mut self, act: Act) -> Result<(), Gone> {
        let (id, attempt) = (act.episode_id.clone(), act.attempt);
        let Some(episode) = self.open.get_mut(&id).filter(|episode| episode.attempt() == attempt) else {
            let failure = Failure::new(EpisodeFailure::Refused, "the episode is not open");
            return self.send(failure.event(&id, attempt)).await;
        };
        episode.hear();
        match episode.act(act) {
            Ok(Answer::Events(events)) => self.send_all(events).await,
            Ok(Answer::Last(events)) => {
                self.forget(&id, End::Scored);
                self.send_all(events).await
            }
            Err(failure) => self.fail(&id, attempt, failure).await,
        }
    }

    async fn close(&mut self, close: CloseEpisode) -> Result<(), Gone> {
        let (id, attempt) = (&close.episode_id, close.attempt);
        let Some(episode) = self.open.get_mut(id).filter(|episode| episode.attempt() == attempt) else {
            return Ok(());
        };
        match close.reason() {
            CloseReason::Budget => match episode.end(close.deadline_ms) {
                Ok(Some(scored)) => {
                    self.forget(id, End::Scored);
                    self.send(scored).await
                }
                Ok(None) => Ok(()),
                Err(failure) => self.fail(id, attempt, failure).await,
            },
            CloseReason::Cancelled => {
                self.forget(id, End::Closed);
                Ok(())
            }
            CloseReason::Unspecified => {
                let known = CloseReason::SPECIFIED.iter().map(|reason| reason.as_str_name()).collect::<Vec<_>>();
                self.violated(FieldError::new("close.reason", close.reason, known.join(" or "))).await
            }
        }
    }

    /// Ends the episodes of which nothing was heard for too long.
    async fn end_idle(&mut self) -> Result<(), Gone> {
        let now = Instant::now();
        let idle: Vec<_> =
            self.open.iter().filter(|(_, episode)| episode.is_idle(now)).map(|(id, _)| id.clone()).collect();
        for id in idle {
            let Some(episode) = self.open.get(&id) else { continue };
            let (failure, attempt) = (episode.idle_failure(), episode.attempt());
            self.fail(&id, attempt, failure).await?;
        }
        Ok(())
    }

    async fn fail(&mut self, id: &str, attempt: u32, failure: Failure) -> Result<(), Gone> {
        self.forget(id, End::Failed(failure.kind));
        self.send(failure.event(id, attempt)).await
    }

    fn forget(&mut self, id: &str, end: End) {
        if let Some(episode) = self.open.remove(id) {
            self.episodes.ended(episode.environment(), end);
        }
    }

    async fn send_all(&mut self, events: Vec<EnvironmentEvent>) -> Result<(), Gone> {
        for event in events {
            self.send(event).await?;
        }
        Ok(())
    }

    /// Sends an event. Waiting for a client that does not read is the backpressure on it.
    async fn send(&mut self, event: EnvironmentEvent) -> Result<(), Gone> {
        let sending = self.events.send(Ok(event));
        tokio::select! {
            () = self.drain.aborting() => Err(Gone),
            sent = tokio::time::timeout(READ_TIMEOUT, sending) => match sent {
                Ok(Ok(())) => Ok(()),
                _ => Err(Gone),
            },
        }
    }

    /// Ends the call: no event could refer to what was sent.
    async fn violated(&mut self, violation: FieldError) -> Result<(), Gone> {
        let _ = self.events.send(Err(ServiceError::from(violation).into())).await;
        Err(Gone)
    }
}
