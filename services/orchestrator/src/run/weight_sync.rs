//! Weights on their way from the learner to the engines, and engines that sleep while the learner trains.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_proto::v1::{PauseMode, SleepLevel, WeightsRef};
use evenkeel_run::RunDirectory;

use super::run_context::RunContext;
use crate::clients::Services;
use crate::error::Halt;
use crate::events::Activity;
use crate::rollout::{EngineWeights, EnginesSeen, WeightsRequest};
use crate::settings::EnginesWhileTraining;

/// How often the generation service is asked for what it has accepted.
const ACCEPTED_INTERVAL: Duration = Duration::from_millis(5);

/// Keeps the engines on the learner's weights.
pub(super) struct WeightSync {
    services: Arc<Services>,
    weights: Arc<EngineWeights>,
    directory: RunDirectory,
    /// Published versions that the learner keeps; 0 for all.
    keep: u32,
    engines: EnginesWhileTraining,
}

impl WeightSync {
    pub(super) fn new(context: &RunContext, weights: Arc<EngineWeights>) -> Self {
        Self {
            services: context.services(),
            weights,
            directory: context.directory.clone(),
            keep: context.settings.checkpoint.keep_weights,
            engines: context.settings.sampling.engines_while_training,
        }
    }

    /// Publishes the weights of that version. The versions `also_keep` are kept besides the last ones.
    #[tracing::instrument(name = "publish_weights", skip(self, also_keep))]
    pub(super) async fn publish(&self, version: u64, also_keep: Vec<u64>) -> Result<WeightsRef, Halt> {
        // The learner would write them where the directory was.
        self.directory.check_place()?;
        let _during = self.services.events().during(Activity::Publishing);
        self.services.learner().publish(self.directory.run_id(), version, self.keep, also_keep).await
    }

    /// The loop says what it knows of the engines.
    pub(super) fn show(&self, seen: EnginesSeen) {
        self.weights.show(seen);
    }

    /// The next sample or proof that asks for weights which the engines lack.
    pub(super) async fn next_request(&self) -> Option<WeightsRequest> {
        self.weights.next_request().await
    }

    /// Moves the engines to weights, which wakes engines that sleep. `in_flight` says what becomes of samples in
    /// flight.
    #[tracing::instrument(name = "update_weights", skip_all, fields(version = weights.version))]
    pub(super) async fn update_engines(&self, weights: &WeightsRef, in_flight: PauseMode) -> Result<(), Halt> {
        let _during = self.services.events().during(Activity::Publishing);
        self.services.generation().update_weights(weights, in_flight).await
    }

    /// Moves the engines back to weights that they lack.
    pub(super) async fn restore_engines(&self, weights: &WeightsRef, in_flight: PauseMode) -> Result<(), Halt> {
        self.services.generation().update_weights(weights, in_flight).await
    }

    /// Waits until the generation service has accepted every sample that is on its way: an update that overtakes one
    /// would take the engines away from it.
    pub(super) async fn until_accepted(&self) {
        let generation = self.services.generation();
        while generation.pending() > 0 {
            // A service that does not answer has other troubles, which the samples in flight notice.
            let Some(queue) = generation.peek().await.and_then(|status| status.queue) else { return };
            if queue.queued_items + queue.running_items >= generation.pending() as u64 {
                return;
            }
            tokio::time::sleep(ACCEPTED_INTERVAL).await;
        }
    }

    /// Whether engines sleep while the learner trains.
    pub(super) fn engines_sleep(&self) -> bool {
        self.engines != EnginesWhileTraining::Awake
    }

    /// Puts the engines to sleep for a GRPO step, where the settings say so.
    pub(super) async fn sleep(&self) -> Result<(), Halt> {
        match self.engines {
            EnginesWhileTraining::Awake => Ok(()),
            EnginesWhileTraining::Offload => self.services.generation().sleep(SleepLevel::Offload).await,
            EnginesWhileTraining::Discard => self.services.generation().sleep(SleepLevel::Discard).await,
        }
    }

    /// Puts the engines to sleep for the warm start. Engines keep their weights then: they may still have their initial
    /// ones, which the learner has not published and could not give back.
    pub(super) async fn sleep_keeping_weights(&self) -> Result<(), Halt> {
        if self.engines_sleep() {
            self.services.generation().sleep(SleepLevel::Offload).await?;
        }
        Ok(())
    }
}
