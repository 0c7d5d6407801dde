//! The workers that are connected, and which episode is with which of them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel_proto::v1::environment_request::Kind;
use evenkeel_proto::v1::{CloseEpisode, CloseReason, EnvironmentEvent, EnvironmentRequest, KeepAlive, OpenEpisode};
use evenkeel_rpc::client::ServerAddress;
use tokio::sync::{Notify, mpsc};

use crate::instruments;

/// Events of one episode that nobody has looked at: a worker answers each request with two at most.
const MAX_EVENTS: usize = 8;

pub(super) struct Pool {
    state: Mutex<ConnectedWorkers>,
    /// A worker has room, or there is another one.
    changed: Notify,
    /// Episodes that one worker may have.
    most: usize,
    waiting: AtomicUsize,
}

#[derive(Default)]
struct ConnectedWorkers {
    workers: BTreeMap<ServerAddress, Worker>,
    /// Addresses that no name is resolved to any more: their workers only finish their episodes.
    unwanted: BTreeSet<ServerAddress>,
    /// The number of the next connection.
    next: u64,
}

struct Worker {
    connection: u64,
    requests: mpsc::Sender<EnvironmentRequest>,
    environments: BTreeSet<String>,
    /// Episodes that it takes.
    most: usize,
    episodes: HashMap<String, mpsc::Sender<EnvironmentEvent>>,
}

/// An episode with its worker, until it is dropped.
pub(crate) struct EpisodeLink {
    pool: Arc<Pool>,
    address: ServerAddress,
    connection: u64,
    id: String,
    attempt: u32,
    requests: mpsc::Sender<EnvironmentRequest>,
    events: mpsc::Receiver<EnvironmentEvent>,
    is_over: bool,
}

impl Pool {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), changed: Notify::new(), most, waiting: AtomicUsize::new(0) })
    }

    fn state(&self) -> MutexGuard<'_, ConnectedWorkers> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A worker is connected, which has these environments and takes so many episodes. Returns the number of the
    /// connection.
    pub(super) fn connected(
        &self,
        address: &ServerAddress,
        requests: mpsc::Sender<EnvironmentRequest>,
        environments: BTreeSet<String>,
        most: usize,
    ) -> u64 {
        let mut state = self.state();
        state.next += 1;
        let connection = state.next;
        let most = most.min(self.most);
        let worker = Worker { connection, requests, environments, most, episodes: HashMap::new() };
        state.workers.insert(address.clone(), worker);
        drop(state);
        self.changed.notify_waiters();
        connection
    }

    /// The connection to a worker is lost, and its episodes with it.
    pub(super) fn lost(&self, address: &ServerAddress, connection: u64) {
        let mut state = self.state();
        if state.workers.get(address).is_some_and(|worker| worker.connection == connection) {
            state.workers.remove(address);
        }
    }

    /// The worker at an address gets new episodes, or none any more.
    pub(super) fn want(&self, address: &ServerAddress, is_wanted: bool) {
        let mut state = self.state();
        if is_wanted {
            state.unwanted.remove(address)
        } else {
            state.unwanted.insert(address.clone())
        };
    }

    /// Whether a worker that gets no new episodes has finished those that it had.
    pub(super) fn has_left(&self, address: &ServerAddress) -> bool {
        let state = self.state();
        let has_none = state.workers.get(address).is_none_or(|worker| worker.episodes.is_empty());
        state.unwanted.contains(address) && has_none
    }

    /// The message that keeps all episodes of a worker alive; `None` if it has none.
    pub(super) fn keep_alive(&self, address: &ServerAddress) -> Option<EnvironmentRequest> {
        let state = self.state();
        let worker = state.workers.get(address).filter(|worker| !worker.episodes.is_empty())?;
        let episode_ids = worker.episodes.keys().cloned().collect();
        Some(EnvironmentRequest { kind: Some(Kind::KeepAlive(KeepAlive { episode_ids })) })
    }

    /// Hands an event to its episode. One of an episode that is over is counted and dropped.
    pub(super) fn event(&self, address: &ServerAddress, event: EnvironmentEvent) {
        let mut state = self.state();
        let Some(worker) = state.workers.get_mut(address) else { return };
        let id = event.episode_id.clone();
        match worker.episodes.get(&id) {
            None => instruments::late_event(),
            // A worker that says so much about an episode has a defect: to the episode it is lost.
            Some(episode) => {
                if episode.try_send(event).is_err() {
                    worker.episodes.remove(&id);
                }
            }
        }
    }

    pub(super) fn is_connected(&self) -> bool {
        !self.state().workers.is_empty()
    }

    pub(super) fn serves(&self, environment: &str) -> bool {
        self.state().workers.values().any(|worker| worker.environments.contains(environment))
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Opens an episode with the worker that has the fewest, once one has room.
    pub(super) async fn open(self: &Arc<Self>, request: OpenEpisode) -> EpisodeLink {
        let _waits = Waits::new(&self.waiting);
        loop {
            let changed = self.changed.notified();
            if let Some(link) = self.assign(&request) {
                let open = EnvironmentRequest { kind: Some(Kind::Open(request)) };
                // A broken connection shows in the events.
                let _ = link.requests.send(open).await;
                return link;
            }
            changed.await;
        }
    }

    fn assign(self: &Arc<Self>, request: &OpenEpisode) -> Option<EpisodeLink> {
        let mut state = self.state();
        let ConnectedWorkers { workers, unwanted, .. } = &mut *state;
        let id = &request.episode_id;
        let has_room = |worker: &Worker| {
            // The attempt before may be on its way out.
            let room = worker.episodes.len() < worker.most && !worker.episodes.contains_key(id);
            room && worker.environments.contains(&request.environment)
        };
        let with_room = workers.iter_mut().filter(|(address, worker)| !unwanted.contains(*address) && has_room(worker));
        let (address, worker) = with_room.min_by_key(|(_, worker)| worker.episodes.len())?;
        let (sender, events) = mpsc::channel(MAX_EVENTS);
        worker.episodes.insert(id.clone(), sender);
        Some(EpisodeLink {
            pool: Arc::clone(self),
            address: address.clone(),
            connection: worker.connection,
            id: id.clone(),
            attempt: request.attempt,
            requests: worker.requests.clone(),
            events,
            is_over: false,
        })
    }

    fn release(&self, address: &ServerAddress, connection: u64, id: &str) {
        if let Some(worker) = self.state().workers.get_mut(address)
            && worker.connection == connection
        {
            worker.episodes.remove(id);
        }
        self.changed.notify_waiters();
    }
}

