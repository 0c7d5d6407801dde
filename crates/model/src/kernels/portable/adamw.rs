//! The arithmetic of one parameter's update, in place on a CPU and as tensor operations elsewhere.

use candle_core::{CpuStorage, DType, Device, InplaceOp2, InplaceOp3, Layout, Result, Tensor};

use super::super::AdamW;

/// One parameter and its moments: fp32 tensors of one shape on one device.
#[derive(Debug)]
pub struct ParameterMoments<'a> {
    /// Values of the parameter, changed in place.
    pub value: &'a mut Tensor,
    /// The running mean of its gradients.
    pub first: &'a mut Tensor,
    /// The running mean of their squares.
    pub second: &'a mut Tensor,
}

impl ParameterMoments<'_> {
    /// One AdamW update in place, with `factor` times the gradient (the mini-batch normalizer and the clipping):
    /// m = b1 m + (1 - b1) g, v = b2 v + (1 - b2) g², w = shrink w - step m / (sqrt(v) / second_root + epsilon).
    ///
    /// # Errors
    /// A failure of the device.
    pub fn update(self, gradient: &Tensor, factor: f64, numbers: AdamW) -> crate::error::Result<()> {
        let Self { value, first, second } = self;
        let AdamW { betas: [beta1, beta2], step, second_root, epsilon, shrink } = numbers;
        if matches!(value.device(), Device::Cpu) {
            let scale = factor as f32;
            first.inplace_op2(gradient, &Mean { beta: beta1 as f32, scale })?;
            second.inplace_op2(gradient, &MeanSquare { beta: beta2 as f32, scale })?;
            return Ok(value.inplace_op3(first, second, &Value(numbers))?);
        }
        let grad = (gradient * factor)?;
        *first = ((&*first * beta1)? + (&grad * (1.0 - beta1))?)?;
        *second = ((&*second * beta2)? + (grad.sqr()? * (1.0 - beta2))?)?;
        let root = ((second.sqrt()? / second_root)? + epsilon)?;
        *value = ((&*value * shrink)? - ((&*first / root)? * step)?)?;
        Ok(())
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

struct Value(AdamW);

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
        let AdamW { step, second_root, epsilon, shrink, .. } = self.0;
        let shrink = shrink as f32;
        let step = step as f32;
        let epsilon = epsilon as f32;
        let inverse_root = 1.0 / second_root as f32;
        let moments = values(first, fl)?.iter().zip(values(second, sl)?);
        for (w, (m, v)) in values_mut(weight, wl)?.iter_mut().zip(moments) {
            *w = shrink * *w - step * m / (v.sqrt() * inverse_root + epsilon);
        }
        Ok(())
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
