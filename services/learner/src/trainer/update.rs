//! Updates of the weights, and steps that apply all of theirs or none.

use candle_core::Tensor;
use evenkeel_model::kernels::portable::squares_of;

use super::Trainer;
use crate::error::{LearnerError, Result};
use crate::gradient_sum::GradientSum;
use crate::memory::MemoryPhase;
use crate::optimizer::{OptimizerState, TrainingPhase, UpdateGradient, UpdateReport};
use crate::settings::OptimizerSettings;
use crate::skip_reason::SkipReason;
use crate::timeline::{PassKind, Timeline};

/// How an update is done.
#[derive(Clone, Debug)]
pub(crate) struct UpdateBy {
    /// Phase whose moments the update continues.
    pub(crate) phase: TrainingPhase,
    /// The optimizer's settings for this update.
    pub(crate) settings: OptimizerSettings,
    /// What the gradient is multiplied by.
    pub(crate) scale: f64,
    /// Whether the loss was finite; otherwise nothing changes.
    pub(crate) loss_is_finite: bool,
}

impl UpdateBy {
    /// With the settings of a phase, the gradient as it is.
    pub(crate) fn settings_of(trainer: &Trainer, phase: TrainingPhase) -> Self {
        let settings = match phase {
            TrainingPhase::Policy => &trainer.settings.optimizer,
            TrainingPhase::Supervised => &trainer.settings.supervised,
        };
        Self { phase, settings: settings.clone(), scale: 1.0, loss_is_finite: true }
    }
}

/// An update of all parameters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Updated {
    /// Global norm of the gradient before clipping.
    pub(crate) grad_norm: f64,
    /// Global norm of what was added to the weights; `None` where nothing was.
    pub(crate) update_norm: Option<f64>,
    /// The learning rate of the update.
    pub(crate) learning_rate: f64,
    /// Why nothing was changed; absent if the update was applied.
    pub(crate) skipped: Option<SkipReason>,
}

/// Weights and optimizer before a step.
struct Snapshot {
    weights: Vec<Tensor>,
    optimizer: OptimizerState,
}

impl Trainer {
    /// The gradient of a sum; zeros for an empty sum. Each of several ranks gets the part of its own parameters.
    ///
    /// # Errors
    /// A sum of which a part is missing; a failure of the device.
    pub(crate) fn gradient_of(&self, sum: GradientSum) -> Result<Vec<Tensor>> {
        match sum {
            GradientSum::Sum(gradient) => Ok(gradient),
            GradientSum::Empty => self.zero_gradient(),
            GradientSum::Incomplete(reason) => Err(LearnerError::IncompleteSum { reason }),
        }
    }

    /// The global norm of a gradient of which the other ranks have the other parts; `None` where there are none.
    fn norm_over_ranks(&self, gradient: &[Tensor]) -> Result<Option<f64>> {
        if self.division().is_alone() {
            return Ok(None);
        }
        Ok(Some(self.sum_over_parameters(&squares_of(gradient)?)?.sqrt()))
    }

    /// The operation *apply*, of which whole steps have one for each mini-batch: one optimizer update with a sum. If
    /// the loss or the gradient is not finite it changes nothing and reports that.
    ///
    /// # Errors
    /// A sum of which a part is missing, a failure of the device, or `max_skipped_updates` such updates in a row.
    #[tracing::instrument(level = "debug", skip_all)]
    pub(crate) fn apply(&mut self, sum: GradientSum, by: &UpdateBy) -> Result<Updated> {
        let UpdateBy { phase, settings, scale, loss_is_finite } = by;
        let gradients = &self.gradient_of(sum)?;
        // The weights that the gradients were computed from.
        self.compare_weights()?;
        let began = Timeline::now();
        let gradient = UpdateGradient { tensors: gradients, norm: self.norm_over_ranks(gradients)? };
        let target = self.model.for_update();
        let updated = self.optimizer.update(*phase, settings, target, gradient, *scale, *loss_is_finite);
        let UpdateReport { grad_norm, squares, learning_rate, skipped } =
            self.explained(MemoryPhase::Updating, updated)?;
        if skipped.is_none() && !self.division().is_alone() {
            self.gather_weights()?;
        }
        if skipped.is_none() {
            self.model.end_lending();
        }
        let squares = squares.map(|own| self.sum_over_parameters(&own)).transpose()?;
        self.timeline.add(PassKind::Update, began, 0);
        let updated = Updated { grad_norm, update_norm: squares.map(f64::sqrt), learning_rate, skipped };
        let Some(reason) = skipped else {
            self.skipped = 0;
            return Ok(updated);
        };
        self.skipped += 1;
        let count = self.skipped;
        let limit = self.settings.max_skipped_updates;
        let version = self.version;
        tracing::warn!(version, grad_norm, %reason, in_a_row = count, "update skipped");
        if limit > 0 && count >= limit {
            Err(LearnerError::SkippedUpdates { count, limit, reason, version })
        } else {
            Ok(updated)
        }
    }

    /// Applies all updates of a step of this phase or none: after an error, weights and optimizer are unchanged. Also
    /// returns the version after the step.
    ///
    /// On a CPU, and with own kernels on a GPU, an update works in place, so only a step of several updates needs a
    /// copy (12 bytes for each parameter). It does not fail half way, unless the GPU is lost, and all that it holds.
    /// Where candle's operations update, they create new tensors, and keeping the old ones is enough.
    pub(crate) fn commit<T>(
        &mut self,
        phase: TrainingPhase,
        several_updates: bool,
        updates: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<(T, u64)> {
        self.check_whole()?;
        let in_place = self.model.updates_in_place();
        let skipped = self.skipped;
        let before = if in_place && !several_updates {
            None
        } else {
            let taken = self.snapshot(in_place);
            Some(self.explained(MemoryPhase::Snapshotting, taken)?)
        };
        let done = updates(self).and_then(|done| {
            self.compare_weights()?;
            self.optimizer.step_done(phase, self.model.parameters())?;
            Ok(done)
        });
        match self.together("updated", done) {
            Ok(done) => {
                self.version += 1;
                Ok((done, self.version))
            }
            Err(error) => {
                self.model.discard_gradients();
                self.skipped = skipped;
                if let Some(Snapshot { weights, optimizer }) = before {
                    self.model.parameters_mut().trained_values_mut().clone_from_slice(&weights);
                    self.optimizer.restore(optimizer);
                }
                Err(error)
            }
        }
    }

    fn snapshot(&mut self, copy: bool) -> Result<Snapshot> {
        let trained = self.parameters().trained_values();
        let weights = if copy { trained.iter().map(Tensor::copy).collect::<Result<_, _>>()? } else { trained.to_vec() };
        Ok(Snapshot { weights, optimizer: self.optimizer.state(copy)? })
    }
}
