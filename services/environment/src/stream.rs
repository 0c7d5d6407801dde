//! One call of `Run`: the episodes of one client, until it goes away.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_proto::FieldError;
use evenkeel_proto::v1::environment_request::Kind;
use evenkeel_proto::v1::{
    CloseEpisode, CloseReason, EnvironmentEvent, EnvironmentRequest, EpisodeFailure, OpenEpisode,
};
use evenkeel_rpc::error::ServiceError;
use evenkeel_rpc::server::Drain;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{MissedTickBehavior, interval};
use tokio_stream::{Stream, StreamExt};
use tonic::Status;

use crate::catalog::Catalog;
use crate::counts::Episodes;
use crate::episode::{EpisodeTask, Events, MAX_WAITING, Request, WorkerLimits};
use crate::failure::Failure;
use crate::rewards::Rewards;

/// Events that may be unread before no more requests are taken.
pub(crate) const MAX_UNREAD: usize = 256;
/// How long a client may read nothing.
const READ_TIMEOUT: Duration = Duration::from_secs(120);
/// How often it is looked whether the worker is about to stop.
const DRAIN_CHECK: Duration = Duration::from_millis(100);
/// Longest id of an episode, in bytes.
const MAX_ID: usize = 1024;

/// The episodes of one client.
pub(crate) struct EpisodeStream {
    catalog: Arc<Catalog>,
    episodes: Arc<Episodes>,
    limits: WorkerLimits,
    drain: Drain,
    events: Events,
    open: HashMap<String, OpenEpisodeHandle>,
    /// What each returns is its id and attempt. Dropping it ends all.
    tasks: JoinSet<(String, u32)>,
}

/// An episode that is open, or has just ended.
struct OpenEpisodeHandle {
    attempt: u32,
    requests: mpsc::Sender<Request>,
    task: AbortHandle,
}

impl OpenEpisodeHandle {
    fn has_none_waiting(&self) -> bool {
        self.requests.capacity() == MAX_WAITING
    }
}

/// The client is gone, or does not read.
struct Gone;

impl EpisodeStream {
    pub(crate) fn new(
        catalog: Arc<Catalog>,
        episodes: Arc<Episodes>,
        limits: WorkerLimits,
        drain: Drain,
        events: Events,
    ) -> Self {
        Self { catalog, episodes, limits, drain, events, open: HashMap::new(), tasks: JoinSet::new() }
    }

