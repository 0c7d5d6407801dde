//! The global norm, and AdamW in one pass over each parameter's arrays.

use candle_core::Tensor;
use evenkeel_kernels::{AdamW, Clip, Pointer, Type, adamw, global_norm, square_parts, squares};

use super::host_update::Update;
use super::{Cuda, Device};
use crate::error::{ModelError, Result};
use crate::kernels::{Arrays, HostMoments, OptimizerKernels, UpdateArrays, UpdateNorm};

/// Bytes of a norm and of the factor that follows it.
const NORM_BYTES: usize = 16;

/// The norm of gradients, the factor of their update and the norm of what that changes, on the device.
struct Norms<M> {
    /// f64 and fp32 behind it, twice: nothing is multiplied by the second factor.
    memory: M,
    /// The parts of both norms.
    sums: M,
    /// How many parts the first has.
    of_gradients: usize,
    /// How many each launch of an update adds to the second.
    of_changes: Vec<usize>,
}

impl<D: Device> OptimizerKernels for Cuda<D> {
    fn norm(&self, gradients: &[Tensor]) -> Result<f64> {
        let found = self.launch_norm(gradients, WHOLE, std::iter::empty())?;
        Ok(self.read(&found)?.norm)
    }

    fn update(&self, arrays: UpdateArrays<'_>, clip: Clip, updates: &[AdamW]) -> Result<UpdateNorm> {
        self.forget_weights();
        let found = self.launch_norm(arrays.gradients, clip, arrays.weights.iter().map(Tensor::elem_count))?;
        let moments = arrays.first.iter().zip(arrays.second);
        let changes = self.changes(&found);
        for ((((weight, (first, second)), gradient), numbers), change) in
            arrays.weights.iter().zip(moments).zip(arrays.gradients).zip(updates).zip(changes)
        {
            let pointer = |tensor: &Tensor| self.device.parameter(tensor, Type::F32);
            let state = [pointer(weight)?, pointer(first)?, pointer(second)?];
            let gradient = pointer(gradient)?;
            let count = weight.elem_count();
            let factor = self.factor(&found);
            self.run(adamw(self.device.properties(), *numbers, count, state, gradient, factor, change))?;
        }
        self.launch_change(&found)?;
        self.read(&found)
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
        let counts: Vec<usize> = weights.iter().map(Tensor::elem_count).collect();
        let found = self.launch_norm(gradients, clip, self.pieces(&counts).map(|piece| piece.count))?;
        let changes = self.changes(&found);
        let update = Update { weights, gradients, factor: self.factor(&found), numbers: updates, changes };
        self.update_in_pieces(&update, moments)?;
        self.launch_change(&found)?;
        self.read(&found)
    }
}

impl<D: Device> Cuda<D> {
    /// Has the device compute the norm of gradients and the factor, without waiting for them. Launches of the update
    /// change these numbers of weights.
    fn launch_norm(
        &self,
        gradients: &[Tensor],
        clip: Clip,
        launches: impl Iterator<Item = usize>,
    ) -> Result<Norms<D::Memory>> {
        let properties = self.device.properties();
        let parts: Vec<usize> =
            gradients.iter().map(|gradient| square_parts(properties, gradient.elem_count())).collect();
        let of_changes: Vec<usize> = launches.map(|count| square_parts(properties, count)).collect();
        let of_gradients: usize = parts.iter().sum();
        let sums = self.device.allocate(8 * (of_gradients + of_changes.iter().sum::<usize>()))?;
        let first = self.device.address(&sums);
        for (gradient, to) in gradients.iter().zip(places(first, &parts)) {
            self.run(squares(properties, self.device.parameter(gradient, Type::F32)?, gradient.elem_count(), to))?;
        }
        let memory = self.device.allocate(2 * NORM_BYTES)?;
        let norm = self.device.address(&memory);
        self.run(global_norm(first, of_gradients, norm, factor_behind(norm), clip))?;
        Ok(Norms { memory, sums, of_gradients, of_changes })
    }

    fn factor(&self, found: &Norms<D::Memory>) -> Pointer {
        factor_behind(self.device.address(&found.memory))
    }

    /// Where each launch of an update leaves the parts of its change.
    fn changes(&self, found: &Norms<D::Memory>) -> Vec<Pointer> {
        places(self.first_change(found), &found.of_changes)
    }

    fn first_change(&self, found: &Norms<D::Memory>) -> Pointer {
        behind(self.device.address(&found.sums), found.of_gradients)
    }

    /// Has the device compute the norm of the change, without waiting for it.
    fn launch_change(&self, found: &Norms<D::Memory>) -> Result<()> {
        let norm = Pointer(self.device.address(&found.memory).0 + NORM_BYTES as u64);
        let parts = found.of_changes.iter().sum();
        self.run(global_norm(self.first_change(found), parts, norm, factor_behind(norm), WHOLE))
    }

    /// Waits for everything that was launched before.
    fn read(&self, found: &Norms<D::Memory>) -> Result<UpdateNorm> {
        let bytes = self.device.download(&found.memory, 2 * NORM_BYTES)?;
        let short = || ModelError::input("bytes of two norms", bytes.len(), "32");
        let (gradient, change) = bytes.split_at_checked(NORM_BYTES).ok_or_else(short)?;
        let (norm, rest) = gradient.split_first_chunk().ok_or_else(short)?;
        let factor = rest.first_chunk().ok_or_else(short)?;
        let change = change.first_chunk().ok_or_else(short)?;
        let applied = f32::from_ne_bytes(*factor).is_finite();
        let change = if applied { f64::from_ne_bytes(*change) } else { 0.0 };
        Ok(UpdateNorm { norm: f64::from_ne_bytes(*norm), applied, change })
    }
}

/// The norm as it is: for what nothing is clipped by.
const WHOLE: Clip = Clip { scale: 1.0, limit: f64::INFINITY };

/// Where each of these numbers of parts begins, one behind the other.
fn places(mut first: Pointer, parts: &[usize]) -> Vec<Pointer> {
    parts
        .iter()
        .map(|&parts| {
            let end = behind(first, parts);
            std::mem::replace(&mut first, end)
        })
        .collect()
}

/// Where this many f64 values end.
fn behind(first: Pointer, values: usize) -> Pointer {
    Pointer(first.0 + 8 * values as u64)
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
        assert_eq!((update.waits, update.downloads.bytes), (1, 32));
        let tally = |name: &str| update.kernels.get(name).copied().unwrap_or_default();
        assert_eq!(
            (tally("adamw_wide").launches, tally("squares_wide").launches, tally("global_norm").launches),
            (3, 3, 2)
        );
        assert_eq!(tally("adamw_wide").bytes, 28 * (8 + 1000 + 4096));
    }
}
