//! Page-locked memory of the host, which a GPU copies from and to by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use candle_core::backend::BackendStorage;
use candle_core::cuda_backend::cudarc::driver::{CudaStream, DevicePtr, DriverError, result};
use candle_core::{CudaDevice, CudaStorage, DType};

use crate::error::{ModelError, Result};
use crate::failure::DeviceFailure;

/// Bytes that this process has page-locked.
static LOCKED: AtomicU64 = AtomicU64::new(0);

/// A buffer of bytes.
pub(crate) struct PinnedBytes {
    at: *mut u8,
    bytes: usize,
    stream: Arc<CudaStream>,
}

// SAFETY: the memory belongs to this value alone, and no thread owns it.
unsafe impl Send for PinnedBytes {}
// SAFETY: as above; a shared borrow only reads.
unsafe impl Sync for PinnedBytes {}

impl PinnedBytes {
    /// This many zeros.
    ///
    /// # Errors
    /// The system gives no more memory that can be page-locked.
    pub(crate) fn new(gpu: &CudaDevice, bytes: usize) -> Result<Self> {
        let stream = gpu.cuda_stream();
        let failed = |error: DriverError| match DeviceFailure::named_in(&error.to_string()) {
            Some(failure) => ModelError::Device(failure),
            None => ModelError::out_of_memory("page-locked memory of the host", bytes as u64, lock_refused(&error)),
        };
        stream.context().bind_to_thread().map_err(candle_core::Error::wrap)?;
        // SAFETY: at least one byte, freed once by `drop`.
        let at = unsafe { result::malloc_host(bytes.max(1), 0) }.map_err(failed)?.cast::<u8>();
        // SAFETY: as many bytes as were just allocated.
        unsafe { at.write_bytes(0, bytes) };
        LOCKED.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(Self { at, bytes, stream })
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        // SAFETY: initialised memory of this value.
        unsafe { std::slice::from_raw_parts(self.at, self.bytes) }
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as above, borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.at, self.bytes) }
    }

    /// Copies some values of a tensor here, and waits until they have arrived.
    ///
    /// # Errors
    /// Another type than F32, BF16 and F16, more values than there is room for, or a failure of the device.
    pub(crate) fn copy(&mut self, values: &CudaStorage, first: usize, end: usize) -> Result<&[u8]> {
        let stream = self.stream.clone();
        let size = values.dtype().size_in_bytes();
        let at = match values.dtype() {
            DType::F32 => values.as_cuda_slice::<f32>()?.device_ptr(&stream).0,
            DType::BF16 => values.as_cuda_slice::<half::bf16>()?.device_ptr(&stream).0,
            DType::F16 => values.as_cuda_slice::<half::f16>()?.device_ptr(&stream).0,
            other => {
                return Err(ModelError::input("values to copy to the host", format!("{other:?}"), "F32, BF16 or F16"));
            }
        };
        let bytes = (end - first) * size;
        let room = self.bytes;
        if bytes > room {
            return Err(ModelError::input("bytes to copy to the host", bytes, format!("up to {room}")));
        }
        let to = &mut self.as_mut_slice()[..bytes];
        // SAFETY: the range is within the tensor, whose storage the caller borrows; the copy has ended when this
        // returns.
        unsafe { result::memcpy_dtoh_async(to, at + (first * size) as u64, stream.cu_stream()) }
            .and_then(|()| stream.synchronize())
            .map_err(candle_core::Error::wrap)?;
        Ok(&self.as_slice()[..bytes])
    }
}

impl PinnedBytes {
    /// The bytes as fp32 values.
    pub(crate) fn floats(&self) -> &[f32] {
        // SAFETY: initialised memory of this value that begins at a page; every four bytes are an fp32 value.
        unsafe { std::slice::from_raw_parts(self.at.cast(), self.bytes / 4) }
    }

    /// The floats, to be changed.
    pub(crate) fn floats_mut(&mut self) -> &mut [f32] {
        // SAFETY: as above, borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.at.cast(), self.bytes / 4) }
    }
}

/// Why no more could be page-locked. What a machine has free says little about it: a virtual machine or a container may
/// allow a part alone.
fn lock_refused(error: &DriverError) -> String {
    let locked = LOCKED.load(Ordering::Relaxed);
    format!(
        "{error}; {locked} bytes are page-locked already, and a virtual machine or a container may allow no more, \
        whatever is free"
    )
}

impl Drop for PinnedBytes {
    fn drop(&mut self) {
        LOCKED.fetch_sub(self.bytes as u64, Ordering::Relaxed);
        // SAFETY: allocated by `new`, and freed here only. Copies have ended: the wait is here, or in
        // `Device::settle`.
        let freed = self.stream.context().bind_to_thread().and_then(|()| unsafe { result::free_host(self.at.cast()) });
        if let Err(error) = freed {
            tracing::warn!(%error, "page-locked memory was not freed");
        }
    }
}
