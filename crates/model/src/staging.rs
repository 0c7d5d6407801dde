//! Memory of the host through which tensors leave their device: page-locked where that is a GPU, which copies from and to such memory at the
//! full speed of its bus.

use candle_core::{CpuStorage, DType, Device, Storage, Tensor};

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
    /// A buffer of so many bytes for tensors of a device.
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

    /// The bytes of a contiguous piece, in the order of its values, little-endian.
    ///
    /// # Errors
    /// A piece that is not contiguous, of another type than F32, BF16 and F16, or larger than the buffer of a GPU; a failure of the device.
    pub(crate) fn copy(&mut self, piece: &Tensor) -> Result<&[u8]> {
        let (storage, layout) = piece.storage_and_layout();
        let (first, end) = layout.contiguous_offsets().ok_or_else(|| refused(piece))?;
        self.bytes.clear();
        match &*storage {
            Storage::Cpu(CpuStorage::F32(values)) => self.fill(&values[first..end], |value| value.to_le_bytes()),
            Storage::Cpu(CpuStorage::BF16(values)) => self.fill(&values[first..end], |value| value.to_le_bytes()),
            Storage::Cpu(CpuStorage::F16(values)) => self.fill(&values[first..end], |value| value.to_le_bytes()),
            #[cfg(feature = "cuda")]
            Storage::Cuda(values) => {
                let pinned = self.pinned.as_mut().ok_or_else(|| refused(piece))?;
                return pinned.copy(values, first, end);
            }
            _ => return Err(refused(piece)),
        }
        Ok(&self.bytes)
    }

    fn fill<T: Copy, const N: usize>(&mut self, values: &[T], bytes: impl Fn(T) -> [u8; N]) {
        self.bytes.resize(N * values.len(), 0);
        for (to, &value) in self.bytes.as_chunks_mut().0.iter_mut().zip(values) {
            *to = bytes(value);
        }
    }
}

fn refused(piece: &Tensor) -> ModelError {
    let found = format!("{:?} of {} values", piece.dtype(), piece.elem_count());
    let kinds = [DType::F32, DType::BF16, DType::F16];
    ModelError::input(
        "values to copy to the host",
        found,
        format!("contiguous values of {kinds:?} that fit the buffer"),
    )
}
