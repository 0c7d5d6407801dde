//! The arithmetic of one parameter's update, in place on a CPU and as tensor operations elsewhere.

use std::sync::{Mutex, PoisonError};

use candle_core::{CpuStorage, DType, Device, InplaceOp2, InplaceOp3, Layout, Result, Storage, Tensor};

use super::super::AdamW;
use super::reductions::squares;

/// One parameter and its moments: fp32 tensors of one shape on one device.
#[derive(Debug)]
pub struct ParameterMoments<'a> {
    /// Values of the parameter, changed in place.
    pub value: &'a mut Tensor,
    /// Whether others read the values as they are now: then the new ones get memory of their own.
    pub is_lent: bool,
    /// The running mean of its gradients.
    pub first: &'a mut Tensor,
    /// The running mean of their squares.
    pub second: &'a mut Tensor,
}

impl ParameterMoments<'_> {
    /// One AdamW update in place, with `factor` times the gradient (the mini-batch normalizer and the clipping):
    /// m = b1 m + (1 - b1) g, v = b2 v + (1 - b2) g², w = shrink w - step m / (sqrt(v) / second_root + epsilon).
    /// Returns the sum of squares of what was added to the values.
    ///
    /// # Errors
    /// A failure of the device.
    pub fn update(self, gradient: &Tensor, factor: f64, numbers: AdamW) -> crate::error::Result<f64> {
        let Self { value, is_lent, first, second } = self;
        let AdamW { betas: [beta1, beta2], step, second_root, epsilon, shrink } = numbers;
        if matches!(value.device(), Device::Cpu) {
            let scale = factor as f32;
            first.inplace_op2(gradient, &Mean { beta: beta1 as f32, scale })?;
            second.inplace_op2(gradient, &MeanSquare { beta: beta2 as f32, scale })?;
            let lent = if is_lent { Some(std::mem::replace(value, value.zeros_like()?)) } else { None };
            let update = Value { numbers, lent, squares: Mutex::new(0.0) };
            value.inplace_op3(first, second, &update)?;
            return Ok(update.squares.into_inner().unwrap_or_else(PoisonError::into_inner));
        }
        let grad = (gradient * factor)?;
        *first = ((&*first * beta1)? + (&grad * (1.0 - beta1))?)?;
        *second = ((&*second * beta2)? + (grad.sqr()? * (1.0 - beta2))?)?;
        let root = ((second.sqrt()? / second_root)? + epsilon)?;
        let updated = ((&*value * shrink)? - ((&*first / root)? * step)?)?;
        let change = (&updated - &*value)?;
        *value = updated;
        squares(&change)
    }
}

struct Mean {
    beta: f32,
    scale: f32,
}

impl InplaceOp2 for Mean {
    fn name(&self) -> &'static str {
        "running mean"
    }

    fn cpu_fwd(&self, mean: &mut CpuStorage, ml: &Layout, grad: &CpuStorage, gl: &Layout) -> Result<()> {
        for (m, g) in values_mut(mean, ml)?.iter_mut().zip(values(grad, gl)?) {
            *m = self.beta * *m + (1.0 - self.beta) * (g * self.scale);
        }
        Ok(())
    }
}

struct MeanSquare {
    beta: f32,
    scale: f32,
}

impl InplaceOp2 for MeanSquare {
    fn name(&self) -> &'static str {
        "running mean of squares"
    }

    fn cpu_fwd(&self, mean: &mut CpuStorage, ml: &Layout, grad: &CpuStorage, gl: &Layout) -> Result<()> {
        for (v, g) in values_mut(mean, ml)?.iter_mut().zip(values(grad, gl)?) {
            let g = g * self.scale;
            *v = self.beta * *v + (1.0 - self.beta) * g * g;
        }
        Ok(())
    }
}

struct Value {
    numbers: AdamW,
    /// The values before, where they must stay.
    lent: Option<Tensor>,
    /// Sum of squares of what was added to the values.
    squares: Mutex<f64>,
}

