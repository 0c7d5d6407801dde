//! The connections of a server: how many there are, and for how long one may do nothing.
//!
//! Beyond `max_connections` one without a call makes room: of the host that has the most, the one that has been without the longest.
//! Where all of them have calls, a few more are taken for a moment, and answered health checks alone: a server that is full is alive. One
//! host has all but a sixteenth at most, and makes room among its own beyond that.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::ServerSettings;
use crate::peer::{ClientId, Host};

/// What one host leaves to others: one connection of so many.
const LEFT_TO_OTHERS: usize = 16;
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
    pub(super) fn new(settings: &ServerSettings) -> Self {
        Self(Arc::new(Limits {
            max: settings.max_connections,
            handshake: settings.handshake_timeout,
            idle: Some(settings.idle_timeout).filter(|timeout| !timeout.is_zero()),
            peers: Mutex::default(),
        }))
    }

    fn peers(&self) -> MutexGuard<'_, HashMap<ClientId, Peer>> {
        self.0.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a connection from an address, for whose sake another may be closed. It ends with `cut`.
    pub(super) fn take(&self, address: IpAddr, cut: &CancellationToken) -> Entry {
        let client = ClientId::at(address);
        let mut peers = self.peers();
        let usual = peers.values().filter(|peer| !peer.0.health_only && !peer.0.close.is_cancelled());
        let mut by_host = HashMap::<Host, usize>::new();
        usual.clone().for_each(|peer| *by_host.entry(peer.client().host()).or_default() += 1);
        let of_host = |peer: &Peer| by_host.get(&peer.client().host()).copied().unwrap_or(0);
        let own = by_host.get(&client.host()).copied().unwrap_or(0) >= self.0.max - self.0.max / LEFT_TO_OTHERS;
        let full = own || usual.clone().count() >= self.0.max;
        let health_only = full && {
            let may = usual.filter(|peer| !own || peer.client().host() == client.host());
            let idle = may.filter_map(|peer| Some((Reverse(of_host(peer)), peer.idle_since()?, peer)));
            let first = idle.min_by_key(|(most, since, _)| (*most, *since)).map(|(.., peer)| peer);
            first.inspect(|peer| peer.close("room was needed")).is_none()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn with(max_connections: usize) -> (Connections, CancellationToken) {
        let settings = ServerSettings { max_connections, ..ServerSettings::default() };
        (Connections::new(&settings), CancellationToken::new())
    }

    #[tokio::test]
    async fn a_host_leaves_connections_to_others_though_all_of_its_own_have_calls() {
        let (connections, cut) = with(32);
        let (greedy, other) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        let held: Vec<_> = (0..40)
            .map(|_| {
                let entry = connections.take(greedy, &cut);
                let call = entry.peer.call();
                (entry, call)
            })
            .collect();
        let usual = held.iter().filter(|(entry, _)| !entry.peer.is_health_only()).count();
        assert_eq!(usual, 30);
        assert!(!connections.take(other, &cut).peer.is_health_only());
    }

    #[tokio::test]
    async fn the_host_with_the_most_connections_makes_room() {
        let (connections, cut) = with(4);
        let (many, one) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        let first = connections.take(one, &cut);
        let others: Vec<_> = (0..10).map(|_| connections.take(many, &cut)).collect();
        assert!(!first.peer.closing().is_cancelled(), "though it is the oldest");
        let standing = others.iter().filter(|entry| !entry.peer.closing().is_cancelled()).count();
        assert_eq!(standing, 3);
    }
}
