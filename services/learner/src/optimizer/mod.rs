//! AdamW over fp32 master weights, with global-norm clipping.

mod adamw;
mod norm;

use candle_core::Tensor;
use evenkeel_model::Parameters;

use crate::error::Result;
use crate::settings::OptimizerSettings;
use adamw::Update;

/// The optimizer's own state: two fp32 moments for each parameter and the number of updates.
#[derive(Clone, Debug)]
pub(crate) struct Moments {
    /// Running mean of each gradient.
    pub(crate) first: Vec<Tensor>,
    /// Running mean of its square.
    pub(crate) second: Vec<Tensor>,
    /// Updates done.
    pub(crate) updates: u64,
}

/// What an update did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct UpdateReport {
    /// Global norm of the gradient before clipping.
    pub(crate) grad_norm: f64,
    /// The learning rate that was used.
    pub(crate) learning_rate: f64,
    /// Whether the gradient was not finite: then nothing was changed.
    pub(crate) skipped: bool,
}

impl Moments {
    /// Moments before the first update.
    pub(crate) fn zeros(parameters: &Parameters) -> Result<Self> {
        let zeros = || parameters.values().iter().map(Tensor::zeros_like).collect::<Result<Vec<_>, _>>();
        Ok(Self { first: zeros()?, second: zeros()?, updates: 0 })
    }

    /// One update with `scale` times these gradients (which are in the order of the parameters).
    ///
    /// A gradient that is not finite changes nothing, not even the number of updates, and is reported.
    pub(crate) fn update(
        &mut self,
        settings: &OptimizerSettings,
        parameters: &mut Parameters,
        gradients: &[Tensor],
        scale: f64,
    ) -> Result<UpdateReport> {
        let grad_norm = norm::global(gradients)? * scale;
        let learning_rate = settings.learning_rate_at(self.updates);
        if !grad_norm.is_finite() {
            return Ok(UpdateReport { grad_norm, learning_rate, skipped: true });
        }
        // As torch.nn.utils.clip_grad_norm_ has it.
        let clip = settings.max_grad_norm.map_or(1.0, |limit| (limit / (grad_norm + 1e-6)).min(1.0));
        self.updates += 1;
        let [beta1, beta2] = settings.betas;
        let corrected = |beta: f64| 1.0 - libm::pow(beta, self.updates as f64);
        let decay: Vec<bool> = parameters.specs().iter().map(|spec| spec.decay).collect();
        for (id, gradient) in gradients.iter().enumerate() {
            let update = Update {
                gradient_scale: scale * clip,
                beta1,
                beta2,
                step: learning_rate / corrected(beta1),
                second_root: corrected(beta2).sqrt(),
                epsilon: settings.epsilon,
                shrink: if decay[id] { 1.0 - learning_rate * settings.weight_decay } else { 1.0 },
            };
            let (first, second) = (&mut self.first[id], &mut self.second[id]);
            update.apply(&mut parameters.values_mut()[id], first, second, gradient)?;
        }
        Ok(UpdateReport { grad_norm, learning_rate, skipped: false })
    }
}

#[cfg(test)]
mod tests;
