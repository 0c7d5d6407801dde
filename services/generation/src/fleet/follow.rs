//! Engines behind names: whatever address a name has is an engine, and one that it has no more gets no more samples.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use evenkeel_rpc::client::Target as Address;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{Fleet, look_after};
use crate::engine::{Engine, EngineError};

/// Makes the engine at an address.
pub(crate) type MakeEngine = Box<dyn Fn(&Address) -> Result<Box<dyn Engine>, EngineError> + Send + Sync>;

/// One address for each engine: a name may have addresses of both families, which lead to the same ones.
pub(crate) fn one_each(found: &BTreeSet<Address>) -> Vec<Address> {
    let is_v6 = |address: &Address| address.url.contains("://[");
    let has_v4 = |host: &Option<String>| found.iter().any(|other| other.host == *host && !is_v6(other));
    let mut seen = BTreeSet::new();
    let kept = found.iter().filter(|address| address.host.is_none() || !is_v6(address) || !has_v4(&address.host));
    kept.filter(|address| seen.insert(address.url.as_str())).cloned().collect()
}

/// Lets engines join and leave as `addresses` change. `known` are those that are there already, by their URLs.
pub(crate) async fn follow(
    fleet: Arc<Fleet>,
    mut addresses: watch::Receiver<BTreeSet<Address>>,
    mut known: BTreeMap<String, usize>,
    make: MakeEngine,
    stop: CancellationToken,
) {
    loop {
        let found = one_each(&addresses.borrow_and_update());
        let present: BTreeSet<usize> = fleet.present().into_iter().collect();
        known.retain(|url, &mut engine| {
            match (found.iter().any(|address| address.url == *url), present.contains(&engine)) {
                (false, true) => {
                    tracing::info!(engine = url, "engine leaves: its name has this address no more");
                    fleet.leave(engine);
                }
                // Somebody else may live there now: nothing that was known of the one before holds.
                (true, false) if fleet.has_left(engine) => return false,
                (true, false) => {
                    tracing::info!(engine = url, "engine is back: its name has this address again");
                    fleet.rejoin(engine);
                }
                _ => {}
            }
            true
        });
        for address in found {
            if known.contains_key(&address.url) {
                continue;
            }
            match make(&address) {
                Ok(engine) => {
                    tracing::info!(engine = address.url, "engine found");
                    let engine = fleet.join(engine);
                    look_after(&fleet, engine, &stop);
                    known.insert(address.url, engine);
                }
                Err(error) => tracing::warn!(engine = address.url, %error, "no client for this engine"),
            }
        }
        tokio::select! {
            changed = addresses.changed() => if changed.is_err() { return },
            () = stop.cancelled() => return,
        }
    }
}
