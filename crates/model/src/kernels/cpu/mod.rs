//! Fused kernels over f32 slices, one thread each: parallelism is over micro-batches (training) and sequences
//! (decoding), never inside a kernel, where two threads would spend more time waiting for each other than computing.

mod attention;
mod cached_attention;
mod head;
mod in_order;
mod linear;
mod matmul;
mod matrix;
mod norm;
mod rotary;
mod rows;
mod rows_of_weights;
mod simd;
mod sums;
mod swiglu;
mod view;
#[cfg(target_arch = "x86_64")]
mod wide;

pub use cached_attention::Cache;
pub(crate) use head::Normalizer;
pub use matmul::reads_weights_by_rows;
pub use matrix::Matrix;
pub use rotary::RotaryTable;

use candle_core::{CpuStorage, Storage, Tensor};

use super::Arrays;
use crate::error::{ModelError, Result};

/// A name for the bits of these kernels: decoding and training with them agree to the bit, and so do two processes that
/// have the same name. It changes whenever the order of a sum does, or what a random number draws. Empty where this was
/// never looked at.
pub const ARITHMETIC: &str = if cfg!(target_arch = "x86_64") { "evenkeel-cpu-1" } else { "" };

/// The fused f32 kernels. They have no state but memory that is used again: activations in each thread, and sums
/// of gradients.
///
/// They give the same bits on every processor that they run on: each sum has one order, whatever the width of the
/// vectors, and the few logarithms and cosines are compiled in instead of taken from the C library.
#[derive(Clone, Copy, Debug)]
pub struct Cpu(());

impl Cpu {
    /// The kernels, if this processor can run them.
    ///
    /// # Errors
    /// [`ModelError::Input`] on an x86-64 processor below the level x86-64-v3 (Intel Haswell of 2013, AMD Excavator of
    /// 2015), since without fused multiply-adds every result would differ in its last bits, and on one that has AVX-512
    /// only in part.
    pub fn new() -> Result<Self> {
        match missing_instructions() {
            missing if missing.is_empty() => Ok(Self(())),
            missing => {
                let found = format!("an x86-64 without {}", missing.join(", "));
                Err(ModelError::input("processor", found, "x86-64-v3 or later (AVX2, BMI, FMA, LZCNT)"))
            }
        }
    }
}

/// The widest vectors that the kernels use on this processor, for logs: results do not depend on them.
pub fn instructions() -> &'static str {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") {
        return "AVX-512";
    }
    if cfg!(target_arch = "x86_64") { "AVX2" } else { std::env::consts::ARCH }
}

/// Features of x86-64-v3 that the processor lacks, under their names in `/proc/cpuinfo`; none on other architectures.
fn missing_instructions() -> Vec<&'static str> {
    #[cfg(target_arch = "x86_64")]
    let found = [
        ("avx2", is_x86_feature_detected!("avx2")),
        ("bmi1", is_x86_feature_detected!("bmi1")),
        ("bmi2", is_x86_feature_detected!("bmi2")),
        ("fma", is_x86_feature_detected!("fma")),
        ("lzcnt", is_x86_feature_detected!("lzcnt")),
        ("popcnt", is_x86_feature_detected!("popcnt")),
    ];
    // The products use all of AVX-512 as soon as AVX-512F is present.
    #[cfg(target_arch = "x86_64")]
    let wide = [
        ("avx512bw", is_x86_feature_detected!("avx512bw")),
        ("avx512cd", is_x86_feature_detected!("avx512cd")),
        ("avx512dq", is_x86_feature_detected!("avx512dq")),
        ("avx512vl", is_x86_feature_detected!("avx512vl")),
    ]
    .map(|(name, there)| (name, there || !is_x86_feature_detected!("avx512f")));
    #[cfg(not(target_arch = "x86_64"))]
    let found: [(&str, bool); 0] = [];
    #[cfg(not(target_arch = "x86_64"))]
    let wide: [(&str, bool); 0] = [];
    found.into_iter().chain(wide).filter(|(_, there)| !there).map(|(name, _)| name).collect()
}

impl Arrays for Cpu {
    type Matrix = Matrix;
    type Gradient = Vec<f32>;
    const SERVES_THREADS: bool = true;

    fn zero_gradient(&self, parameter: &Tensor) -> Result<Vec<f32>> {
        Ok(sums::zeros(parameter.elem_count()))
    }

    fn prepare_gradients<'a>(&self, gradients: impl Iterator<Item = &'a mut Vec<f32>>) {
        sums::map(gradients);
    }

    fn add_gradient(&self, into: &mut Vec<f32>, other: Vec<f32>) -> Result<()> {
        simd::add(into, &other);
        sums::keep(other);
        Ok(())
    }

    fn gradient_tensor(&self, gradient: Vec<f32>, parameter: &Tensor) -> Result<Tensor> {
        Ok(Tensor::from_vec(gradient, parameter.shape(), parameter.device())?)
    }

    fn to_host(&self, matrix: &Matrix) -> Result<Vec<f32>> {
        Ok(matrix.to_vec())
    }
}

/// Calls back with the values of an fp32 CPU tensor from its first element on; the caller must respect strides.
fn with_values<R>(tensor: &Tensor, f: impl FnOnce(&[f32]) -> R) -> Result<R> {
    let (storage, layout) = tensor.storage_and_layout();
    match &*storage {
        Storage::Cpu(CpuStorage::F32(values)) => Ok(f(&values[layout.start_offset()..])),
        _ => Err(refused(tensor, "F32 on a CPU")),
    }
}

fn refused(tensor: &Tensor, allowed: &str) -> ModelError {
    let found = format!("{:?} on {:?}", tensor.dtype(), tensor.device().location());
    ModelError::input("tensor for the CPU kernels", found, allowed)
}
