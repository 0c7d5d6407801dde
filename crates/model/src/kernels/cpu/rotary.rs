//! Rotary position embedding in place.

use multiversion::multiversion;

use super::{Cpu, Matrix};
use crate::config::Config;
use crate::error::Result;
use crate::kernels::{HeadNorm, Rotary, RotaryDirection, rotary_angles};

/// Cosines and sines, (positions, head_dim / 2) each.
#[derive(Clone, Debug)]
pub struct RotaryTable {
    cos: Vec<f32>,
    sin: Vec<f32>,
    half: usize,
}

impl HeadNorm for Cpu {}

impl Rotary for Cpu {
    type RotaryTable = RotaryTable;

    fn rotary_table(&self, config: &Config) -> Result<RotaryTable> {
        let (cos, sin) = rotary_angles(config);
        Ok(RotaryTable { cos, sin, half: config.head_dim / 2 })
    }

    fn rotary(
        &self,
        mut x: Matrix,
        table: &RotaryTable,
        positions: &[u32],
        direction: RotaryDirection,
    ) -> Result<Matrix> {
        let width = x.width();
        rotate(&mut x, width, table, positions, if direction == RotaryDirection::Forward { 1.0 } else { -1.0 });
        Ok(x)
    }
}

#[multiversion(targets("x86_64+avx512f+avx512vl+avx512dq+avx512bw+avx2+fma", "x86_64+avx2+fma"))]
fn rotate(x: &mut [f32], width: usize, table: &RotaryTable, positions: &[u32], sign: f32) {
    let half = table.half;
    for (row, &position) in x.chunks_exact_mut(width).zip(positions) {
        let at = position as usize * half;
        let cos = &table.cos[at..][..half];
        let sin = &table.sin[at..][..half];
        for head in row.chunks_exact_mut(2 * half) {
            let (a, b) = head.split_at_mut(half);
            for i in 0..half {
                let u = a[i];
                let v = b[i];
                let s = sin[i] * sign;
                a[i] = u * cos[i] - v * s;
                b[i] = v * cos[i] + u * s;
            }
        }
    }
}
