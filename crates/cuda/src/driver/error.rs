//! Why the driver cannot be used.

use std::time::Duration;

use crate::CUDA;
use crate::search::Missing;

/// Why the driver is not usable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DriverError {
    #[error(transparent)]
    Missing(#[from] Missing),
    /// The driver lacks a function that every driver has had for years.
    #[error("{path} has no function {function}, allowed: a driver of version 580 or later")]
    Function { path: String, function: &'static str },
    /// A call failed: no device, a device lost, a driver and a kernel module of different versions.
    #[error("{call} failed with error {code}: {name}")]
    Call {
        call: &'static str,
        /// Number of the driver's `CUresult`.
        code: i32,
        /// What the driver calls it.
        name: String,
    },
    /// A call at the start of a process did not return in time.
    #[error(
        "the GPU has not answered within {limit:?} ({call}): it hangs or was lost; the kernel's log names the cause as \
         an Xid"
    )]
    Silent { call: &'static str, limit: Duration },
    /// Older than the libraries.
    #[error(
        "the driver supports CUDA {}, older than the libraries' {}, allowed: a driver of version 580 or later",
        version(*.0), version(CUDA)
    )]
    TooOld(i32),
    /// A device that the kernels cannot be compiled for.
    #[error(
        "device {number} ({name}) has compute capability {}, allowed: 8.0 or later (A100, RTX 30 and newer)",
        capability_text(*capability)
    )]
    Capability {
        number: i32,
        name: String,
        /// 100 * major + 10 * minor.
        capability: i32,
    },
    /// A device that no process may use.
    #[error(
        "device {number} ({name}) has the compute mode Prohibited, allowed: Default or Exclusive_Process (nvidia-smi \
         --compute-mode sets it)"
    )]
    Prohibited { number: i32, name: String },
    /// A number that no device has.
    #[error("device {number} does not exist: the driver shows {count}")]
    NoSuchDevice {
        number: usize,
        /// Devices that the driver shows.
        count: usize,
    },
}

/// A compute capability in words: `9.0` for 900.
pub(crate) fn capability_text(capability: i32) -> String {
    format!("{}.{}", capability / 100, capability % 100 / 10)
}

/// A version of CUDA in words: `13.0` for 13000.
pub(crate) fn version(number: i32) -> String {
    format!("{}.{}", number / 1000, number % 1000 / 10)
}
