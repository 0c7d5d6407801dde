//! The versions whose samples are in flight. Samples of several versions may be: the last ones of a round, and those of the
//! next one by later weights.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::watch;

/// The versions of the samples in flight. Earlier weights come first: engines that were updated back to them stay until their samples have
/// ended, so that two rounds never switch the engines back and forth.
#[derive(Debug, Default)]
pub(crate) struct VersionsInFlight {
    /// Rounds whose samples are in flight, by version.
    open: watch::Sender<BTreeMap<u64, usize>>,
}

/// A round of samples of one version, until it is dropped.
#[derive(Debug)]
pub(super) struct VersionGuard {
    versions: Arc<VersionsInFlight>,
    version: u64,
}

impl VersionsInFlight {
    /// Samples of that version are in flight from now on.
    pub(super) fn enter(self: &Arc<Self>, version: u64) -> VersionGuard {
        self.open.send_modify(|open| *open.entry(version).or_default() += 1);
        VersionGuard { versions: Arc::clone(self), version }
    }

    /// Waits until no samples of earlier versions are in flight.
    pub(super) async fn until_earliest(&self, version: u64) {
        // This value holds the sender, so that the wait cannot fail.
        let _ = self.open.subscribe().wait_for(|open| open.range(..version).next().is_none()).await;
    }

    /// Whether samples of that version are in flight.
    #[cfg(test)]
    pub(super) fn is_open(&self, version: u64) -> bool {
        self.open.borrow().contains_key(&version)
    }
}

impl Drop for VersionGuard {
    fn drop(&mut self) {
        self.versions.open.send_modify(|open| {
            if let Some(rounds) = open.get_mut(&self.version) {
                *rounds -= 1;
                if *rounds == 0 {
                    open.remove(&self.version);
                }
            }
        });
    }
}
