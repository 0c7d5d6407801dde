//! The weights of the engines: the one place that moves engines from weights to weights. The run moves them forward. Samples that lack their
//! weights, and proofs, have them restored.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_proto::v1::{PauseMode, WeightsRef};
use tokio::sync::{Mutex, watch};

use super::versions_in_flight::VersionsInFlight;
use crate::clients::Services;
use crate::error::Halt;

/// How long a sample waits for the engines that are on their way to its weights.
const PAUSE: Duration = Duration::from_millis(20);

/// What the engines were moved to, and the versions whose samples are in flight.
pub(crate) struct EngineWeights {
    services: Arc<Services>,
    versions: Arc<VersionsInFlight>,
    state: watch::Sender<State>,
    /// Held while weights are restored.
    restoring: Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    /// The version that the run itself moves the engines to at the moment.
    moving_to: Option<u64>,
    /// Where the run itself moved them last.
    target: Option<MoveTarget>,
    /// How often they were moved, and to which version last.
    moves: u64,
    last: Option<u64>,
}

/// Weights that the run moves the engines to.
#[derive(Debug, Clone)]
struct MoveTarget {
    weights: WeightsRef,
    in_flight: PauseMode,
}

/// A move of the engines by the run, until it is dropped.
pub(crate) struct Move<'a> {
    engines: &'a EngineWeights,
    target: MoveTarget,
}

impl EngineWeights {
    pub(crate) fn new(services: Arc<Services>) -> Arc<Self> {
        let (versions, state) = (Arc::default(), watch::Sender::default());
        Arc::new(Self { services, versions, state, restoring: Mutex::default() })
    }

    /// The versions of the samples in flight.
    pub(crate) fn versions(&self) -> &Arc<VersionsInFlight> {
        &self.versions
    }

    /// From now on samples of these weights wait for [`Move::run`], which moves the engines to them. `in_flight` says what becomes of samples
    /// in flight.
    pub(crate) fn begin_move(&self, weights: &WeightsRef, in_flight: PauseMode) -> Move<'_> {
        self.state.send_modify(|state| state.moving_to = Some(weights.version));
        Move { engines: self, target: MoveTarget { weights: weights.clone(), in_flight } }
    }

    /// The version that the run moved the engines to last.
    pub(super) fn target(&self) -> Option<u64> {
        self.state.borrow().target.as_ref().map(|target| target.weights.version)
    }

    /// How often engines were moved so far. Waits while weights are restored.
    pub(crate) async fn moves(&self) -> u64 {
        let _restored = self.restoring.lock().await;
        self.state.borrow().moves
    }

    /// Moves engines that lack these weights to them, as after a restart of the generation service; samples of earlier weights come first.
    /// Does nothing where they were moved there since there were `seen` moves, or are on their way. Returns whether there is a reason to find
    /// the weights now.
    pub(crate) async fn restore(&self, weights: &WeightsRef, seen: u64) -> Result<bool, Halt> {
        self.restore_as(weights, PauseMode::Unspecified, seen).await
    }

    /// The same for the weights that the run moved the engines to last.
    pub(super) async fn restore_target(&self, seen: u64) -> Result<bool, Halt> {
        let target = self.state.borrow().target.clone();
        match target {
            Some(MoveTarget { weights, in_flight }) => self.restore_as(&weights, in_flight, seen).await,
            None => Ok(true),
        }
    }

    async fn restore_as(&self, weights: &WeightsRef, in_flight: PauseMode, seen: u64) -> Result<bool, Halt> {
        let version = weights.version;
        if self.state.borrow().moving_to == Some(version) {
            tokio::time::sleep(PAUSE).await;
            return Ok(false);
        }
        self.versions.until_earliest(version).await;
        let _restoring = self.restoring.lock().await;
        let is_there = {
            let state = self.state.borrow();
            state.moves != seen && state.last == Some(version)
        };
        if !is_there {
            self.services.generation().update_weights(weights, in_flight).await?;
            self.moved(version, None);
        }
        Ok(true)
    }

    fn moved(&self, version: u64, target: Option<MoveTarget>) {
        self.state.send_modify(|state| {
            state.moves += 1;
            state.last = Some(version);
            if target.is_some() {
                state.target = target;
            }
        });
    }
}

impl Move<'_> {
    /// The version of the weights.
    pub(crate) fn version(&self) -> u64 {
        self.target.weights.version
    }

    /// Moves the engines.
    ///
    /// # Errors
    /// Weights that no engine can load; a stop.
    pub(crate) async fn run(self) -> Result<(), Halt> {
        let MoveTarget { weights, in_flight } = &self.target;
        self.engines.services.generation().update_weights(weights, *in_flight).await?;
        self.engines.moved(weights.version, Some(self.target.clone()));
        Ok(())
    }
}

impl Drop for Move<'_> {
    fn drop(&mut self) {
        self.engines.state.send_modify(|state| state.moving_to = None);
    }
}
