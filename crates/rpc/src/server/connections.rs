//! The open connections of a server: their number, and how long they may be idle.
//!
//! Beyond `max_connections` a new connection replaces an idle one: of the host that has the most, the one that has been
//! idle longest. If none is idle, a few more are accepted for health checks only, so that a full server still counts as
//! alive. A host may have all but a sixteenth of the connections; beyond that it replaces its own.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::ServerSettings;
use crate::labels::CloseReason;
use crate::peer::{ClientId, Host};

/// One connection in this many is reserved from any single host.
const RESERVED_SHARE: usize = 16;
/// Additional connections for health checks.
const HEALTH_ONLY: usize = 16;
/// Interval between searches for expired connections.
const SWEEP_INTERVAL: Duration = Duration::from_millis(250);

/// The connections of one server. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct Connections(Arc<ConnectionLimits>);

#[derive(Debug)]
struct ConnectionLimits {
    max: usize,
    handshake: Duration,
    idle: Option<Duration>,
    handles: Mutex<HashMap<ClientId, ConnectionHandle>>,
}

/// A handle to a connection. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct ConnectionHandle(Arc<ConnectionState>);

#[derive(Debug)]
struct ConnectionState {
    client: ClientId,
    health_only: bool,
    begun: Instant,
    activity: Mutex<Activity>,
    close: CancellationToken,
    /// The names of the client's certificate, once they are verified.
    names: OnceLock<Vec<String>>,
}

#[derive(Debug)]
struct Activity {
    calls: usize,
    called: bool,
    since: Instant,
}

/// Keeps a connection registered until it is dropped.
#[derive(Debug)]
pub(super) struct Registration {
    pub(super) handle: ConnectionHandle,
    connections: Connections,
}

/// Keeps a connection in use until it is dropped.
#[derive(Debug)]
pub(super) struct CallGuard(ConnectionHandle);

impl Connections {
    pub(super) fn new(settings: &ServerSettings) -> Self {
        Self(Arc::new(ConnectionLimits {
            max: settings.max_connections,
            handshake: settings.handshake_timeout,
            idle: Some(settings.idle_timeout).filter(|timeout| !timeout.is_zero()),
            handles: Mutex::default(),
        }))
    }

    fn handles(&self) -> MutexGuard<'_, HashMap<ClientId, ConnectionHandle>> {
        self.0.handles.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a connection from an address, possibly closing another one for it. `abort` closes it, too.
    pub(super) fn register(&self, address: IpAddr, abort: &CancellationToken) -> Registration {
        let client = ClientId::at(address);
        let mut handles = self.handles();
        let usual = handles.values().filter(|handle| !handle.0.health_only && !handle.0.close.is_cancelled());
        let mut by_host = HashMap::<Host, usize>::new();
        usual.clone().for_each(|handle| *by_host.entry(handle.client().host()).or_default() += 1);
        let of_host = |handle: &ConnectionHandle| by_host.get(&handle.client().host()).copied().unwrap_or(0);
        let own = by_host.get(&client.host()).copied().unwrap_or(0) >= self.0.max - self.0.max / RESERVED_SHARE;
        let full = own || usual.clone().count() >= self.0.max;
        let health_only = full && {
            let may = usual.filter(|handle| !own || handle.client().host() == client.host());
            let idle = may.filter_map(|handle| Some((Reverse(of_host(handle)), handle.idle_since()?, handle)));
            let first = idle.min_by_key(|(most, since, _)| (*most, *since)).map(|(.., handle)| handle);
            first.inspect(|handle| handle.close(CloseReason::Evicted)).is_none()
        };
        if health_only {
            let others = handles.values().filter(|handle| handle.0.health_only && !handle.0.close.is_cancelled());
            if others.clone().count() >= HEALTH_ONLY
                && let Some(oldest) = others.min_by_key(|handle| handle.0.begun)
            {
                oldest.close(CloseReason::Evicted);
            }
            metrics::counter!("evenkeel_connections_full_total").increment(1);
        }
        let begun = Instant::now();
        let activity = Mutex::new(Activity { calls: 0, called: false, since: begun });
        let handle = ConnectionHandle(Arc::new(ConnectionState {
            client,
            health_only,
            begun,
            activity,
            close: abort.child_token(),
            names: OnceLock::new(),
        }));
        handles.insert(client, handle.clone());
        metrics::gauge!("evenkeel_connections").increment(1);
        Registration { handle, connections: self.clone() }
    }

