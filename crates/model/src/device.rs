//! Opening a GPU.

use candle_core::Device;

use crate::error::{ModelError, Result};

/// Opens a GPU by its number, with a stream of its own: each thread has its own default stream, and those are not ordered.
///
/// # Errors
/// A build without the feature `cuda`; no driver or one older than the libraries; a missing library, with the places that were searched; no
/// such device.
pub fn cuda_device(number: usize) -> Result<Device> {
    usable().and_then(|()| Device::new_cuda_with_stream(number).map_err(|error| error.to_string())).map_err(|reason| {
        ModelError::input("device", format!("cuda:{number}"), format!("a device that can be used ({reason})"))
    })
}

/// Names what is missing. Without the check candle's first call of a library that is not there would end the process.
#[cfg(feature = "cuda")]
fn usable() -> Result<(), String> {
    evenkeel_cuda::require().map(drop).map_err(|error| error.to_string())
}

#[cfg(not(feature = "cuda"))]
fn usable() -> Result<(), String> {
    Err("this build has no CUDA; one with --features cuda has".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_that_cannot_be_used_is_refused_with_the_reason() {
        if let Err(reason) = usable() {
            let error = cuda_device(3).unwrap_err().to_string();
            assert!(error.starts_with("device is cuda:3, allowed: a device that can be used"), "{error}");
            assert!(error.contains(&reason), "{error}");
        }
    }
}