impl EpisodeLink {
    /// Sends a request of the episode. A broken connection shows in the events.
    pub(crate) async fn send(&self, kind: Kind) {
        let _ = self.requests.send(EnvironmentRequest { kind: Some(kind) }).await;
    }

    /// The next event. `None`: the worker is lost.
    pub(crate) async fn next(&mut self) -> Option<EnvironmentEvent> {
        self.events.recv().await
    }

    /// The address of the worker.
    pub(crate) fn worker(&self) -> &str {
        &self.address.url
    }

    /// The worker has ended the episode: it need not be told.
    pub(crate) fn ended(&mut self) {
        self.is_over = true;
    }
}

impl Drop for EpisodeLink {
    fn drop(&mut self) {
        if !self.is_over {
            let episode_id = self.id.clone();
            let attempt = self.attempt;
            let close =
                CloseEpisode { episode_id, attempt, reason: CloseReason::Cancelled.into(), ..CloseEpisode::default() };
            // A worker that cannot be told hears nothing more of the episode, and ends it.
            let _ = self.requests.try_send(EnvironmentRequest { kind: Some(Kind::Close(close)) });
        }
        self.pool.release(&self.address, self.connection, &self.id);
    }
}

/// Counts an episode that waits for a worker, until it is dropped.
struct Waits<'a>(&'a AtomicUsize);

impl<'a> Waits<'a> {
    fn new(waiting: &'a AtomicUsize) -> Self {
        waiting.fetch_add(1, Ordering::Relaxed);
        Self(waiting)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(id: &str) -> OpenEpisode {
        OpenEpisode { episode_id: id.into(), attempt: 1, environment: "calculator".into(), ..OpenEpisode::default() }
    }

    fn worker(pool: &Pool, name: &str, most: usize) -> (ServerAddress, u64, mpsc::Receiver<EnvironmentRequest>) {
        let (sender, receiver) = mpsc::channel(64);
        let address = ServerAddress::new(name);
        let connection = pool.connected(&address, sender, ["calculator".to_owned()].into(), most);
        (address, connection, receiver)
    }

    #[tokio::test]
    async fn an_episode_goes_to_the_worker_with_the_fewest_and_waits_where_all_are_full() {
        let pool = Pool::new(2);
        let _a = worker(&pool, "a", 9);
        let _b = worker(&pool, "b", 1);
        let mut links = Vec::new();
        for id in ["1", "2", "3"] {
            links.push(pool.open(request(id)).await);
        }
        let mut workers: Vec<_> = links.iter().map(EpisodeLink::worker).collect();
        workers.sort_unstable();
        assert_eq!(workers, ["a", "a", "b"], "at most two each, and one where that is all");
        let waiting = tokio::spawn({
            let pool = Arc::clone(&pool);
            async move { pool.open(request("4")).await.worker().to_owned() }
        });
        tokio::task::yield_now().await;
        assert_eq!(pool.waiting(), 1);
        links.retain(|link| link.worker() != "b");
        assert_eq!(waiting.await.unwrap(), "b");
    }

    #[tokio::test]
    async fn a_lost_worker_ends_its_episodes_and_a_dropped_episode_is_ended_there() {
        let pool = Pool::new(9);
        let (address, connection, mut requests) = worker(&pool, "a", 9);
        let mut link = pool.open(request("1")).await;
        assert!(matches!(requests.recv().await.unwrap().kind, Some(Kind::Open(_))));
        pool.event(&address, EnvironmentEvent { episode_id: "1".into(), attempt: 1, kind: None });
        pool.event(&address, EnvironmentEvent { episode_id: "nobody".into(), attempt: 1, kind: None });
        assert_eq!(link.next().await.unwrap().episode_id, "1");
        let other = pool.open(request("2")).await;
        assert!(pool.keep_alive(&address).is_some());
        requests.recv().await;
        drop(other);
        let Some(Kind::Close(close)) = requests.recv().await.unwrap().kind else { panic!("the episode is ended") };
        assert_eq!((close.episode_id.as_str(), close.reason()), ("2", CloseReason::Cancelled));
        pool.lost(&address, connection);
        assert_eq!(link.next().await, None);
        assert!(!pool.is_connected());
    }

    #[tokio::test]
    async fn a_worker_that_floods_an_episode_is_lost_to_it() {
        let pool = Pool::new(9);
        let (address, _, _requests) = worker(&pool, "a", 9);
        let mut link = pool.open(request("1")).await;
        for _ in 0..100 {
            pool.event(&address, EnvironmentEvent { episode_id: "1".into(), attempt: 1, kind: None });
        }
        let mut events = 0;
        while link.next().await.is_some() {
            events += 1;
        }
        assert_eq!(events, MAX_EVENTS);
    }
}
