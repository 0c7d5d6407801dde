//! Opens a GPU and reports what it is.

use std::fmt::Display;

#[cfg(feature = "cuda")]
use candle_core::Tensor;
use candle_core::{DType, Device};
use evenkeel_cuda::CudaUnavailable;
#[cfg(feature = "cuda")]
use evenkeel_cuda::answered;
use evenkeel_kernels::Type;

use crate::error::{ModelError, Result};
use crate::kernels::AttentionOptions;
use crate::kernels::cuda::{AttentionFallback, AttentionLibrary};
#[cfg(feature = "cuda")]
use crate::pool::Pool;

/// Opens a GPU by its number, with a stream of its own: each thread has its own default stream, and those are not
/// ordered.
///
/// # Errors
/// A build without the feature `cuda`; no driver or one older than the libraries; a missing library, with the places
/// that were searched; no such device, one with a compute capability below 8.0, or one that does not answer within a
/// minute.
pub fn cuda_device(number: usize) -> Result<Device> {
    let refused = |reason: &dyn Display| {
        ModelError::input("device", format!("cuda:{number}"), format!("a device that can be used ({reason})"))
    };
    usable(number).map_err(|reason| refused(&reason))?;
    open(number).map_err(|error| refused(&opening(&error.to_string())))
}

/// What a failure to open a device says, and what it means where several processes use one.
fn opening(error: &str) -> String {
    let meaning = if error.contains("CUDA_ERROR_DEVICE_UNAVAILABLE") {
        "another process has it to itself (compute mode Exclusive_Process), or the driver gives no access to it: "
    } else if error.contains("CUDA_ERROR_OUT_OF_MEMORY") {
        "other processes leave it no memory even for the driver: "
    } else {
        ""
    };
    format!("{meaning}{error}")
}

#[cfg(not(feature = "cuda"))]
fn open(number: usize) -> candle_core::Result<Device> {
    Device::new_cuda_with_stream(number)
}

/// Opens it in time, and binds its context to this thread.
#[cfg(feature = "cuda")]
fn open(number: usize) -> candle_core::Result<Device> {
    let opened = answered("opening the device", move || open_and_try(number)).map_err(candle_core::Error::wrap)?;
    let device = opened?;
    device.as_cuda_device()?.cuda_stream().context().bind_to_thread().map_err(candle_core::Error::wrap)?;
    Ok(device)
}

/// Opens it without an event for each array, which a single stream does not need. Freed memory is kept for the next
/// step.
#[cfg(feature = "cuda")]
fn open_and_try(number: usize) -> candle_core::Result<Device> {
    let device = Device::new_cuda_with_stream(number)?;
    let gpu = device.as_cuda_device()?;
    // SAFETY: all work on this device goes to its one stream, in which memory is also allocated and freed. Copies from
    // and to the host beside it (`kernels::cuda::DeviceStream`) are ordered by events of their own.
    unsafe { gpu.disable_event_tracking() };
    // A device without pools gives memory back at once.
    if let Err(error) = Pool::of(gpu).and_then(|pool| pool.keep_all()) {
        tracing::warn!(%error, "freed memory of the device is not kept");
    }
    // The first memory and copy; both would wait for ever on a device that hangs.
    Tensor::zeros(1, DType::F32, &device)?.to_vec1::<f32>()?;
    Ok(device)
}

/// The memory of a GPU, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuMemory {
    /// All that it has.
    pub total: u64,
    /// What any process can still get.
    pub free: u64,
    /// What the pool of this process holds, in use or kept for later. Only the driver and its libraries have memory in
    /// addition to it.
    pub held: u64,
    /// The most that the pool has held at a time, since the device was opened or [`reset_peak_memory`] was called. Both
    /// are 0 on a device without pools.
    pub peak: u64,
}

