//! AdamW over fp32 master weights, with global-norm clipping.

mod moments;

use std::ops::Range;

use candle_core::Tensor;
use evenkeel_model::Parameters;
use evenkeel_model::kernels::portable::{ParameterMoments, global_norm};
use evenkeel_model::kernels::{AdamW, Clip, OptimizerKernels, UpdateArrays, UpdateNorm};
use serde::{Deserialize, Serialize};

use crate::error::{LearnerError, Result};
use crate::settings::{MomentsLocation, OptimizerSettings};
use crate::skip_reason::SkipReason;
use moments::{MomentStore, MomentsSnapshot};
pub(crate) use moments::{Moments, PerMoment};

/// The phase that the moments belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum TrainingPhase {
    /// Supervised warm start.
    Supervised,
    /// Policy steps.
    Policy,
}

/// The result of an update.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct UpdateReport {
    /// Global norm of the gradient before clipping.
    pub(crate) grad_norm: f64,
    /// Sums of squares of what was added to the own parameters: one for each, in their order, or one for all where a
    /// GPU's kernels add them. `None` where nothing was changed.
    pub(crate) squares: Option<Vec<f64>>,
    /// The learning rate of the update.
    pub(crate) learning_rate: f64,
    /// Why nothing was changed; absent if the update was applied.
    pub(crate) skipped: Option<SkipReason>,
}

/// The updates and steps done in a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UpdateCounts {
    /// Updates done. One that was skipped does not count.
    pub(crate) updates: u64,
    /// Steps done, with or without an update.
    pub(crate) steps: u64,
    /// The phase that they and the moments belong to.
    pub(crate) phase: TrainingPhase,
}

impl UpdateCounts {
    /// Before the first step.
    pub(crate) const START: Self = Self { updates: 0, steps: 0, phase: TrainingPhase::Policy };
}

/// The moments and numbers before a step.
pub(crate) struct OptimizerState {
    moments: MomentsSnapshot,
    counts: UpdateCounts,
}

/// What an update goes by.
#[derive(Clone, Copy)]
pub(crate) struct UpdateGradient<'a> {
    /// Gradients of the parameters whose moments the optimizer has, in their order.
    pub(crate) tensors: &'a [Tensor],
    /// The global norm, where these are a part of the parameters.
    pub(crate) norm: Option<f64>,
}

impl<'a> From<&'a Vec<Tensor>> for UpdateGradient<'a> {
    fn from(tensors: &'a Vec<Tensor>) -> Self {
        Self { tensors, norm: None }
    }
}

impl UpdateGradient<'_> {
    fn norm(self) -> Result<f64> {
        self.norm.map_or_else(|| Ok(global_norm(self.tensors)?), Ok)
    }
}

/// Parameters that an update changes, and the kernels that do it.
pub(crate) struct UpdateTarget<'a> {
    /// The kernels of the parameters' device; none for the loops of a CPU and candle's operations.
    pub(crate) kernels: Option<&'a dyn OptimizerKernels>,
    pub(crate) parameters: &'a mut Parameters,
    /// Whether others read the values as they are now, so that new ones need memory of their own. Kernels have no such
    /// readers.
    pub(crate) is_lent: bool,
}

impl<'a> From<&'a mut Parameters> for UpdateTarget<'a> {
    fn from(parameters: &'a mut Parameters) -> Self {
        Self { kernels: None, parameters, is_lent: false }
    }
}

/// The AdamW optimizer of a model's trained parameters.
pub(crate) struct Optimizer {
    moments: Moments,
    counts: UpdateCounts,
}

