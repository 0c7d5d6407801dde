//! Gradient sums, and the check that none is missing.

use std::ops::Range;

use candle_core::Tensor;

use crate::error::{ModelError, Result};
use crate::kernels::Arrays;
use crate::parameters::Parameters;
use crate::parameters::lora::LoraShape;

/// One fp32 sum for each parameter that is trained, and whether any backward pass reached it.
pub(crate) struct GradientSet<G> {
    sums: Vec<Sum<G>>,
}

/// The sum of a parameter.
pub(crate) struct Sum<G> {
    pub(crate) gradient: G,
    /// Whether any backward pass added to it.
    pub(crate) is_reached: bool,
}

impl<G: Send> GradientSet<G> {
    /// From the sum of each parameter, in order.
    pub(crate) fn new(sums: Vec<Sum<G>>) -> Self {
        Self { sums }
    }

    pub(crate) fn zeros(kernels: &impl Arrays<Gradient = G>, parameters: &Parameters) -> Result<Self> {
        let zero = |parameter| Ok(Sum { gradient: kernels.zero_gradient(parameter)?, is_reached: false });
        Ok(Self { sums: parameters.trained_values().iter().map(zero).collect::<Result<_>>()? })
    }

    /// This set and another of the same parameters, added.
    pub(crate) fn plus(mut self, kernels: &impl Arrays<Gradient = G>, other: Self) -> Result<Self> {
        for (into, from) in self.sums.iter_mut().zip(other.sums) {
            kernels.add_gradient(&mut into.gradient, from.gradient)?;
            into.is_reached |= from.is_reached;
        }
        Ok(self)
    }

    /// The gradients as tensors.
    ///
    /// # Errors
    /// [`ModelError::NoGradient`] with the first parameter that no backward pass reached. Otherwise an incomplete
    /// backward pass would silently leave it unchanged for the whole run.
    pub(crate) fn into_tensors(
        self,
        kernels: &impl Arrays<Gradient = G>,
        parameters: &Parameters,
    ) -> Result<Vec<Tensor>> {
        let sums = self.into_sums(kernels, parameters)?;
        gradients_of_sums(parameters, 0..sums.len(), sums)
    }

    /// The sums as tensors, and whether any backward pass reached each.
    pub(crate) fn into_sums(
        self,
        kernels: &impl Arrays<Gradient = G>,
        parameters: &Parameters,
    ) -> Result<Vec<(Tensor, bool)>> {
        let sums = self.sums.into_iter().zip(parameters.trained_values());
        sums.map(|(sum, parameter)| Ok((kernels.gradient_tensor(sum.gradient, parameter)?, sum.is_reached))).collect()
    }
}

/// The gradients of some of the parameters that are trained, by their numbers, from the complete sum of each and
/// whether any backward pass reached it.
///
/// # Errors
/// [`ModelError::NoGradient`] with the first parameter that no backward pass reached.
pub fn gradients_of_sums(
    parameters: &Parameters,
    trained: Range<usize>,
    sums: Vec<(Tensor, bool)>,
) -> Result<Vec<Tensor>> {
    if let Some(id) = sums.iter().position(|(_, is_reached)| !is_reached) {
        return Err(ModelError::NoGradient(parameters.trained_specs()[trained.start + id].name.clone()));
    }
    let mut tensors: Vec<Tensor> = sums.into_iter().map(|(sum, _)| sum).collect();
    // Layers compute with B times the scale, and sum that one's gradient.
    if let Some(scale) = parameters.lora().map(LoraShape::scale).filter(|&scale| scale != 1.0) {
        for b in parameters.adapters().map(|adapter| adapter.b.index() - parameters.trained().start) {
            if trained.contains(&b) {
                let own = b - trained.start;
                tensors[own] = tensors[own].affine(scale, 0.0)?;
            }
        }
    }
    Ok(tensors)
}
