//! Engines behind names: whatever address a name has is an engine, and one that it has no more gets no more samples.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use evenkeel_common::client::Target as Address;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{Fleet, look_after};
use crate::engine::{Engine, EngineError};

/// Makes the engine at an address.
pub(crate) type MakeEngine = Box<dyn Fn(&Address) -> Result<Box<dyn Engine>, EngineError> + Send + Sync>;

/// Lets engines join and leave as `addresses` change. `known` are those that are there already, by their addresses.
pub(crate) async fn follow(
    fleet: Arc<Fleet>,
    mut addresses: watch::Receiver<BTreeSet<Address>>,
    mut known: BTreeMap<Address, usize>,
    make: MakeEngine,
    stop: CancellationToken,
) {
    loop {
        let found = addresses.borrow_and_update().clone();
        let present: BTreeSet<usize> = fleet.present().into_iter().collect();
        for (address, &engine) in &known {
            match (found.contains(address), present.contains(&engine)) {
                (false, true) => {
                    tracing::info!(engine = address.url, "engine leaves: its name has this address no more");
                    fleet.leave(engine);
                }
                (true, false) => {
                    tracing::info!(engine = address.url, "engine is back: its name has this address again");
                    fleet.rejoin(engine);
                }
                _ => {}
            }
        }
        for address in found {
            if known.contains_key(&address) {
                continue;
            }
            match make(&address) {
                Ok(engine) => {
                    tracing::info!(engine = address.url, "engine found");
                    let engine = fleet.join(engine);
                    look_after(&fleet, engine, &stop);
                    known.insert(address, engine);
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
