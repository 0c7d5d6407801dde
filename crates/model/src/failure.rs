//! Failures of a GPU after which nothing that it holds can be used.

use std::fmt;

/// What the driver and its libraries call such a failure, and what it means. Every later call on the same device fails
/// as well, until the process ends: <https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TYPES.html>
/// (`CUresult`).
const FAILURES: [(&str, &str); 23] = [
    ("CUDA_ERROR_ECC_UNCORRECTABLE", "its memory has an error that ECC cannot correct"),
    ("CUDA_ERROR_NVLINK_UNCORRECTABLE", "its connection to another GPU has an error that cannot be corrected"),
    ("CUDA_ERROR_CONTAINED", "its memory had an error, which was contained to this process"),
    ("CUDA_ERROR_DEVICE_UNAVAILABLE", "the driver no longer gives access to it"),
    ("CUDA_ERROR_NO_DEVICE", "the driver no longer finds it"),
    ("CUDA_ERROR_EXTERNAL_DEVICE", "another device that it works with has failed"),
    ("CUDA_ERROR_DEINITIALIZED", "the driver is shutting down"),
    ("CUDA_ERROR_CONTEXT_IS_DESTROYED", "this process has lost its context on it"),
    ("CUDA_ERROR_MPS_CLIENT_TERMINATED", "the server that shares it has ended this process's work"),
    ("CUDA_ERROR_HARDWARE_STACK_ERROR", "its hardware found an error in a call stack"),
    ("CUDA_ERROR_LAUNCH_TIMEOUT", "a kernel ran for longer than the driver allows"),
    ("CUDA_ERROR_LAUNCH_FAILED", "a kernel failed while it ran"),
    ("CUDA_ERROR_ILLEGAL_ADDRESS", "a kernel read or wrote outside of its memory"),
    ("CUDA_ERROR_MISALIGNED_ADDRESS", "a kernel used an address that is not aligned"),
    ("CUDA_ERROR_INVALID_ADDRESS_SPACE", "a kernel used an address of another kind of memory"),
    ("CUDA_ERROR_ILLEGAL_INSTRUCTION", "a kernel has an instruction that it does not know"),
    ("CUDA_ERROR_INVALID_PC", "a kernel left its code"),
    ("CUDA_ERROR_ASSERT", "a kernel found a value that cannot be"),
    ("CUDA_ERROR_UNKNOWN", "an unknown error, as when it has fallen off the bus"),
    ("CUBLAS_STATUS_EXECUTION_FAILED", "a matrix product failed while it ran"),
    ("CUDNN_STATUS_EXECUTION_FAILED", "attention by cuDNN failed while it ran"),
    ("CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER", "attention by cuDNN failed in the driver"),
    ("CUDNN_STATUS_EXECUTION_FAILED_CUDART", "attention by cuDNN failed in the CUDA runtime"),
];

/// A GPU that failed: weights, moments and gradients on it are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub struct DeviceFailure {
    name: &'static str,
    meaning: &'static str,
}

impl DeviceFailure {
    /// The failure that an error's text names, as candle, the driver and its libraries write it; `None` if the device
    /// can still be used, as after an allocation that was refused.
    pub fn named_in(text: &str) -> Option<Self> {
        let is_word = |rest: &str| !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        let names = |name: &str| text.match_indices(name).any(|(at, _)| is_word(&text[at + name.len()..]));
        FAILURES.into_iter().find(|(name, _)| names(name)).map(|(name, meaning)| Self { name, meaning })
    }

    /// What the driver or the library calls it.
    pub fn name(&self) -> &'static str {
        self.name
    }
}

impl fmt::Display for DeviceFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, meaning } = self;
        write!(
            f,
            "the GPU failed: {meaning} ({name}); what it held is lost: start the learner again, on another GPU if this \
             repeats (the kernel's log names the cause as an Xid), and resume from the last checkpoint"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ModelError;

    /// The name of an error as cudarc and as candle write it.
    fn written(name: &str) -> [String; 2] {
        let error = format!("DriverError({name}, \"what the driver says of it\")");
        [error.clone(), format!("{error} when loading some_kernel\n   0: candle_core::error::Error::bt")]
    }

    #[test]
    fn a_failure_is_found_in_the_error_of_the_tensor_library_and_says_what_to_do() {
        for (name, meaning) in FAILURES {
            for text in written(name) {
                let error = ModelError::from(candle_core::Error::msg(text));
                assert!(matches!(&error, ModelError::Device(failure) if failure.name() == name), "{name}: {error:?}");
                let text = error.to_string();
                for part in [name, meaning, "checkpoint", "start the learner again"] {
                    assert!(text.contains(part), "{part}: {text}");
                }
            }
        }
    }

    #[test]
    fn what_a_device_survives_is_no_failure_of_it() {
        for name in ["CUDA_ERROR_OUT_OF_MEMORY", "CUDA_ERROR_INVALID_VALUE", "CUDA_ERROR_UNKNOWN_ELSE", "no error"] {
            for text in written(name) {
                assert!(matches!(ModelError::from(candle_core::Error::msg(text)), ModelError::Candle(_)), "{name}");
            }
        }
    }
}
