//! The connections of a server: how many there are, and for how long one may do nothing.
//!
//! Beyond `max_connections` the one that has been without a call the longest makes room. Where all of them have calls, a few more are
//! taken for a moment, and answered health checks alone: a server that is full is alive.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::ServerConfig;
use crate::peer::ClientId;

/// Connections for health checks where there are no others.
const HEALTH_ONLY: usize = 16;
/// How often connections are looked through for those whose time is over.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// All connections of one server. Clones are the same.
#[derive(Debug, Clone)]
pub(super) struct Connections(Arc<Limits>);

#[derive(Debug)]
struct Limits {
    max: usize,
    handshake: Duration,
    idle: Option<Duration>,
    peers: Mutex<HashMap<ClientId, Peer>>,
}

/// A connection as its calls see it. Clones are the same.
#[derive(Debug, Clone)]
pub(super) struct Peer(Arc<Link>);

#[derive(Debug)]
struct Link {
    client: ClientId,
    health_only: bool,
    begun: Instant,
    use_: Mutex<Use>,
    close: CancellationToken,
}

#[derive(Debug)]
struct Use {
    calls: usize,
    called: bool,
    since: Instant,
}

/// A connection's entry among the others, as long as it stands.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) peer: Peer,
    connections: Connections,
}

/// A call on a connection, which is in use as long.
#[derive(Debug)]
pub(super) struct Call(Peer);

impl Connections {
    pub(super) fn new(config: &ServerConfig) -> Self {
        Self(Arc::new(Limits {
            max: config.max_connections,
            handshake: Duration::from_millis(config.handshake_timeout_ms),
            idle: (config.idle_timeout_ms > 0).then(|| Duration::from_millis(config.idle_timeout_ms)),
            peers: Mutex::default(),
        }))
    }

    fn peers(&self) -> MutexGuard<'_, HashMap<ClientId, Peer>> {
        self.0.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a connection, for whose sake another may be closed. It ends with `cut`.
    pub(super) fn take(&self, cut: &CancellationToken) -> Entry {
        let mut peers = self.peers();
        let usual = peers.values().filter(|peer| !peer.0.health_only && !peer.0.close.is_cancelled());
        let health_only = usual.clone().count() >= self.0.max && {
            let idle = usual.filter_map(|peer| Some((peer.idle_since()?, peer)));
            let longest = idle.min_by_key(|(since, _)| *since).map(|(_, peer)| peer);
            longest.inspect(|peer| peer.close("room was needed")).is_none()
        };
        if health_only {
            let others = peers.values().filter(|peer| peer.0.health_only && !peer.0.close.is_cancelled());
            if others.clone().count() >= HEALTH_ONLY
                && let Some(oldest) = others.min_by_key(|peer| peer.0.begun)
            {
                oldest.close("room was needed");
            }
            metrics::counter!("evenkeel_connections_full_total").increment(1);
        }
        let begun = Instant::now();
        let use_ = Mutex::new(Use { calls: 0, called: false, since: begun });
        let client = ClientId::unseen();
        let peer = Peer(Arc::new(Link { client, health_only, begun, use_, close: cut.child_token() }));
        peers.insert(client, peer.clone());
        metrics::gauge!("evenkeel_connections").increment(1);
        Entry { peer, connections: self.clone() }
    }

    /// Closes connections whose time is over, for ever.
    pub(super) async fn look_after(self) {
        let mut interval = tokio::time::interval(LOOK_INTERVAL);
        loop {
            interval.tick().await;
            for peer in self.peers().values() {
                self.look_at(peer);
            }
        }
    }

    fn look_at(&self, peer: &Peer) {
        let age = peer.0.begun.elapsed();
        let state = peer.in_use();
        let idle = (state.calls == 0).then(|| state.since.elapsed());
        let called = state.called;
        drop(state);
        if (!called || peer.0.health_only) && age > self.0.handshake {
            peer.close("no call was begun in time");
        } else if let (Some(idle), Some(most)) = (idle, self.0.idle)
            && idle > most
        {
            peer.close("no call for long");
        }
    }
}

impl Peer {
    pub(super) fn client(&self) -> ClientId {
        self.0.client
    }

    /// Whether only health checks are answered.
    pub(super) fn is_health_only(&self) -> bool {
        self.0.health_only
    }

    /// Ends when the connection must.
    pub(super) fn closing(&self) -> CancellationToken {
        self.0.close.clone()
    }

    /// Begins a call.
    pub(super) fn call(&self) -> Call {
        let mut state = self.in_use();
        state.calls += 1;
        state.called = true;
        Call(self.clone())
    }

    fn in_use(&self) -> MutexGuard<'_, Use> {
        self.0.use_.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn idle_since(&self) -> Option<Instant> {
        let state = self.in_use();
        (state.calls == 0).then_some(state.since)
    }

    fn close(&self, why: &'static str) {
        if !self.0.close.is_cancelled() {
            tracing::debug!(client = ?self.0.client, why, "closing a connection");
            metrics::counter!("evenkeel_connections_closed_total", "why" => why).increment(1);
            self.0.close.cancel();
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let mut state = self.0.in_use();
        state.calls -= 1;
        state.since = Instant::now();
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.connections.peers().remove(&self.peer.client());
        metrics::gauge!("evenkeel_connections").decrement(1);
    }
}
