//! The global norm, and AdamW in one pass over each parameter's arrays.

use candle_core::Tensor;
use evenkeel_kernels::{AdamW, Clip, Pointer, Type, adamw, global_norm, square_parts, squares};

use super::host_update::Update;
use super::{Cuda, Device};
use crate::error::{ModelError, Result};
use crate::kernels::{Arrays, HostMoments, OptimizerKernels, UpdateArrays, UpdateNorm};

/// Bytes of a norm and of the factor that follows it.
const NORM_BYTES: usize = 16;

/// The norm of gradients and the factor of their update, on the device.
struct NormAndFactor<M> {
    /// f64, and fp32 behind it.
    memory: M,
    /// The parts of the norm, kept as long.
    _sums: M,
}

impl<D: Device> OptimizerKernels for Cuda<D> {
    fn norm(&self, gradients: &[Tensor]) -> Result<f64> {
        let found = self.launch_norm(gradients, Clip { scale: 1.0, limit: f64::INFINITY })?;
        Ok(self.read_norm(&found)?.norm)
    }

    fn update(&self, arrays: UpdateArrays<'_>, clip: Clip, updates: &[AdamW]) -> Result<UpdateNorm> {
        self.forget_weights();
        let found = self.launch_norm(arrays.gradients, clip)?;
        let moments = arrays.first.iter().zip(arrays.second);
        for (((weight, (first, second)), gradient), numbers) in
            arrays.weights.iter().zip(moments).zip(arrays.gradients).zip(updates)
        {
            let pointer = |tensor: &Tensor| self.device.parameter(tensor, Type::F32);
            let state = [pointer(weight)?, pointer(first)?, pointer(second)?];
            let gradient = pointer(gradient)?;
            let count = weight.elem_count();
            let factor = self.factor(&found);
            self.run(adamw(self.device.properties(), *numbers, count, state, gradient, factor))?;
        }
        self.read_norm(&found)
    }

    fn host_moments(&self, counts: &[usize]) -> Result<HostMoments> {
        let zeros = || counts.iter().map(|&count| self.device.host_values(count)).collect::<Result<Vec<_>>>();
        Ok(HostMoments::new(zeros()?, zeros()?))
    }

    fn update_from_host(
        &self,
        weights: &[Tensor],
        gradients: &[Tensor],
        moments: &mut HostMoments,
        clip: Clip,
        updates: &[AdamW],
    ) -> Result<UpdateNorm> {
        self.forget_weights();
        let found = self.launch_norm(gradients, clip)?;
        let update = Update { weights, gradients, factor: self.factor(&found), numbers: updates };
        self.update_in_pieces(&update, moments)?;
        self.read_norm(&found)
    }
}

impl<D: Device> Cuda<D> {
    /// Has the device compute both, without waiting for them.
    fn launch_norm(&self, gradients: &[Tensor], clip: Clip) -> Result<NormAndFactor<D::Memory>> {
        let properties = self.device.properties();
        let parts: Vec<usize> =
            gradients.iter().map(|gradient| square_parts(properties, gradient.elem_count())).collect();
        let all = parts.iter().sum();
        let sums = self.device.allocate(8 * all)?;
        let mut to = self.device.address(&sums);
        for (gradient, parts) in gradients.iter().zip(&parts) {
            self.run(squares(properties, self.device.parameter(gradient, Type::F32)?, gradient.elem_count(), to))?;
            to = Pointer(to.0 + 8 * *parts as u64);
        }
        let memory = self.device.allocate(NORM_BYTES)?;
        let norm = self.device.address(&memory);
        self.run(global_norm(self.device.address(&sums), all, norm, factor_behind(norm), clip))?;
        Ok(NormAndFactor { memory, _sums: sums })
    }

    fn factor(&self, found: &NormAndFactor<D::Memory>) -> Pointer {
        factor_behind(self.device.address(&found.memory))
    }

    /// Waits for everything that was launched before.
    fn read_norm(&self, found: &NormAndFactor<D::Memory>) -> Result<UpdateNorm> {
        let bytes = self.device.download(&found.memory, NORM_BYTES)?;
        let short = || ModelError::input("bytes of a norm", bytes.len(), "16");
        let (norm, rest) = bytes.split_first_chunk().ok_or_else(short)?;
        let factor = rest.first_chunk().ok_or_else(short)?;
        Ok(UpdateNorm { norm: f64::from_ne_bytes(*norm), applied: f32::from_ne_bytes(*factor).is_finite() })
    }
}

fn factor_behind(norm: Pointer) -> Pointer {
    Pointer(norm.0 + 8)
}

#[cfg(test)]
mod tests {
    use candle_core::DType;
    use evenkeel_kernels::DeviceProperties;

    use super::*;
    use crate::kernels::cuda::Counter;

    #[test]
    fn an_update_reads_and_writes_each_value_once_and_the_host_waits_once() {
        let cuda = Cuda::new(Counter::new(DeviceProperties { multiprocessors: 132 }), DType::F32).unwrap();
        let tensors = [8, 1000, 4096].map(|n| Tensor::zeros(n, DType::F32, &candle_core::Device::Cpu).unwrap());
        let numbers = AdamW { betas: [0.9, 0.95], step: 1e-3, second_root: 1.0, epsilon: 1e-8, shrink: 1.0 };
        let arrays = UpdateArrays { weights: &tensors, first: &tensors, second: &tensors, gradients: &tensors };
        let found = cuda.update(arrays, Clip { scale: 0.5, limit: 1.0 }, &[numbers; 3]).unwrap();
        assert!(found.applied, "a counter reads zeros");
        let update = cuda.device().take();
        assert_eq!((update.waits, update.downloads.bytes), (1, 16));
        let tally = |name: &str| update.kernels.get(name).copied().unwrap_or_default();
        assert_eq!(
            (tally("adamw_wide").launches, tally("squares_wide").launches, tally("global_norm").launches),
            (3, 3, 1)
        );
        assert_eq!(tally("adamw_wide").bytes, 28 * (8 + 1000 + 4096));
    }
}
