//! The weights of the engines: the one place that updates engines from one version to another. The run updates them
//! forward. Samples that lack their weights, and proofs, have them restored.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_proto::v1::{PauseMode, WeightsRef};
use tokio::sync::{Mutex, watch};

use crate::clients::Services;
use crate::error::Halt;

/// How long a sample waits for engines that are being updated to its weights.
const PAUSE: Duration = Duration::from_millis(20);

/// What the engines were updated to.
pub(crate) struct EngineWeights {
    services: Arc<Services>,
    /// The earliest version that samples in flight need.
    earliest: watch::Sender<Option<u64>>,
    state: watch::Sender<State>,
    /// Held while weights are restored.
    restoring: Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    /// The version that the run itself updates the engines to at the moment.
    updating_to: Option<u64>,
    /// What the run itself updated them to last.
    target: Option<UpdateTarget>,
    /// How often they were updated, how often of these to another version than before, and to which one last.
    updates: u64,
    version_changes: u64,
    last: Option<u64>,
}

impl State {
    fn seen(&self) -> UpdateCounts {
        UpdateCounts { updates: self.updates, version_changes: self.version_changes }
    }

    fn updated(&mut self, version: u64) {
        self.updates += 1;
        self.version_changes += u64::from(self.last != Some(version));
        self.last = Some(version);
    }

    /// Why engines that had been seen so lack a version.
    fn cause(&self, seen: UpdateCounts, version: u64) -> MissingWeights {
        let stayed = self.updating_to.is_none() && self.version_changes == seen.version_changes;
        if stayed && self.last == Some(version) { MissingWeights::Lost } else { MissingWeights::Superseded }
    }
}

/// The updates of the engines up to a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UpdateCounts {
    updates: u64,
    version_changes: u64,
}

/// Why engines lacked weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MissingWeights {
    /// They had been updated to other weights, or not yet to these.
    Superseded,
    /// They had been updated to these and to no others since, as with a restart of the generation service.
    Lost,
}

/// Weights that the run updates the engines to.
#[derive(Debug, Clone)]
struct UpdateTarget {
    weights: WeightsRef,
    in_flight: PauseMode,
}

/// An update of the engines by the run, until it is dropped.
pub(crate) struct WeightUpdate<'a> {
    engines: &'a EngineWeights,
    target: UpdateTarget,
}

impl EngineWeights {
    pub(crate) fn new(services: Arc<Services>) -> Arc<Self> {
        Arc::new(Self {
            services,
            earliest: watch::Sender::default(),
            state: watch::Sender::default(),
            restoring: Mutex::default(),
        })
    }

    /// Samples of that version are in flight, and of no earlier one. These come first: engines that were updated back
    /// to earlier weights stay until their samples have ended, so that two versions never switch the engines back and
    /// forth.
    pub(crate) fn set_earliest(&self, version: Option<u64>) {
        self.earliest.send_if_modified(|earliest| std::mem::replace(earliest, version) != version);
    }

    /// From now on samples of these weights wait for [`WeightUpdate::run`], which updates the engines to them.
    /// `in_flight` says what becomes of samples in flight.
    pub(crate) fn begin_update(&self, weights: &WeightsRef, in_flight: PauseMode) -> WeightUpdate<'_> {
        self.state.send_modify(|state| state.updating_to = Some(weights.version));
        WeightUpdate { engines: self, target: UpdateTarget { weights: weights.clone(), in_flight } }
    }

    /// The version that the run last updated the engines to.
    pub(super) fn target(&self) -> Option<u64> {
        self.state.borrow().target.as_ref().map(|target| target.weights.version)
    }

    /// How the engines were updated so far. Waits while weights are restored.
    pub(crate) async fn seen(&self) -> UpdateCounts {
        let _restored = self.restoring.lock().await;
        self.state.borrow().seen()
    }

    /// Updates engines that lack these weights to them, as after a restart of the generation service; samples of
    /// earlier weights come first. Does nothing if they were updated to them since they were `seen`, or the update is
    /// in progress. Returns why they lacked them.
    pub(crate) async fn restore(&self, weights: &WeightsRef, seen: UpdateCounts) -> Result<MissingWeights, Halt> {
        self.restore_as(weights, PauseMode::Unspecified, seen).await
    }

    /// Restores the weights that the run last updated the engines to.
    pub(super) async fn restore_target(&self, seen: UpdateCounts) -> Result<MissingWeights, Halt> {
        let target = self.state.borrow().target.clone();
        match target {
            Some(UpdateTarget { weights, in_flight }) => self.restore_as(&weights, in_flight, seen).await,
            None => Ok(MissingWeights::Lost),
        }
    }

    async fn restore_as(
        &self,
        weights: &WeightsRef,
        in_flight: PauseMode,
        seen: UpdateCounts,
    ) -> Result<MissingWeights, Halt> {
        let version = weights.version;
        if self.state.borrow().updating_to == Some(version) {
            tokio::time::sleep(PAUSE).await;
            return Ok(MissingWeights::Superseded);
        }
        let cause = self.state.borrow().cause(seen, version);
        // This value holds the sender, so that the wait cannot fail.
        let _ =
            self.earliest.subscribe().wait_for(|earliest| earliest.is_none_or(|earliest| earliest >= version)).await;
        let _restoring = self.restoring.lock().await;
        let is_there = {
            let state = self.state.borrow();
            state.updates != seen.updates && state.last == Some(version)
        };
        if !is_there {
            self.services.generation().update_weights(weights, in_flight).await?;
            self.updated(version, None);
        }
        Ok(cause)
    }

    fn updated(&self, version: u64, target: Option<UpdateTarget>) {
        self.state.send_modify(|state| {
            state.updated(version);
            if target.is_some() {
                state.target = target;
            }
        });
    }
}

impl WeightUpdate<'_> {
    /// The version of the weights.
    pub(crate) fn version(&self) -> u64 {
        self.target.weights.version
    }

    /// Moves the engines.
    ///
    /// # Errors
    /// Weights that no engine can load; a stop.
    pub(crate) async fn run(self) -> Result<(), Halt> {
        let UpdateTarget { weights, in_flight } = &self.target;
        self.engines.services.generation().update_weights(weights, *in_flight).await?;
        self.engines.updated(weights.version, Some(self.target.clone()));
        Ok(())
    }
}

impl Drop for WeightUpdate<'_> {
    fn drop(&mut self) {
        self.engines.state.send_modify(|state| state.updating_to = None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_lost_only_where_engines_were_moved_to_them_and_nowhere_else() {
        let mut engines = State::default();
        assert_eq!(engines.cause(engines.seen(), 5), MissingWeights::Superseded);
        engines.updated(5);
        let seen = engines.seen();
        assert_eq!(
            (engines.cause(seen, 5), engines.cause(seen, 6)),
            (MissingWeights::Lost, MissingWeights::Superseded)
        );
        // Another sample had them restored meanwhile.
        engines.updated(5);
        assert_eq!(engines.cause(seen, 5), MissingWeights::Lost);
        engines.updating_to = Some(6);
        assert_eq!(engines.cause(seen, 5), MissingWeights::Superseded);
    }

    #[test]
    fn weights_that_the_run_moved_the_engines_away_from_are_not_lost() {
        let mut engines = State::default();
        engines.updated(5);
        let seen = engines.seen();
        engines.updated(6);
        assert_eq!(engines.cause(seen, 5), MissingWeights::Superseded);
        engines.updated(5);
        assert_eq!(engines.cause(seen, 5), MissingWeights::Superseded);
        assert_eq!(engines.cause(engines.seen(), 5), MissingWeights::Lost);
    }
}
