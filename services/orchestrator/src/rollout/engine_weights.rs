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
    /// How often they were moved, how often of these to another version than before, and to which one last.
    moves: u64,
    switches: u64,
    last: Option<u64>,
}

impl State {
    fn seen(&self) -> EnginesSeen {
        EnginesSeen { moves: self.moves, switches: self.switches }
    }

    fn moved(&mut self, version: u64) {
        self.moves += 1;
        self.switches += u64::from(self.last != Some(version));
        self.last = Some(version);
    }

    /// Why engines that had been seen so lack a version.
    fn cause(&self, seen: EnginesSeen, version: u64) -> MissingWeights {
        let stayed = self.moving_to.is_none() && self.switches == seen.switches;
        if stayed && self.last == Some(version) { MissingWeights::Lost } else { MissingWeights::Moved }
    }
}

/// The moves of the engines up to a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EnginesSeen {
    moves: u64,
    switches: u64,
}

/// Why engines lacked weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MissingWeights {
    /// They had been moved to other weights, or not yet to these.
    Moved,
    /// They had been moved to these and nowhere else since, as with a restart of the generation service.
    Lost,
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

    /// How the engines were moved so far. Waits while weights are restored.
    pub(crate) async fn seen(&self) -> EnginesSeen {
        let _restored = self.restoring.lock().await;
        self.state.borrow().seen()
    }

    /// Moves engines that lack these weights to them, as after a restart of the generation service; samples of earlier weights come first.
    /// Does nothing where they were moved there since they were `seen`, or are on their way. Returns why they lacked them.
    pub(crate) async fn restore(&self, weights: &WeightsRef, seen: EnginesSeen) -> Result<MissingWeights, Halt> {
        self.restore_as(weights, PauseMode::Unspecified, seen).await
    }

    /// The same for the weights that the run moved the engines to last.
    pub(super) async fn restore_target(&self, seen: EnginesSeen) -> Result<MissingWeights, Halt> {
        let target = self.state.borrow().target.clone();
        match target {
            Some(MoveTarget { weights, in_flight }) => self.restore_as(&weights, in_flight, seen).await,
            None => Ok(MissingWeights::Lost),
        }
    }

    async fn restore_as(
        &self,
        weights: &WeightsRef,
        in_flight: PauseMode,
        seen: EnginesSeen,
    ) -> Result<MissingWeights, Halt> {
        let version = weights.version;
        if self.state.borrow().moving_to == Some(version) {
            tokio::time::sleep(PAUSE).await;
            return Ok(MissingWeights::Moved);
        }
        let cause = self.state.borrow().cause(seen, version);
        self.versions.until_earliest(version).await;
        let _restoring = self.restoring.lock().await;
        let is_there = {
            let state = self.state.borrow();
            state.moves != seen.moves && state.last == Some(version)
        };
        if !is_there {
            self.services.generation().update_weights(weights, in_flight).await?;
            self.moved(version, None);
        }
        Ok(cause)
    }

    fn moved(&self, version: u64, target: Option<MoveTarget>) {
        self.state.send_modify(|state| {
            state.moved(version);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_lost_only_where_engines_were_moved_to_them_and_nowhere_else() {
        let mut engines = State::default();
        assert_eq!(engines.cause(engines.seen(), 5), MissingWeights::Moved);
        engines.moved(5);
        let seen = engines.seen();
        assert_eq!((engines.cause(seen, 5), engines.cause(seen, 6)), (MissingWeights::Lost, MissingWeights::Moved));
        // Another sample had them restored meanwhile.
        engines.moved(5);
        assert_eq!(engines.cause(seen, 5), MissingWeights::Lost);
        engines.moving_to = Some(6);
        assert_eq!(engines.cause(seen, 5), MissingWeights::Moved);
    }

    #[test]
    fn weights_that_the_run_moved_the_engines_away_from_are_not_lost() {
        let mut engines = State::default();
        engines.moved(5);
        let seen = engines.seen();
        engines.moved(6);
        assert_eq!(engines.cause(seen, 5), MissingWeights::Moved);
        engines.moved(5);
        assert_eq!(engines.cause(seen, 5), MissingWeights::Moved);
        assert_eq!(engines.cause(engines.seen(), 5), MissingWeights::Lost);
    }
}