    /// Closes expired connections; never returns.
    pub(super) async fn close_expired(self) {
        let mut interval = tokio::time::interval(SWEEP_INTERVAL);
        loop {
            interval.tick().await;
            for handle in self.handles().values() {
                self.close_if_expired(handle);
            }
        }
    }

    fn close_if_expired(&self, handle: &ConnectionHandle) {
        let age = handle.0.begun.elapsed();
        let state = handle.activity();
        let idle = (state.calls == 0).then(|| state.since.elapsed());
        let called = state.called;
        drop(state);
        if (!called || handle.0.health_only) && age > self.0.handshake {
            handle.close(CloseReason::NeverUsed);
        } else if let (Some(idle), Some(most)) = (idle, self.0.idle)
            && idle > most
        {
            handle.close(CloseReason::Idle);
        }
    }
}

impl ConnectionHandle {
    pub(super) fn client(&self) -> ClientId {
        self.0.client
    }

    /// The client's certificate was verified for these names.
    pub(super) fn prove(&self, names: Vec<String>) {
        // A connection has one handshake.
        let _ = self.0.names.set(names);
    }

    /// The verified names of the client.
    pub(super) fn names(&self) -> &[String] {
        self.0.names.get().map_or(&[], Vec::as_slice)
    }

    /// Whether it serves health checks only.
    pub(super) fn is_health_only(&self) -> bool {
        self.0.health_only
    }

    /// Cancelled when the connection must close.
    pub(super) fn closing(&self) -> CancellationToken {
        self.0.close.clone()
    }

    pub(super) fn call(&self) -> CallGuard {
        let mut state = self.activity();
        state.calls += 1;
        state.called = true;
        CallGuard(self.clone())
    }

    fn activity(&self) -> MutexGuard<'_, Activity> {
        self.0.activity.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn idle_since(&self) -> Option<Instant> {
        let state = self.activity();
        (state.calls == 0).then_some(state.since)
    }

    fn close(&self, why: CloseReason) {
        if !self.0.close.is_cancelled() {
            tracing::debug!(client = ?self.0.client, why = why.label(), "closing a connection");
            metrics::counter!("evenkeel_connections_closed_total", "why" => why.label()).increment(1);
            self.0.close.cancel();
        }
    }
}

impl Drop for CallGuard {
    fn drop(&mut self) {
        let mut state = self.0.activity();
        state.calls -= 1;
        state.since = Instant::now();
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.connections.handles().remove(&self.handle.client());
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
    async fn a_host_leaves_connections_to_others_even_if_all_of_its_own_have_calls() {
        let (connections, abort) = with(32);
        let greedy = "10.0.0.1".parse().unwrap();
        let other = "10.0.0.2".parse().unwrap();
        let held: Vec<_> = (0..40)
            .map(|_| {
                let registration = connections.register(greedy, &abort);
                let call = registration.handle.call();
                (registration, call)
            })
            .collect();
        let usual = held.iter().filter(|(registration, _)| !registration.handle.is_health_only()).count();
        assert_eq!(usual, 30);
        assert!(!connections.register(other, &abort).handle.is_health_only());
    }

    #[tokio::test]
    async fn the_host_with_the_most_connections_loses_one() {
        let (connections, abort) = with(4);
        let many = "10.0.0.1".parse().unwrap();
        let one = "10.0.0.2".parse().unwrap();
        let first = connections.register(one, &abort);
        let others: Vec<_> = (0..10).map(|_| connections.register(many, &abort)).collect();
        assert!(!first.handle.closing().is_cancelled(), "although it is the oldest");
        let open = others.iter().filter(|registration| !registration.handle.closing().is_cancelled()).count();
        assert_eq!(open, 3);
    }
}
