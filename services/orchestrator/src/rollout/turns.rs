//! Which weights the engines are moved to for samples that lack theirs. Samples of two versions may be in flight: the last ones of a step, and
//! those of the next one by later weights.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_proto::v1::WeightsRef;
use tokio::sync::{Mutex, watch};

use crate::clients::Services;
use crate::error::Halt;

/// How long a sample waits for the engines that are on their way to its weights.
const PAUSE: Duration = Duration::from_millis(20);

/// The weights of the samples in flight, and what engines were moved to. Earlier weights come first: engines that were moved back to them stay
/// until their samples have ended, so that two steps never take the engines from each other in turns.
#[derive(Debug, Default)]
pub(crate) struct WeightTurns {
    state: watch::Sender<State>,
    /// Held while engines are moved back to weights.
    restoring: Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    /// Batches of samples in flight, by version.
    open: BTreeMap<u64, usize>,
    /// The version that the run itself moves the engines to at the moment.
    moving_to: Option<u64>,
    /// How often they were moved, and to which version last.
    moves: u64,
    last: Option<u64>,
}

/// A batch of samples of one version, until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    turns: Arc<WeightTurns>,
    version: u64,
}

/// A move of the engines, until it is dropped.
#[derive(Debug)]
pub(crate) struct Move<'a>(&'a WeightTurns);

impl WeightTurns {
    /// Samples of that version are in flight from now on.
    pub(super) fn enter(self: &Arc<Self>, version: u64) -> Turn {
        self.state.send_modify(|state| *state.open.entry(version).or_default() += 1);
        Turn { turns: Arc::clone(self), version }
    }

    /// The run moves the engines to that version from now on.
    pub(crate) fn begin_move(&self, version: u64) -> Move<'_> {
        self.state.send_modify(|state| state.moving_to = Some(version));
        Move(self)
    }

    /// How often engines were moved so far. Waits while they are moved back to weights.
    pub(super) async fn moves(&self) -> u64 {
        let _restored = self.restoring.lock().await;
        self.state.borrow().moves
    }

    /// Moves engines that lack the weights of a sample to them, as after a restart of the generation service; samples of earlier weights
    /// come first. Does nothing where they were moved there since there were `seen` moves, or are on their way. Returns whether the sample
    /// has a reason to find its weights now.
    pub(super) async fn restore(&self, services: &Services, weights: &WeightsRef, seen: u64) -> Result<bool, Halt> {
        let version = weights.version;
        if self.state.borrow().moving_to == Some(version) {
            tokio::time::sleep(PAUSE).await;
            return Ok(false);
        }
        let mut state = self.state.subscribe();
        // This value holds a sender, so the wait cannot fail.
        let _ = state.wait_for(|state| state.open.range(..version).next().is_none()).await;
        let _restoring = self.restoring.lock().await;
        let is_there = {
            let state = self.state.borrow();
            state.moves != seen && state.last == Some(version)
        };
        if !is_there {
            services.generation().update_weights(weights).await?;
            self.moved(version);
        }
        Ok(true)
    }

    fn moved(&self, version: u64) {
        self.state.send_modify(|state| {
            state.moves += 1;
            state.last = Some(version);
        });
    }
}

impl Move<'_> {
    /// The engines have the weights.
    pub(crate) fn succeeded(self, version: u64) {
        self.0.moved(version);
    }
}

impl Drop for Move<'_> {
    fn drop(&mut self) {
        self.0.state.send_modify(|state| state.moving_to = None);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.turns.state.send_modify(|state| {
            if let Some(batches) = state.open.get_mut(&self.version) {
                *batches -= 1;
                if *batches == 0 {
                    state.open.remove(&self.version);
                }
            }
        });
    }
}
