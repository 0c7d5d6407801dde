//! RMSNorm, over the whole row or over each head.

use candle_core::Tensor;
use multiversion::multiversion;

use super::simd::{dot, lane_sum};
use super::{Cpu, Matrix, with_values};
use crate::error::Result;
use crate::kernels::RmsNorm;

impl RmsNorm for Cpu {
    fn rms_norm(&self, x: &Matrix, weight: &Tensor, epsilon: f64) -> Result<Matrix> {
        let mut y = Matrix::uninitialized(x.rows(), x.width());
        with_values(weight, |values| forward(&mut y, x, &values[..weight.elem_count()], epsilon as f32))?;
        Ok(y)
    }

    fn rms_norm_backward(
        &self,
        dy: &Matrix,
        x: &Matrix,
        weight: &Tensor,
        epsilon: f64,
        grad: &mut Vec<f32>,
        into: Option<Matrix>,
    ) -> Result<Matrix> {
        let mut dx = into.unwrap_or_else(|| Matrix::zeros(x.rows(), x.width()));
        with_values(weight, |values| {
            backward(&mut dx, grad, dy, x, &values[..weight.elem_count()], epsilon as f32);
        })?;
        Ok(dx)
    }
}

#[inline(always)]
fn inverse_rms(x: &[f32], epsilon: f32) -> f32 {
    1.0 / (dot(x, x) / x.len() as f32 + epsilon).sqrt()
}

#[multiversion(targets("x86_64+avx512f+avx512vl+avx512dq+avx512bw+avx2+fma", "x86_64+avx2+fma"))]
fn forward(y: &mut [f32], x: &[f32], weight: &[f32], epsilon: f32) {
    let width = weight.len();
    for (y, x) in y.chunks_exact_mut(width).zip(x.chunks_exact(width)) {
        let inverse = inverse_rms(x, epsilon);
        for ((y, x), w) in y.iter_mut().zip(x).zip(weight) {
            *y = x * inverse * w;
        }
    }
}

/// With r = 1 / rms: dx = r w dy - x r³ mean(w dy x), dw = r dy x.
#[multiversion(targets("x86_64+avx512f+avx512vl+avx512dq+avx512bw+avx2+fma", "x86_64+avx2+fma"))]
fn backward(dx: &mut [f32], dw: &mut [f32], dy: &[f32], x: &[f32], weight: &[f32], epsilon: f32) {
    let width = weight.len();
    let dw = &mut dw[..width];
    let rows = dx.chunks_exact_mut(width).zip(dy.chunks_exact(width)).zip(x.chunks_exact(width));
    for ((dx, dy), x) in rows {
        let inverse = inverse_rms(x, epsilon);
        let along = lane_sum(width, |i| dy[i] * weight[i] * x[i]);
        let pull = along * inverse * inverse * inverse / width as f32;
        for i in 0..width {
            dw[i] += dy[i] * x[i] * inverse;
            dx[i] += dy[i] * weight[i] * inverse - x[i] * pull;
        }
    }
}
