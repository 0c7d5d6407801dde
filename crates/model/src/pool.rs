//! The pool that all memory of a GPU comes from.

use candle_core::CudaDevice;
use candle_core::cuda_backend::cudarc::driver::sys::{CUmemPool_attribute as Attribute, CUmemoryPool};
use candle_core::cuda_backend::cudarc::driver::{DriverError, result};

/// A device's own pool, for as long as the device is open.
pub(crate) struct Pool(CUmemoryPool);

impl Pool {
    /// # Errors
    /// A device without pools.
    pub(crate) fn of(gpu: &CudaDevice) -> Result<Self, DriverError> {
        // SAFETY: a device that is open.
        unsafe { result::device::get_default_mem_pool(gpu.cuda_stream().context().cu_device()) }.map(Self)
    }

    /// Keeps whatever is freed for later.
    pub(crate) fn keep_all(&self) -> Result<(), DriverError> {
        self.set(Attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, u64::MAX)
    }

    /// Gives back what is not in use.
    pub(crate) fn trim(&self) -> Result<(), DriverError> {
        // SAFETY: the pool of an open device.
        unsafe { result::mem_pool::trim_to(self.0, 0) }
    }

    /// Bytes that it holds, in use or kept.
    pub(crate) fn held(&self) -> Result<u64, DriverError> {
        self.get(Attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)
    }

    /// The most bytes that it has held at a time.
    pub(crate) fn peak(&self) -> Result<u64, DriverError> {
        self.get(Attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH)
    }

    /// Resets the peak to what is held now.
    pub(crate) fn reset_peak_memory(&self) -> Result<(), DriverError> {
        // The only value that the driver takes for it.
        self.set(Attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, 0)
    }

    fn get(&self, attribute: Attribute) -> Result<u64, DriverError> {
        let mut value = 0u64;
        // SAFETY: the pool of an open device; the attributes that this is called for are a u64 of bytes.
        unsafe { result::mem_pool::get_attribute(self.0, attribute, (&raw mut value).cast()) }.map(|()| value)
    }

    fn set(&self, attribute: Attribute, mut value: u64) -> Result<(), DriverError> {
        // SAFETY: as in `get`.
        unsafe { result::mem_pool::set_attribute(self.0, attribute, (&raw mut value).cast()) }
    }
}
