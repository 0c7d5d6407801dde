//! Opening a GPU.

use candle_core::Device;

use crate::error::{ModelError, Result};

/// Opens a GPU by its number, with a stream of its own: each thread has its own default stream, and those are not ordered.
///
/// # Errors
/// A build without the feature `cuda`; no driver or one older than the libraries; a missing library, with the places that were searched; no
/// such device, or one with a compute capability below 8.0.
pub fn cuda_device(number: usize) -> Result<Device> {
    usable(number).and_then(|()| open(number).map_err(|error| error.to_string())).map_err(|reason| {
        ModelError::input("device", format!("cuda:{number}"), format!("a device that can be used ({reason})"))
    })
}

#[cfg(not(feature = "cuda"))]
fn open(number: usize) -> candle_core::Result<Device> {
    Device::new_cuda_with_stream(number)
}

/// Opens it without what one stream needs not: events for each array. Memory that is freed is kept for the next step.
#[cfg(feature = "cuda")]
fn open(number: usize) -> candle_core::Result<Device> {
    use candle_core::cuda_backend::cudarc::driver::{result, sys::CUmemPool_attribute as Attribute};

    let device = Device::new_cuda_with_stream(number)?;
    let gpu = device.as_cuda_device()?;
    let stream = gpu.cuda_stream();
    // SAFETY: all work on this device goes to its one stream, in which memory is also allocated and freed. Copies from and to the host beside
    // it (`kernels::cuda::Lane`) are ordered by events of their own.
    unsafe { gpu.disable_event_tracking() };
    let mut most = u64::MAX;
    // SAFETY: the device's own pool; the attribute is a u64 of bytes that the pool keeps.
    let kept = unsafe {
        result::device::get_default_mem_pool(stream.context().cu_device()).and_then(|pool| {
            let threshold = Attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
            result::mem_pool::set_attribute(pool, threshold, (&raw mut most).cast())
        })
    };
    // A device without pools gives memory back at once.
    if let Err(error) = kept {
        tracing::warn!(%error, "freed memory of the device is not kept");
    }
    Ok(device)
}

/// Bytes of a GPU's memory that are free; `None` for a CPU.
///
/// # Errors
/// The driver does not answer.
pub fn free_memory(device: &Device) -> Result<Option<u64>> {
    match device {
        #[cfg(feature = "cuda")]
        Device::Cuda(gpu) => {
            let stream = gpu.cuda_stream();
            let (free, _) = stream.context().mem_get_info().map_err(candle_core::Error::wrap)?;
            Ok(Some(free as u64))
        }
        _ => Ok(None),
    }
}

/// cuDNN's version, if it computes attention on this device; or why it does not.
///
/// # Errors
/// The reason: a CPU, another compute capability, a missing library or another version.
pub fn attention_library(device: &Device) -> std::result::Result<String, String> {
    match device {
        #[cfg(feature = "cuda")]
        Device::Cuda(gpu) => crate::kernels::cuda::attention_library(gpu),
        _ => Err("cuDNN computes on GPUs".into()),
    }
}

/// Gives back what the pool of a GPU keeps for later, so that another process can have it. What is in use stays.
///
/// # Errors
/// The driver fails.
pub fn release_unused(device: &Device) -> Result<()> {
    match device {
        #[cfg(feature = "cuda")]
        Device::Cuda(gpu) => {
            use candle_core::cuda_backend::cudarc::driver::result;

            let stream = gpu.cuda_stream();
            // What was freed in the order of the stream is free only when the stream has reached that point.
            stream.synchronize().map_err(candle_core::Error::wrap)?;
            // SAFETY: the device's own pool, as in `open`.
            let trimmed = unsafe {
                result::device::get_default_mem_pool(stream.context().cu_device())
                    .and_then(|pool| result::mem_pool::trim_to(pool, 0))
            };
            Ok(trimmed.map_err(candle_core::Error::wrap)?)
        }
        _ => Ok(()),
    }
}

/// Names what is missing. Without the check candle's first call of a library that is not there would end the process.
#[cfg(feature = "cuda")]
fn usable(number: usize) -> Result<(), String> {
    let driver = evenkeel_cuda::require().map_err(|error| error.to_string())?;
    driver.check_device(number).map_err(|error| error.to_string())
}

#[cfg(not(feature = "cuda"))]
fn usable(_: usize) -> Result<(), String> {
    Err("this build has no CUDA; one with --features cuda has".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_that_cannot_be_used_is_refused_with_the_reason() {
        if let Err(reason) = usable(3) {
            let error = cuda_device(3).unwrap_err().to_string();
            assert!(error.starts_with("device is cuda:3, allowed: a device that can be used"), "{error}");
            assert!(error.contains(&reason), "{error}");
        }
    }
}
