//! Kernels for NVIDIA's GPUs: products by a library, everything that is bound by memory by Evenkeel's own kernels
//! (`evenkeel-kernels`), and attention by cuDNN or by blocks of queries out of both.
//!
//! The host's side is written over a [`Device`]: candle's (`CandleDevice`, with the feature `cuda`), one that only
//! counts ([`Counter`]), and in the tests of `evenkeel-kernel-checks` one that runs the same kernels on a CPU. So
//! everything but the calls of NVIDIA's libraries is compiled and tested without any of them.
//!
//! Activations are in the compute type; norms, softmaxes, log-probabilities and all sums are computed in fp32. Scores,
//! logits and gradients of parameters are fp32 in memory too. Equal launches give equal bits. A row of a product
//! may depend on how many rows are computed with it: the library chooses its algorithm by shape.

mod attention;
mod blocks;
#[cfg(feature = "cuda")]
mod candle;
mod count;
#[cfg(feature = "cuda")]
mod cublaslt;
#[cfg(feature = "cuda")]
mod cudnn;
mod device;
mod fused;
mod head;
mod host_update;
mod joined;
mod library;
mod linear;
mod matrix;
mod norm;
mod optimizer;
mod rotary;
mod rows;
mod sequences;
#[cfg(any(feature = "cuda", test))]
mod staging;
mod swiglu;
#[cfg(feature = "cuda")]
mod times;

#[cfg(feature = "cuda")]
pub use candle::CandleDevice;
#[cfg(feature = "cuda")]
pub(crate) use candle::attention_library;
pub use count::{Counter, DeviceCounts, Tally};
pub use device::{Device, DeviceStream};
pub use evenkeel_kernels::DeviceProperties;
pub use head::Kept;
pub use library::{AttentionFallback, AttentionLibrary};
pub use matrix::{Gradient, Matrix};
pub use rotary::RotaryTable;
#[cfg(feature = "cuda")]
pub use times::KernelTime;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use candle_core::{DType, Tensor, TensorId};
use evenkeel_errors::FieldError;
use evenkeel_kernels::{ColumnSum, Launch, Pointer, Product, RowCopy, Type, add, cast, columns};

use super::{Arrays, AttentionOptions, OptimizerKernels, Variants};
use crate::error::{ModelError, Result};
use matrix::floats;

/// Queries of a block, if none is set: scores of 16 heads over 4,096 keys take 128 MiB.
const ATTENTION_BLOCK: usize = 512;

/// The kernels on a device, in one compute type.
pub struct Cuda<D: Device> {
    device: D,
    kind: Type,
    attention_block: usize,
    attention: AttentionOptions,
    variants: Variants,
    /// Weights in the compute type that stay, by the parameters that are below each other in them.
    kept_weights: Mutex<HashMap<Vec<TensorId>, Arc<D::Memory>>>,
    /// Values of a moment that are on the device at a time, if moments are in host memory; a multiple of 4.
    moment_piece: usize,
    /// The last positions that were uploaded: every layer of a pass has the same.
    positions: Mutex<Option<(Vec<u32>, D::Memory)>>,
    /// The last lengths and offsets, for the same reason.
    layouts: Mutex<Vec<Arc<fused::Layout<D::Memory>>>>,
}

impl<D: Device> Cuda<D> {
    /// Kernels that compute in F32 or BF16.
    ///
    /// # Errors
    /// Another type.
    pub fn new(device: D, compute: DType) -> Result<Self> {
        let kind = match compute {
            DType::F32 => Type::F32,
            DType::BF16 => Type::Bf16,
            other => return Err(ModelError::input("compute type", format!("{other:?}"), "F32 or BF16")),
        };
        Ok(Self {
            device,
            kind,
            attention_block: ATTENTION_BLOCK,
            attention: AttentionOptions::default(),
            variants: Variants::default(),
            kept_weights: Mutex::default(),
            moment_piece: host_update::PIECE,
            positions: Mutex::default(),
            layouts: Mutex::default(),
        })
    }

    /// Sets the number of queries in a block: larger ones need more memory for scores, smaller ones more launches.
    ///
    /// # Errors
    /// A block of 0.
    pub fn with_attention_block(self, queries: usize) -> Result<Self> {
        match queries {
            0 => Err(ModelError::input("queries of a block of attention", 0, "1 or more")),
            attention_block => Ok(Self { attention_block, ..self }),
        }
    }

    /// Sets how many values a piece of moments in host memory has.
    ///
    /// # Errors
    /// 0, or no multiple of 4: each piece begins at an address that is divisible by 16.
    pub fn with_moment_piece(self, values: usize) -> Result<Self> {
        if values > 0 && values.is_multiple_of(4) {
            Ok(Self { moment_piece: values, ..self })
        } else {
            Err(ModelError::input("values of a piece of moments", values, "a multiple of 4, above 0"))
        }
    }

    /// Turns on variants that are off by default.
    #[must_use]
    pub fn with_variants(self, variants: Variants) -> Self {
        Self { variants, ..self }
    }

    /// The device that computes.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// Memory for activations that are about to be written.
    fn blank(&self, rows: usize, width: usize) -> Result<Matrix<D::Memory>> {
        self.blank_of(self.kind, rows, width)
    }

    fn blank_of(&self, kind: Type, rows: usize, width: usize) -> Result<Matrix<D::Memory>> {
        let memory = self.device.allocate(rows * width * kind.size())?;
        Ok(Matrix::new(self.device.address(&memory), memory, kind, [rows, width]))
    }