/// How much memory a GPU has, and what this process has of it; `None` for a CPU.
///
/// # Errors
/// The driver does not answer.
pub fn gpu_memory(device: &Device) -> Result<Option<GpuMemory>> {
    match device {
        #[cfg(feature = "cuda")]
        Device::Cuda(gpu) => {
            let (free, total) = gpu.cuda_stream().context().mem_get_info().map_err(candle_core::Error::wrap)?;
            let of_pool = Pool::of(gpu).and_then(|pool| Ok((pool.held()?, pool.peak()?)));
            let (held, peak) = of_pool.unwrap_or_default();
            Ok(Some(GpuMemory { total: total as u64, free: free as u64, held, peak }))
        }
        _ => Ok(None),
    }
}

/// Resets [`GpuMemory::peak`] to what is held now.
///
/// # Errors
/// The driver fails.
pub fn reset_peak_memory(device: &Device) -> Result<()> {
    match device {
        #[cfg(feature = "cuda")]
        Device::Cuda(gpu) => {
            Ok(Pool::of(gpu).and_then(|pool| pool.reset_peak_memory()).map_err(candle_core::Error::wrap)?)
        }
        _ => Ok(()),
    }
}

/// cuDNN, if it computes attention on this device, in this type and over heads of this width; or why it does not.
///
/// # Errors
/// Options, a type or a width for which it is not used; a CPU, another compute capability, a missing library or another
/// version.
pub fn attention_library(
    device: &Device,
    compute: DType,
    options: AttentionOptions,
    head_dim: usize,
) -> Result<AttentionLibrary, AttentionFallback> {
    let kind = if compute == DType::BF16 { Type::Bf16 } else { Type::F32 };
    if let Some(reason) = AttentionFallback::of(options, kind, head_dim) {
        return Err(reason);
    }
    match device {
        #[cfg(feature = "cuda")]
        Device::Cuda(gpu) => crate::kernels::cuda::attention_library(gpu),
        _ => Err(AttentionFallback::NoGpu),
    }
}

/// Gives back what the pool of a GPU keeps for later, so that another process can have it. What is in use stays.
///
/// # Errors
/// The driver fails.
pub fn empty_cache(device: &Device) -> Result<()> {
    match device {
        #[cfg(feature = "cuda")]
        Device::Cuda(gpu) => {
            // What was freed in the order of the stream is free only when the stream has reached that point.
            gpu.cuda_stream().synchronize().map_err(candle_core::Error::wrap)?;
            Ok(Pool::of(gpu).and_then(|pool| pool.trim()).map_err(candle_core::Error::wrap)?)
        }
        _ => Ok(()),
    }
}

/// Names what is missing. Without this check candle's first call of a missing library would end the process.
#[cfg(feature = "cuda")]
fn usable(number: usize) -> Result<(), CudaUnavailable> {
    Ok(evenkeel_cuda::require()?.check_device(number)?)
}

#[cfg(not(feature = "cuda"))]
fn usable(_: usize) -> Result<(), CudaUnavailable> {
    Err(CudaUnavailable::NotBuilt)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_has_no_pool_to_measure_or_to_trim() {
        assert_eq!(gpu_memory(&Device::Cpu).unwrap(), None);
        reset_peak_memory(&Device::Cpu).unwrap();
        empty_cache(&Device::Cpu).unwrap();
    }

    #[test]
    fn a_device_that_another_process_has_is_refused_in_these_words() {
        let opened = |name: &str| opening(&format!("DriverError({name}, \"what the driver says\")"));
        assert_eq!(
            opened("CUDA_ERROR_DEVICE_UNAVAILABLE"),
            "another process has it to itself (compute mode Exclusive_Process), or the driver gives no access to it: \
             DriverError(CUDA_ERROR_DEVICE_UNAVAILABLE, \"what the driver says\")"
        );
        assert!(opened("CUDA_ERROR_OUT_OF_MEMORY").starts_with("other processes leave it no memory"));
        assert_eq!(opened("CUDA_ERROR_NO_DEVICE"), "DriverError(CUDA_ERROR_NO_DEVICE, \"what the driver says\")");
    }

    #[test]
    fn a_gpu_that_cannot_be_used_is_refused_with_the_reason() {
        if let Err(reason) = usable(3) {
            let error = cuda_device(3).unwrap_err().to_string();
            assert!(error.starts_with("device is cuda:3, allowed: a device that can be used"), "{error}");
            assert!(error.contains(&reason.to_string()), "{error}");
        }
    }
}
