//! Between two steps: new weights for the engines, and engines that sleep while the learner trains.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use evenkeel_proto::v1::{SleepLevel, WeightsRef};

use crate::clients::Services;
use crate::error::Halt;
use crate::events::Activity;
use crate::instruments::{self, Phase};
use crate::settings::Engines;
use crate::settings::LoopSettings;

/// Keeps the engines on the learner's weights.
pub(super) struct WeightSync {
    services: Arc<Services>,
    run_id: String,
    /// Published versions that the learner keeps; 0 for all.
    keep: u32,
    engines: Engines,
    /// A version that stays besides those.
    besides: Mutex<Option<u64>>,
}

impl WeightSync {
    pub(super) fn new(services: Arc<Services>, run_id: &str, settings: &LoopSettings) -> Self {
        let (keep, engines) = (settings.checkpoint.keep_weights, settings.sampling.engines_while_training);
        Self { services, run_id: run_id.to_owned(), keep, engines, besides: Mutex::default() }
    }

    /// From now on the weights of that version stay, and those that stayed before do not.
    pub(super) fn keep_besides(&self, version: Option<u64>) {
        *self.besides.lock().unwrap_or_else(PoisonError::into_inner) = version;
    }

    /// Publishes the weights of that version and moves the engines to them, which wakes engines that sleep.
    #[tracing::instrument(name = "update_weights", skip(self))]
    pub(super) async fn publish(&self, version: u64) -> Result<WeightsRef, Halt> {
        let began = Instant::now();
        let _during = self.services.events().during(Activity::Publishing);
        let besides = self.besides.lock().unwrap_or_else(PoisonError::into_inner).into_iter().collect();
        let weights = self.services.learner().publish(&self.run_id, version, self.keep, besides).await?;
        self.services.generation().update_weights(&weights).await?;
        instruments::phase(Phase::UpdateWeights, began.elapsed());
        Ok(weights)
    }

    /// Whether engines sleep while the learner trains.
    pub(super) fn engines_sleep(&self) -> bool {
        self.engines != Engines::Awake
    }

    /// Puts the engines to sleep for a GRPO step, where the settings say so.
    pub(super) async fn sleep(&self) -> Result<(), Halt> {
        match self.engines {
            Engines::Awake => Ok(()),
            Engines::Offload => self.services.generation().sleep(SleepLevel::Offload).await,
            Engines::Discard => self.services.generation().sleep(SleepLevel::Discard).await,
        }
    }

    /// The same for the warm start. Engines keep their weights then: they may still have their initial ones, which the learner has not
    /// published and could not give back.
    pub(super) async fn sleep_keeping_weights(&self) -> Result<(), Halt> {
        if self.engines_sleep() {
            self.services.generation().sleep(SleepLevel::Offload).await?;
        }
        Ok(())
    }
}
