//! Service discovery: every address behind a name is an engine, and one that the name no longer has is drained.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use evenkeel_rpc::client::ServerAddress;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::engine::MakeClient;
use crate::monitor::HealthMonitor;
use crate::pool::{EnginePool, PooledEngine};

/// One address for each engine: a name may have addresses of both families, which lead to the same engines.
pub(crate) fn deduplicated(found: &BTreeSet<ServerAddress>) -> Vec<ServerAddress> {
    let is_v6 = |address: &ServerAddress| address.url.contains("://[");
    let has_v4 = |host: &Option<String>| found.iter().any(|other| other.host == *host && !is_v6(other));
    let mut seen = BTreeSet::new();
    let kept = found.iter().filter(|address| address.host.is_none() || !is_v6(address) || !has_v4(&address.host));
    kept.filter(|address| seen.insert(address.url.as_str())).cloned().collect()
}

/// Keeps the pool in step with the addresses.
pub(crate) struct Discovery {
    pool: Arc<EnginePool>,
    addresses: watch::Receiver<BTreeSet<ServerAddress>>,
    /// The engines that joined so far, by URL.
    known: BTreeMap<String, Arc<PooledEngine>>,
    make_client: MakeClient,
    stop: CancellationToken,
}

impl Discovery {
    /// `known` are the engines that joined already. Their health monitors run, as do those of later ones, until `stop`.
    pub(crate) fn new(
        pool: &Arc<EnginePool>,
        addresses: watch::Receiver<BTreeSet<ServerAddress>>,
        known: BTreeMap<String, Arc<PooledEngine>>,
        make_client: MakeClient,
        stop: &CancellationToken,
    ) -> Self {
        known.values().for_each(|engine| HealthMonitor::spawn(pool, engine, stop));
        Self { pool: Arc::clone(pool), addresses, known, make_client, stop: stop.clone() }
    }

    /// Follows the addresses until `stop`.
    pub(crate) async fn run(mut self) {
        loop {
            let found = deduplicated(&self.addresses.borrow_and_update());
            self.update_known(&found);
            found.into_iter().for_each(|address| self.join_if_new(address));
            tokio::select! {
                changed = self.addresses.changed() => if changed.is_err() { return },
                () = self.stop.cancelled() => return,
            }
        }
    }

    /// Drains engines whose address disappeared, and takes back those whose address returned.
    fn update_known(&mut self, found: &[ServerAddress]) {
        let pool = &self.pool;
        let members: BTreeSet<usize> = pool.members().iter().map(|engine| engine.id()).collect();
        self.known.retain(|url, engine| {
            match (found.iter().any(|address| address.url == *url), members.contains(&engine.id())) {
                (false, true) => {
                    tracing::info!(engine = url, "draining: the name no longer has this address");
                    pool.drain(engine);
                }
                // Another engine may have the address now: nothing known about the old one holds.
                (true, false) if pool.is_drained(engine) => return false,
                (true, false) => {
                    tracing::info!(engine = url, "no longer draining: the name has this address again");
                    pool.undrain(engine);
                }
                _ => {}
            }
            true
        });
    }

    fn join_if_new(&mut self, address: ServerAddress) {
        if self.known.contains_key(&address.url) {
            return;
        }
        match (self.make_client)(&address) {
            Ok(client) => {
                tracing::info!(engine = address.url, "engine discovered");
                let engine = self.pool.join(client);
                HealthMonitor::spawn(&self.pool, &engine, &self.stop);
                self.known.insert(address.url, engine);
            }
            Err(error) => tracing::warn!(engine = address.url, %error, "no client for this engine"),
        }
    }
}
