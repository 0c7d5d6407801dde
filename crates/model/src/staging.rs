//! Memory of the host through which tensors leave their device: page-locked where that is a GPU, which copies from and
//! to such memory at the full speed of its bus.

use candle_core::{CpuStorage, DType, Device, Storage, Tensor};
use half::{bf16, f16};

use crate::error::{ModelError, Result};
#[cfg(feature = "cuda")]
use crate::pinned::PinnedBytes;

/// A buffer that pieces of tensors are copied to, one after the other.
pub(crate) struct Staging {
    bytes: Vec<u8>,
    #[cfg(feature = "cuda")]
    pinned: Option<PinnedBytes>,
}

impl Staging {
    /// A buffer of this many bytes for tensors of a device.
    ///
    /// # Errors
    /// No more memory that can be page-locked.
    pub(crate) fn new(device: &Device, bytes: usize) -> Result<Self> {
        match device {
            #[cfg(feature = "cuda")]
            Device::Cuda(gpu) => Ok(Self { bytes: Vec::new(), pinned: Some(PinnedBytes::new(gpu, bytes)?) }),
            _ => Ok(Self {
                bytes: Vec::with_capacity(bytes),
                #[cfg(feature = "cuda")]
                pinned: None,
            }),
        }
    }

    /// The bytes of values of the host in a type, little-endian.
    ///
    /// # Errors
    /// Another type than F32, BF16 and F16.
    pub(crate) fn convert(&mut self, values: &[f32], dtype: DType) -> Result<&[u8]> {
        match dtype {
            DType::F32 => self.fill(values, f32::to_le_bytes),
            DType::BF16 => self.fill(values, |value| bf16::from_f32(value).to_le_bytes()),
            DType::F16 => self.fill(values, |value| f16::from_f32(value).to_le_bytes()),
            other => return Err(refused(other, values.len())),
        }
        Ok(&self.bytes)
    }

    /// The bytes of a contiguous fp32 tensor in a type, little-endian, converted where it lies.
    ///
    /// # Errors
    /// A tensor that is not contiguous, of another type than fp32, or to be copied as another one than F32, BF16 and
    /// F16, or larger than the buffer of a GPU; a failure of the device.
    pub(crate) fn copy(&mut self, tensor: &Tensor, dtype: DType) -> Result<&[u8]> {
        let converted;
        let tensor = if tensor.device().is_cpu() {
            tensor
        } else {
            converted = tensor.to_dtype(dtype)?;
            &converted
        };
        let refused = || refused(tensor.dtype(), tensor.elem_count());
        let (storage, layout) = tensor.storage_and_layout();
        let (first, end) = layout.contiguous_offsets().ok_or_else(refused)?;
        match &*storage {
            Storage::Cpu(CpuStorage::F32(values)) => self.convert(&values[first..end], dtype),
            #[cfg(feature = "cuda")]
            Storage::Cuda(values) => self.pinned.as_mut().ok_or_else(refused)?.copy(values, first, end),
            _ => Err(refused()),
        }
    }

    /// Without a branch in the loop, so that it is compiled to vector instructions.
    fn fill<const N: usize>(&mut self, values: &[f32], bytes: impl Fn(f32) -> [u8; N]) {
        let length = N * values.len();
        if self.bytes.len() < length {
            self.bytes.resize(length, 0);
        }
        self.bytes.truncate(length);
        for (to, &value) in self.bytes.as_chunks_mut().0.iter_mut().zip(values) {
            *to = bytes(value);
        }
    }
}

fn refused(dtype: DType, count: usize) -> ModelError {
    let found = format!("{count} values of {dtype:?}");
    let allowed = "contiguous fp32 values that fit the buffer, as F32, BF16 or F16";
    ModelError::input("values to copy to the host", found, allowed)
}
