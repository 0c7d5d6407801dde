//! The gated activation of the feed-forward block.

use multiversion::multiversion;

use super::simd::sigmoid;
use super::{Cpu, Matrix};
use crate::error::Result;
use crate::kernels::SwiGlu;

impl SwiGlu for Cpu {
    fn swiglu(&self, gate: &Matrix, up: &Matrix) -> Result<Matrix> {
        let mut y = Matrix::uninitialized(gate.rows(), gate.width());
        forward(&mut y, gate, up);
        Ok(y)
    }

    fn swiglu_backward(&self, dy: &Matrix, gate: &Matrix, up: &Matrix) -> Result<[Matrix; 2]> {
        let mut dgate = Matrix::uninitialized(gate.rows(), gate.width());
        let mut dup = Matrix::uninitialized(gate.rows(), gate.width());
        backward(&mut dgate, &mut dup, dy, gate, up);
        Ok([dgate, dup])
    }
}

#[multiversion(targets("x86_64+avx512f+avx512vl+avx512dq+avx512bw+avx2+fma", "x86_64+avx2+fma"))]
fn forward(y: &mut [f32], gate: &[f32], up: &[f32]) {
    for ((y, &g), &u) in y.iter_mut().zip(gate).zip(up) {
        *y = g * sigmoid(g) * u;
    }
}

/// d silu(g) / dg = s + g s (1 - s), with s the sigmoid of g.
#[multiversion(targets("x86_64+avx512f+avx512vl+avx512dq+avx512bw+avx2+fma", "x86_64+avx2+fma"))]
fn backward(dgate: &mut [f32], dup: &mut [f32], dy: &[f32], gate: &[f32], up: &[f32]) {
    let n = dy.len();
    let dgate = &mut dgate[..n];
    let dup = &mut dup[..n];
    let gate = &gate[..n];
    let up = &up[..n];
    for i in 0..n {
        let s = sigmoid(gate[i]);
        dup[i] = dy[i] * gate[i] * s;
        dgate[i] = dy[i] * up[i] * (s + gate[i] * s * (1.0 - s));
    }
}
