//! The global norm, and AdamW in one pass over each parameter's arrays.

use candle_core::Tensor;
use evenkeel_kernels::{AdamW, Pointer, adamw, global_norm, square_parts, squares};

use super::host_update::Update;
use super::{Cuda, Device};
use crate::error::{ModelError, Result};
use crate::kernels::{HostMoments, OptimizerKernels, UpdateArrays};

impl<D: Device> OptimizerKernels for Cuda<D> {
    fn norm(&self, gradients: &[Tensor]) -> Result<f64> {
        let properties = self.device.properties();
        let parts: Vec<usize> =
            gradients.iter().map(|gradient| square_parts(properties, gradient.elem_count())).collect();
        let all = parts.iter().sum();
        let sums = self.device.allocate(8 * all)?;
        let mut to = self.device.address(&sums);
        for (gradient, parts) in gradients.iter().zip(&parts) {
            self.run(squares(properties, self.device.parameter(gradient)?, gradient.elem_count(), to))?;
            to = Pointer(to.0 + 8 * *parts as u64);
        }
        let norm = self.device.allocate(8)?;
        self.run(global_norm(self.device.address(&sums), all, self.device.address(&norm)))?;
        let bytes = self.device.download(&norm, 8)?;
        let (found, allowed) = (bytes.len(), "8");
        bytes.try_into().map(f64::from_ne_bytes).map_err(|_| ModelError::input("bytes of a norm", found, allowed))
    }

    fn update(&self, arrays: UpdateArrays<'_>, factor: f64, updates: &[AdamW]) -> Result<()> {
        let moments = arrays.first.iter().zip(arrays.second);
        for (((weight, (first, second)), gradient), numbers) in
            arrays.weights.iter().zip(moments).zip(arrays.gradients).zip(updates)
        {
            let at = |tensor: &Tensor| self.device.parameter(tensor);
            let (state, gradient) = ([at(weight)?, at(first)?, at(second)?], at(gradient)?);
            let count = weight.elem_count();
            self.run(adamw(self.device.properties(), *numbers, count, state, gradient, factor as f32))?;
        }
        Ok(())
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
        factor: f64,
        updates: &[AdamW],
    ) -> Result<()> {
        self.update_in_pieces(&Update { weights, gradients, factor: factor as f32, numbers: updates }, moments)
    }
}

#[cfg(test)]
mod tests {
    use candle_core::DType;
    use evenkeel_kernels::DeviceProperties;

    use super::*;
    use crate::kernels::cuda::Counter;

    #[test]
    fn an_update_reads_and_writes_each_value_once_and_the_host_reads_one_number() {
        let cuda = Cuda::new(Counter::new(DeviceProperties { multiprocessors: 132 }), DType::F32).unwrap();
        let tensors = [8, 1000, 4096].map(|n| Tensor::zeros(n, DType::F32, &candle_core::Device::Cpu).unwrap());
        let numbers = AdamW { betas: [0.9, 0.95], step: 1e-3, second_root: 1.0, epsilon: 1e-8, shrink: 1.0 };
        cuda.norm(&tensors).unwrap();
        let norm = cuda.device().take();
        assert_eq!((norm.downloads.launches, norm.downloads.bytes), (1, 8));
        let arrays = UpdateArrays { weights: &tensors, first: &tensors, second: &tensors, gradients: &tensors };
        cuda.update(arrays, 0.5, &[numbers; 3]).unwrap();
        let update = cuda.device().take();
        assert_eq!((update.total().launches, update.total().bytes), (3, 28 * (8 + 1000 + 4096)));
    }
}
