//! Random shapes and values, and what results may differ by.

use candle_core::{Device, Tensor};
use evenkeel_kernels::Type;
use evenkeel_model::kernels::cpu::{Cpu, Matrix};
use evenkeel_model::kernels::{Arrays, Rows};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::memory::rounded;

pub const TYPES: [Type; 2] = [Type::F32, Type::Bf16];

/// A source of shapes and values.
pub struct Case {
    random: ChaCha8Rng,
}

impl Case {
    /// A source that gives equal shapes and values for equal seeds.
    pub fn new(seed: u64) -> Self {
        Self { random: ChaCha8Rng::seed_from_u64(seed) }
    }

    /// A number within a range, both ends included.
    pub fn between(&mut self, least: usize, most: usize) -> usize {
        self.random.random_range(least..=most)
    }

    /// One of several choices, at random.
    pub fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.random.random_range(0..choices.len())]
    }

    /// Numbers of about the size of activations.
    pub fn normal(&mut self, count: usize) -> Vec<f32> {
        // The sum of some uniform numbers is near enough to normal.
        (0..count).map(|_| (0..4).map(|_| self.random.random_range(-1.0f32..1.0)).sum()).collect()
    }

    /// Numbers of about the size of activations, rounded as the type holds them.
    pub fn of(&mut self, kind: Type, count: usize) -> Vec<f32> {
        self.normal(count).into_iter().map(|value| rounded(kind, value)).collect()
    }

    /// Numbers below a limit.
    pub fn ids(&mut self, count: usize, below: usize) -> Vec<u32> {
        (0..count).map(|_| self.random.random_range(0..below as u32)).collect()
    }

    /// Distinct numbers below `total`, in random order.
    pub fn distinct(&mut self, count: usize, total: usize) -> Vec<u32> {
        let mut all: Vec<u32> = (0..total as u32).collect();
        for at in (1..total).rev() {
            all.swap(at, self.random.random_range(0..=at));
        }
        all.truncate(count);
        all
    }
}

pub fn cpu() -> Cpu {
    Cpu::new().unwrap()
}

/// A tensor of the CPU.
pub fn tensor(values: &[f32], shape: &[usize]) -> Tensor {
    Tensor::from_slice(values, shape, &Device::Cpu).unwrap()
}

/// A matrix of the CPU's kernels.
pub fn matrix(values: &[f32], width: usize) -> Matrix {
    let rows = values.len() / width;
    let ids: Vec<u32> = (0..rows as u32).collect();
    cpu().embed(&tensor(values, &[rows, width]), &ids).unwrap()
}

/// The values of a matrix, row by row.
pub fn values(matrix: &Matrix) -> Vec<f32> {
    cpu().to_host(matrix).unwrap()
}

/// Asserts that every value is within `units` roundings of a type of what is wanted, at the size of the largest value.
///
/// # Panics
/// If one is not.
#[track_caller]
pub fn assert_close(what: &str, kind: Type, units: f32, found: &[f32], wanted: &[f32]) {
    assert_eq!(found.len(), wanted.len(), "{what}");
    let largest = wanted.iter().fold(0.0f32, |largest, x| largest.max(x.abs()));
    let unit = match kind {
        Type::F32 => f32::EPSILON,
        Type::Bf16 => 1.0 / 256.0,
    };
    let limit = units * unit * largest;
    for (at, (found, wanted)) in found.iter().zip(wanted).enumerate() {
        // NaN is not close.
        assert!((found - wanted).abs() <= limit, "{what}: value {at}: {found} for {wanted}, limit {limit:e}");
    }
}
