//! Gradient sums, and the check that none is missing.

use candle_core::Tensor;

use crate::error::{ModelError, Result};
use crate::kernels::Arrays;
use crate::parameters::{ParameterId, Parameters};

/// One fp32 sum for each parameter, and whether any backward pass reached it.
pub(crate) struct GradientSet<G> {
    sums: Vec<G>,
    reached: Vec<bool>,
}

impl<G: Send> GradientSet<G> {
    pub(crate) fn zeros(kernels: &impl Arrays<Gradient = G>, parameters: &Parameters) -> Result<Self> {
        let sums = parameters.values().iter().map(|p| kernels.zero_gradient(p)).collect::<Result<Vec<_>>>()?;
        Ok(Self { reached: vec![false; sums.len()], sums })
    }

    /// The sum to add a parameter's gradient to; marks it as reached.
    pub(crate) fn reach(&mut self, id: ParameterId) -> &mut G {
        self.reached[id.index()] = true;
        &mut self.sums[id.index()]
    }

    /// Adds another set of the same parameters.
    pub(crate) fn add(&mut self, kernels: &impl Arrays<Gradient = G>, other: &Self) -> Result<()> {
        for (into, from) in self.sums.iter_mut().zip(&other.sums) {
            kernels.add_gradient(into, from)?;
        }
        for (into, from) in self.reached.iter_mut().zip(&other.reached) {
            *into |= from;
        }
        Ok(())
    }

    /// The gradients as tensors.
    ///
    /// # Errors
    /// [`ModelError::NoGradient`] with the first parameter that no backward pass reached. Otherwise an incomplete backward
    /// pass would silently leave it unchanged for the whole run.
    pub(crate) fn into_tensors(
        self,
        kernels: &impl Arrays<Gradient = G>,
        parameters: &Parameters,
    ) -> Result<Vec<Tensor>> {
        if let Some(id) = self.reached.iter().position(|reached| !reached) {
            return Err(ModelError::NoGradient(parameters.specs()[id].name.clone()));
        }
        let tensors = self.sums.into_iter().zip(parameters.values());
        tensors.map(|(sum, parameter)| kernels.gradient_tensor(sum, parameter)).collect()
    }
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;
    use crate::config::{Config, Family};
    use crate::kernels::cpu::Cpu;

    #[test]
    fn a_parameter_that_no_backward_pass_reached_is_refused_by_name() {
        let config = Config {
            family: Family::Qwen2,
            vocab_size: 4,
            hidden_size: 4,
            intermediate_size: 4,
            num_layers: 1,
            num_heads: 1,
            num_kv_heads: 1,
            head_dim: 4,
            max_position_embeddings: 8,
            rms_norm_eps: 1e-6,
            rope_theta: 1e4,
            qkv_bias: true,
            output_bias: false,
            tie_word_embeddings: true,
            eos_token_ids: Vec::new(),
        };
        let parameters = Parameters::random(&config, 0, 0.1, &Device::Cpu).unwrap();
        let cpu = Cpu::new().unwrap();
        for missing in 0..parameters.specs().len() {
            let mut set = GradientSet::zeros(&cpu, &parameters).unwrap();
            for id in (0..parameters.specs().len()).filter(|&id| id != missing) {
                set.reach(ParameterId::at(id))[0] += 1.0;
            }
            let error = set.into_tensors(&cpu, &parameters).unwrap_err();
            let name = &parameters.specs()[missing].name;
            assert!(matches!(error, ModelError::NoGradient(ref found) if found == name), "{name}: {error}");
        }
    }
}