    /// Serves requests until the client ends them or goes away.
    pub(crate) async fn run<S>(mut self, mut requests: S)
    where
        S: Stream<Item = Result<EnvironmentRequest, Status>> + Send + Unpin,
    {
        let drain = self.drain.clone();
        let events = self.events.clone();
        let mut check = interval(DRAIN_CHECK);
        check.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let served = tokio::select! {
                biased;
                () = drain.aborting() => {
                    let _ = self.events.try_send(Err(ServiceError::Draining.into()));
                    break;
                }
                () = events.closed() => break,
                Some(ended) = self.tasks.join_next(), if !self.tasks.is_empty() => {
                    if let Ok((id, attempt)) = ended {
                        self.forget(&id, attempt);
                    }
                    Ok(())
                }
                _ = check.tick() => {
                    if self.drain.is_draining() && self.tasks.is_empty() {
                        let _ = self.events.try_send(Err(ServiceError::Draining.into()));
                        break;
                    }
                    Ok(())
                }
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
    }

    async fn serve(&mut self, request: EnvironmentRequest) -> Result<(), Gone> {
        match request.kind {
            Some(Kind::Open(open)) => self.open(open).await,
            Some(Kind::Act(act)) => {
                let id = act.episode_id.clone();
                let attempt = act.attempt;
                self.ask(&id, attempt, Request::Act(act)).await
            }
            Some(Kind::Close(close)) => self.close(close).await,
            Some(Kind::KeepAlive(keep_alive)) => {
                for id in &keep_alive.episode_ids {
                    // Of one with another request that waits something is heard anyway.
                    if let Some(episode) = self.open.get(id).filter(|episode| episode.has_none_waiting()) {
                        let _ = episode.requests.try_send(Request::Hear);
                    }
                }
                Ok(())
            }
            None => self.violated(FieldError::missing("kind", "open, act, close or keep_alive")).await,
        }
    }

    async fn open(&mut self, request: OpenEpisode) -> Result<(), Gone> {
        let id = request.episode_id.clone();
        let attempt = request.attempt;
        if id.is_empty() || id.len() > MAX_ID {
            let allowed = format!("an id of at most {MAX_ID} bytes that no other open episode of the stream has");
            return self.violated(FieldError::quoted("open.episode_id", &id, allowed)).await;
        }
        if let Some(known) = self.open.get(&id).filter(|known| !known.requests.is_closed()) {
            if known.attempt == attempt {
                return self.ask(&id, attempt, Request::Open).await;
            }
            if known.attempt > attempt {
                let failure = Failure::refused("a later attempt at the episode is open");
                return self.send(failure.event(&id, attempt)).await;
            }
            self.end(&id);
        }
        let full = |message: String| Failure::new(EpisodeFailure::Overloaded, message);
        let most = self.episodes.most();
        let entered = match self.drain.is_draining() {
            true => Err(full("the worker is about to stop".to_owned())),
            false => self.episodes.enter().ok_or_else(|| full(format!("{most} episodes are open (max_episodes)"))),
        };
        let counted = match entered {
            Ok(counted) => counted,
            Err(failure) => {
                self.episodes.refused(failure.kind);
                return self.send(failure.event(&id, attempt)).await;
            }
        };
        let (sender, requests) = mpsc::channel(MAX_WAITING);
        let limits = self.limits;
        let events = self.events.clone();
        let catalog = Arc::clone(&self.catalog);
        let rewards = Rewards::default();
        let episode = EpisodeTask { id: id.clone(), attempt, limits, requests, events, counted, rewards };
        let returned = (id.clone(), attempt);
        let task = self.tasks.spawn(async move {
            episode.run(catalog, request).await;
            returned
        });
        self.open.insert(id, OpenEpisodeHandle { attempt, requests: sender, task });
        Ok(())
    }

    /// Hands a request to its episode.
    async fn ask(&mut self, id: &str, attempt: u32, request: Request) -> Result<(), Gone> {
        let Some(episode) = self.open.get(id).filter(|episode| episode.attempt == attempt) else {
            return self.send(Failure::refused("the episode is not open").event(id, attempt)).await;
        };
        match episode.requests.try_send(request) {
            Ok(()) => Ok(()),
            Err(mpsc::error::TrySendError::Closed(_)) => {
                self.send(Failure::refused("the episode is not open").event(id, attempt)).await
            }
            Err(mpsc::error::TrySendError::Full(_)) => {
                self.end(id);
                let message = format!("{MAX_WAITING} requests of the episode wait for an answer");
                self.send(Failure::refused(message).event(id, attempt)).await
            }
        }
    }

    async fn close(&mut self, close: CloseEpisode) -> Result<(), Gone> {
        let id = &close.episode_id;
        let attempt = close.attempt;
        let is_known = self.open.get(id).is_some_and(|episode| episode.attempt == attempt);
        match close.reason() {
            CloseReason::Unspecified => {
                let known = CloseReason::SPECIFIED.iter().map(|reason| reason.as_str_name()).collect::<Vec<_>>();
                self.violated(FieldError::new("close.reason", close.reason, known.join(" or "))).await
            }
            CloseReason::Budget if is_known => {
                if let Some(episode) = self.open.get(id) {
                    // Where it is full or over it has failed or is scored.
                    let _ = episode.requests.try_send(Request::End(close.deadline_ms));
                }
                Ok(())
            }
            CloseReason::Cancelled if is_known => {
                self.end(id);
                Ok(())
            }
            CloseReason::Budget | CloseReason::Cancelled => Ok(()),
        }
    }

    /// Ends an episode, whatever it is at.
    fn end(&mut self, id: &str) {
        if let Some(episode) = self.open.remove(id) {
            episode.task.abort();
        }
    }

    /// An attempt has ended by itself.
    fn forget(&mut self, id: &str, attempt: u32) {
        if self.open.get(id).is_some_and(|episode| episode.attempt == attempt && episode.requests.is_closed()) {
            self.open.remove(id);
        }
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
