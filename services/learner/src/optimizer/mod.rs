//! AdamW over fp32 master weights, with global-norm clipping.

mod adamw;
mod norm;

use std::fmt;

use candle_core::Tensor;
use evenkeel_model::Parameters;
use evenkeel_model::kernels::{AdamW, OptimizerKernels, UpdateArrays};
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::settings::OptimizerSettings;
use adamw::Update;

/// The phase that the moments belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Phase {
    /// Supervised warm start.
    Supervised,
    /// Policy steps.
    Policy,
}

/// Why an update changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkipReason {
    /// The loss was NaN or infinite.
    NonFiniteLoss,
    /// The norm of the gradient was NaN or infinite.
    NonFiniteGradient,
}

impl SkipReason {
    /// A short, stable name for metrics and reports.
    pub const fn label(self) -> &'static str {
        match self {
            Self::NonFiniteLoss => "non_finite_loss",
            Self::NonFiniteGradient => "non_finite_gradient",
        }
    }
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

/// The result of an update.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct UpdateReport {
    /// Global norm of the gradient before clipping.
    pub(crate) grad_norm: f64,
    /// The learning rate of the update.
    pub(crate) learning_rate: f64,
    /// Why nothing was changed; absent if the update was applied.
    pub(crate) skipped: Option<SkipReason>,
}

/// The optimizer's state: two fp32 moments for each parameter, the numbers of updates and steps, and their phase.
#[derive(Clone, Debug)]
pub(crate) struct OptimizerState {
    /// Running mean of each gradient.
    pub(crate) first: Vec<Tensor>,
    /// Running mean of its square.
    pub(crate) second: Vec<Tensor>,
    /// Updates done. One that was skipped does not count.
    pub(crate) updates: u64,
    /// Steps done, with or without an update.
    pub(crate) steps: u64,
    /// The phase that they belong to.
    pub(crate) phase: Phase,
}

/// What is updated.
pub(crate) struct UpdateTarget<'a> {
    /// The kernels of the parameters' device; none for the loops of a CPU and candle's operations.
    pub(crate) kernels: Option<&'a dyn OptimizerKernels>,
    pub(crate) parameters: &'a mut Parameters,
}

impl<'a> From<&'a mut Parameters> for UpdateTarget<'a> {
    fn from(parameters: &'a mut Parameters) -> Self {
        Self { kernels: None, parameters }
    }
}

/// AdamW.
pub(crate) struct Optimizer {
    state: OptimizerState,
}

impl Optimizer {
    /// Moments of policy steps before the first update.
    pub(crate) fn new(parameters: &Parameters) -> Result<Self> {
        Ok(Self { state: zeros(Phase::Policy, parameters)? })
    }

    /// The current state; with `copy` in separate tensors, which later in-place updates do not change.
    pub(crate) fn state(&self, copy: bool) -> Result<OptimizerState> {
        let OptimizerState { first, second, updates, steps, phase } = &self.state;
        let keep = |tensors: &[Tensor]| match copy {
            true => tensors.iter().map(Tensor::copy).collect::<Result<Vec<_>, _>>(),
            false => Ok(tensors.to_vec()),
        };
        let (first, second) = (keep(first)?, keep(second)?);
        Ok(OptimizerState { first, second, updates: *updates, steps: *steps, phase: *phase })
    }

    /// Continues from a state.
    pub(crate) fn restore(&mut self, state: OptimizerState) {
        self.state = state;
    }

    /// Counts a step whose updates are done.
    pub(crate) fn step_done(&mut self, phase: Phase, parameters: &Parameters) -> Result<()> {
        // A step without any update may be the first of its phase.
        self.enter(phase, parameters)?;
        self.state.steps += 1;
        Ok(())
    }

    /// Begins a phase with fresh moments, unless it is the current one.
    fn enter(&mut self, phase: Phase, parameters: &Parameters) -> Result<()> {
        if self.state.phase != phase {
            self.state = zeros(phase, parameters)?;
        }
        Ok(())
    }

    /// One update with `scale` times these gradients (which are in the order of the parameters). A phase begins with
    /// fresh moments.
    ///
    /// A loss or gradient that is not finite changes neither weights nor moments nor the number of updates.
    pub(crate) fn update<'a>(
        &mut self,
        phase: Phase,
        settings: &OptimizerSettings,
        target: impl Into<UpdateTarget<'a>>,
        gradients: &[Tensor],
        scale: f64,
        loss_is_finite: bool,
    ) -> Result<UpdateReport> {
        let target = target.into();
        self.enter(phase, target.parameters)?;
        let grad_norm = scale
            * match target.kernels {
                Some(kernels) => kernels.norm(gradients)?,
                None => norm::global(gradients)?,
            };
        let learning_rate = settings.learning_rate_at(self.state.updates, self.state.steps);
        let skipped = match (loss_is_finite, grad_norm.is_finite()) {
            (true, true) => None,
            (false, _) => Some(SkipReason::NonFiniteLoss),
            (true, false) => Some(SkipReason::NonFiniteGradient),
        };
        if skipped.is_none() {
            self.state.apply(settings, target, gradients, scale, grad_norm, learning_rate)?;
        }
        Ok(UpdateReport { grad_norm, learning_rate, skipped })
    }
}

impl OptimizerState {
    fn apply(
        &mut self,
        settings: &OptimizerSettings,
        target: UpdateTarget<'_>,
        gradients: &[Tensor],
        scale: f64,
        grad_norm: f64,
        learning_rate: f64,
    ) -> Result<()> {
        // As in torch.nn.utils.clip_grad_norm_.
        let clip = settings.max_grad_norm.map_or(1.0, |limit| (limit / (grad_norm + 1e-6)).min(1.0));
        self.updates += 1;
        let [beta1, beta2] = settings.betas;
        let corrected = |beta: f64| 1.0 - libm::pow(beta, self.updates as f64);
        let numbers = |decay: bool| AdamW {
            betas: settings.betas,
            step: learning_rate / corrected(beta1),
            second_root: corrected(beta2).sqrt(),
            epsilon: settings.epsilon,
            shrink: if decay { 1.0 - learning_rate * settings.weight_decay } else { 1.0 },
        };
        let UpdateTarget { kernels, parameters } = target;
        let numbers: Vec<AdamW> = parameters.specs().iter().map(|spec| numbers(spec.decay)).collect();
        if let Some(kernels) = kernels {
            let (first, second) = (&self.first, &self.second);
            let arrays = UpdateArrays { weights: parameters.values(), first, second, gradients };
            return Ok(kernels.update(arrays, scale * clip, &numbers)?);
        }
        for (id, (gradient, numbers)) in gradients.iter().zip(numbers).enumerate() {
            let (first, second) = (&mut self.first[id], &mut self.second[id]);
            let update = Update { gradient_scale: scale * clip, numbers };
            update.apply(&mut parameters.values_mut()[id], first, second, gradient)?;
        }
        Ok(())
    }
}

/// The state before the first update of a phase.
fn zeros(phase: Phase, parameters: &Parameters) -> Result<OptimizerState> {
    let zeros = || parameters.values().iter().map(Tensor::zeros_like).collect::<Result<Vec<_>, _>>();
    Ok(OptimizerState { first: zeros()?, second: zeros()?, updates: 0, steps: 0, phase })
}

#[cfg(test)]
mod tests;