impl Optimizer {
    /// Moments of policy steps before the first update, of all parameters that are trained.
    #[cfg(test)]
    pub(crate) fn new<'a>(target: impl Into<UpdateTarget<'a>>, location: MomentsLocation) -> Result<Self> {
        let target = target.into();
        let own = 0..target.parameters.trained_specs().len();
        Self::of_part(target, location, own)
    }

    /// Creates an optimizer of the parameters in `own`, which alone it updates.
    pub(crate) fn of_part<'a>(
        target: impl Into<UpdateTarget<'a>>,
        location: MomentsLocation,
        own: Range<usize>,
    ) -> Result<Self> {
        let UpdateTarget { kernels, parameters, .. } = target.into();
        let moments = Moments::zeros(location, kernels, parameters, own)?;
        Ok(Self { moments, counts: UpdateCounts::START })
    }

    pub(crate) fn moments(&self) -> &Moments {
        &self.moments
    }

    /// The moments, to be replaced by those of a checkpoint.
    pub(crate) fn moments_mut(&mut self) -> &mut Moments {
        &mut self.moments
    }

    /// The updates and steps done.
    pub(crate) fn counts(&self) -> UpdateCounts {
        self.counts
    }

    /// Continues from a checkpoint's counts.
    pub(crate) fn set_counts(&mut self, counts: UpdateCounts) {
        self.counts = counts;
    }

    /// The current state; with `copy` in separate tensors, which later in-place updates do not change.
    pub(crate) fn state(&mut self, copy: bool) -> Result<OptimizerState> {
        Ok(OptimizerState { moments: self.moments.snapshot(copy)?, counts: self.counts })
    }

    /// Goes back to a state.
    pub(crate) fn restore(&mut self, state: OptimizerState) {
        self.counts = state.counts;
        self.moments.restore(state.moments);
    }

    /// Counts a step whose updates are done.
    pub(crate) fn step_done(&mut self, phase: TrainingPhase, parameters: &Parameters) -> Result<()> {
        // A step without any update may be the first of its phase.
        self.enter(phase, parameters)?;
        self.counts.steps += 1;
        Ok(())
    }

    /// Begins a phase with fresh moments, unless it is the current one.
    fn enter(&mut self, phase: TrainingPhase, parameters: &Parameters) -> Result<()> {
        if self.counts.phase != phase {
            self.moments.reset(parameters)?;
            self.counts = UpdateCounts { updates: 0, steps: 0, phase };
        }
        Ok(())
    }

    /// Begins with fresh moments, whatever was done before.
    pub(crate) fn restart(&mut self, parameters: &Parameters) -> Result<()> {
        self.moments.reset(parameters)?;
        self.counts = UpdateCounts::START;
        Ok(())
    }

    /// One update of the own parameters with `scale` times their gradient. A phase begins with fresh moments.
    ///
    /// A loss or gradient that is not finite changes neither weights nor moments nor the number of updates.
    pub(crate) fn update<'a, 'g>(
        &mut self,
        phase: TrainingPhase,
        settings: &OptimizerSettings,
        target: impl Into<UpdateTarget<'a>>,
        gradient: impl Into<UpdateGradient<'g>>,
        scale: f64,
        loss_is_finite: bool,
    ) -> Result<UpdateReport> {
        let target = target.into();
        let gradient = gradient.into();
        self.enter(phase, target.parameters)?;
        let learning_rate = settings.learning_rate_at(self.counts.updates, self.counts.steps);
        let clip = Clip { scale, limit: settings.max_grad_norm.unwrap_or(f64::INFINITY) };
        let (norm, squares) = match (loss_is_finite, target.kernels) {
            (true, _) => self.apply(settings, target, gradient, clip, learning_rate)?,
            (false, Some(kernels)) => (kernels.norm(gradient.tensors)?, None),
            (false, None) => (gradient.norm()?, None),
        };
        let skipped = match (loss_is_finite, &squares) {
            (true, Some(_)) => None,
            (false, _) => Some(SkipReason::NonFiniteLoss),
            (true, None) => Some(SkipReason::NonFiniteGradient),
        };
        Ok(UpdateReport { grad_norm: scale * norm, squares, learning_rate, skipped })
    }
}

impl Optimizer {
    /// Where there are kernels, the device decides whether there is anything finite to update by, and how far to clip
    /// it, before it changes a weight. Returns the norm of the gradient and [`UpdateReport::squares`].
    fn apply(
        &mut self,
        settings: &OptimizerSettings,
        target: UpdateTarget<'_>,
        gradient: UpdateGradient<'_>,
        clip: Clip,
        learning_rate: f64,
    ) -> Result<(f64, Option<Vec<f64>>)> {
        let updates = self.counts.updates + 1;
        let [beta1, beta2] = settings.betas;
        let corrected = |beta: f64| 1.0 - libm::pow(beta, updates as f64);
        let numbers = |decay: bool| AdamW {
            betas: settings.betas,
            step: learning_rate / corrected(beta1),
            second_root: corrected(beta2).sqrt(),
            epsilon: settings.epsilon,
            shrink: if decay { 1.0 - learning_rate * settings.weight_decay } else { 1.0 },
        };
        let UpdateTarget { kernels, parameters, is_lent } = target;
        let own = self.moments.own();
        let specs = &parameters.trained_specs()[own.clone()];
        let numbers: Vec<AdamW> = specs.iter().map(|spec| numbers(spec.kind.decays())).collect();
        let gradients = gradient.tensors;
        let of_kernels = |found: UpdateNorm| (found.norm, found.applied.then(|| vec![found.change * found.change]));
        let (norm, squares) = match (self.moments.store_mut(), kernels) {
            (MomentStore::Device(moments), Some(kernels)) => {
                let PerMoment { first, second } = moments;
                let arrays = UpdateArrays { weights: &parameters.trained_values()[own], first, second, gradients };
                of_kernels(kernels.update(arrays, clip, &numbers)?)
            }
            (MomentStore::Host(moments), Some(kernels)) => {
                let weights = &parameters.trained_values()[own];
                of_kernels(kernels.update_from_host(weights, gradients, moments, clip, &numbers)?)
            }
            (MomentStore::Device(moments), None) => {
                let norm = gradient.norm()?;
                let scaled = clip.scale * norm;
                if !scaled.is_finite() {
                    return Ok((norm, None));
                }
                // As in torch.nn.utils.clip_grad_norm_.
                let factor = clip.scale * (clip.limit / (scaled + 1e-6)).min(1.0);
                let mut squares = Vec::with_capacity(gradients.len());
                let values = &mut parameters.trained_values_mut()[own];
                let moments = moments.first.iter_mut().zip(&mut moments.second);
                for ((value, (first, second)), (gradient, numbers)) in
                    values.iter_mut().zip(moments).zip(gradients.iter().zip(numbers))
                {
                    let parameter = ParameterMoments { value, is_lent, first, second };
                    squares.push(parameter.update(gradient, factor, numbers)?);
                }
                (norm, Some(squares))
            }
            (MomentStore::Host(_), None) => {
                return Err(LearnerError::setting(
                    "optimizer.moments",
                    "host",
                    "device where there are no custom kernels",
                ));
            }
        };
        if squares.is_some() {
            self.counts.updates = updates;
        }
        Ok((norm, squares))
    }
}

#[cfg(test)]
mod host_tests;
#[cfg(test)]
mod tests;