impl InplaceOp3 for Value {
    fn name(&self) -> &'static str {
        "adamw"
    }

    fn cpu_fwd(
        &self,
        weight: &mut CpuStorage,
        wl: &Layout,
        first: &CpuStorage,
        fl: &Layout,
        second: &CpuStorage,
        sl: &Layout,
    ) -> Result<()> {
        let lent = self.lent.as_ref().map(Tensor::storage_and_layout);
        let before = match &lent {
            Some((storage, layout)) => match &**storage {
                Storage::Cpu(storage) => Some(values(storage, layout)?),
                _ => candle_core::bail!("expected values on a CPU"),
            },
            None => None,
        };
        let (weights, means, squares) = (values_mut(weight, wl)?, values(first, fl)?, values(second, sl)?);
        let mut sums = [0.0; LANES];
        for (number, weights) in weights.chunks_mut(IN_CACHE).enumerate() {
            let place = number * IN_CACHE..number * IN_CACHE + weights.len();
            if let Some(before) = before {
                weights.copy_from_slice(&before[place.clone()]);
            }
            self.update(weights, &means[place.clone()], &squares[place], &mut sums);
        }
        *self.squares.lock().unwrap_or_else(PoisonError::into_inner) = sums.iter().sum();
        Ok(())
    }
}

/// Sums side by side, so that additions do not wait for each other and compile to vectors.
const LANES: usize = 8;
/// Weights that are copied before they are updated, a multiple of [`LANES`]: they stay in the first-level cache.
const IN_CACHE: usize = 1024;

impl Value {
    /// Updates weights, and adds the squares of what was added to each.
    fn update(&self, weights: &mut [f32], means: &[f32], squares: &[f32], sums: &mut [f64; LANES]) {
        let (weights, last_weights) = weights.as_chunks_mut::<LANES>();
        let (means, last_means) = means.as_chunks::<LANES>();
        let (squares, last_squares) = squares.as_chunks::<LANES>();
        for (weights, (means, squares)) in weights.iter_mut().zip(means.iter().zip(squares)) {
            self.update_lanes(weights, means, squares, sums);
        }
        self.update_lanes(last_weights, last_means, last_squares, sums);
    }

    /// Updates at most [`LANES`] weights.
    #[inline(always)]
    fn update_lanes(&self, weights: &mut [f32], means: &[f32], squares: &[f32], sums: &mut [f64; LANES]) {
        let AdamW { step, second_root, epsilon, shrink, .. } = self.numbers;
        let shrink = shrink as f32;
        let step = step as f32;
        let epsilon = epsilon as f32;
        let inverse_root = 1.0 / second_root as f32;
        for ((sum, w), (m, v)) in sums.iter_mut().zip(weights).zip(means.iter().zip(squares)) {
            let before = *w;
            *w = shrink * before - step * m / (v.sqrt() * inverse_root + epsilon);
            let change = f64::from(*w) - f64::from(before);
            *sum += change * change;
        }
    }
}

fn values<'a>(storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [f32]> {
    let (start, end) = contiguous(layout)?;
    match storage {
        CpuStorage::F32(values) => Ok(&values[start..end]),
        other => candle_core::bail!("expected F32, found {:?}", dtype(other)),
    }
}

fn values_mut<'a>(storage: &'a mut CpuStorage, layout: &Layout) -> Result<&'a mut [f32]> {
    let (start, end) = contiguous(layout)?;
    match storage {
        CpuStorage::F32(values) => Ok(&mut values[start..end]),
        other => candle_core::bail!("expected F32, found {:?}", dtype(other)),
    }
}

fn contiguous(layout: &Layout) -> Result<(usize, usize)> {
    match layout.contiguous_offsets() {
        Some(offsets) => Ok(offsets),
        None => candle_core::bail!("expected contiguous values"),
    }
}

fn dtype(storage: &CpuStorage) -> DType {
    use candle_core::backend::BackendStorage;
    storage.dtype()
}