    fn run(&self, launch: Result<Launch, FieldError>) -> Result<()> {
        self.device.launch(&launch.map_err(ModelError::Input)?)
    }

    /// A product without rows, columns or terms changes nothing: its result is empty, or what it is added to.
    fn multiply(&self, product: Product) -> Result<()> {
        product.validate().map_err(ModelError::Input)?;
        let is_empty = product.flops() == 0;
        if is_empty { Ok(()) } else { self.device.multiply(&product) }
    }

    /// A parameter in the compute type: where it is, or cast.
    fn weight(&self, parameter: &Tensor) -> Result<Weight<D::Memory>> {
        let kind = type_of(parameter)?;
        if self.kind == kind {
            return Ok(Weight { at: self.device.parameter(parameter, kind)?, _memory: None });
        }
        self.weights(&[parameter])
    }

    /// Matrices of equal width in the compute type, one below the other.
    fn weights(&self, parameters: &[&Tensor]) -> Result<Weight<D::Memory>> {
        let key: Vec<TensorId> = parameters.iter().map(|parameter| parameter.id()).collect();
        let mut kept = self.kept_weights.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(memory) = kept.get(&key) {
            return Ok(Weight { at: self.device.address(memory), _memory: Some(Arc::clone(memory)) });
        }
        let count: usize = parameters.iter().map(|parameter| parameter.elem_count()).sum();
        let memory = Arc::new(self.device.allocate(count * self.kind.size())?);
        let at = self.device.address(&memory);
        let mut to = at;
        for parameter in parameters {
            let kind = type_of(parameter)?;
            let count = parameter.elem_count();
            let from = self.device.parameter(parameter, kind)?;
            let properties = self.device.properties();
            if kind == self.kind {
                let (rows, width) = parameter.dims2()?;
                self.run(columns(properties, RowCopy { kind, rows, width }, from, to, [width; 2]))?;
            } else {
                self.run(cast(properties, count, (kind, from), (self.kind, to)))?;
            }
            to.0 += (count * self.kind.size()) as u64;
        }
        if self.variants.lean_memory {
            kept.insert(key, Arc::clone(&memory));
        }
        Ok(Weight { at, _memory: Some(memory) })
    }

    fn upload_ids(&self, ids: &[u32]) -> Result<D::Memory> {
        self.device.upload(&ids.iter().flat_map(|id| id.to_ne_bytes()).collect::<Vec<_>>())
    }

    fn upload_floats(&self, values: &[f32]) -> Result<D::Memory> {
        self.device.upload(&values.iter().flat_map(|value| value.to_ne_bytes()).collect::<Vec<_>>())
    }

    fn add_columns(&self, sum: ColumnSum, x: Pointer, to: &Gradient<D::Memory>) -> Result<()> {
        let properties = self.device.properties();
        let workspace = self.device.allocate(4 * sum.workspace(properties))?;
        let launches =
            sum.launches(properties, x, to.at(), self.device.address(&workspace)).map_err(ModelError::Input)?;
        launches.iter().try_for_each(|launch| self.device.launch(launch))
    }
}

/// A parameter in the compute type, until the product that reads it is launched.
struct Weight<M> {
    at: Pointer,
    _memory: Option<Arc<M>>,
}

/// The type that a parameter is held in.
fn type_of(parameter: &Tensor) -> Result<Type> {
    match parameter.dtype() {
        DType::F32 => Ok(Type::F32),
        DType::BF16 => Ok(Type::Bf16),
        other => {
            Err(ModelError::input("type of a parameter", format!("{other:?}"), "F32, or BF16 for a frozen matrix"))
        }
    }
}

/// A failure of the driver or of one of its libraries.
#[cfg(feature = "cuda")]
fn failed(error: impl std::fmt::Display) -> ModelError {
    candle_core::Error::msg(error).into()
}

impl<D: Device> Arrays for Cuda<D> {
    type Matrix = Matrix<D::Memory>;
    type Gradient = Gradient<D::Memory>;

    fn zero_gradient(&self, parameter: &Tensor) -> Result<Self::Gradient> {
        let count = parameter.elem_count();
        let memory = self.device.zeros(4 * count)?;
        Ok(Gradient::new(self.device.address(&memory), memory, count))
    }

    fn add_gradient(&self, into: &mut Self::Gradient, other: Self::Gradient) -> Result<()> {
        self.run(add(self.device.properties(), into.count(), into.at(), other.at()))
    }

    fn gradient_tensor(&self, gradient: Self::Gradient, parameter: &Tensor) -> Result<Tensor> {
        self.device.tensor(gradient.into_memory(), parameter.shape())
    }

    fn optimizer(&self) -> Option<&dyn OptimizerKernels> {
        Some(self)
    }

    fn forget_weights(&self) {
        self.kept_weights.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn to_host(&self, matrix: &Self::Matrix) -> Result<Vec<f32>> {
        let bytes = self.device.download(matrix.memory(), matrix.values() * matrix.kind().size())?;
        Ok(floats(matrix.kind(), &bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compute_type_without_kernels_is_refused_with_those_that_have() {
        for compute in [DType::F16, DType::F64, DType::U8] {
            let refused =
                Cuda::new(Counter::new(DeviceProperties { multiprocessors: 1 }), compute).err().unwrap().to_string();
            assert_eq!(refused, format!("compute type is {compute:?}, allowed: F32 or BF16"));
        }
    }
}
