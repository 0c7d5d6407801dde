//! Attention by cuDNN on candle's device and stream.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::sync::{Arc, Mutex, PoisonError};

use candle_core::cuda_backend::cudarc::driver::CudaStream;
use evenkeel_cuda::cudnn::{Cudnn, path, version};
use evenkeel_kernels::{FusedAttention, FusedPass, FusedShape};

use super::{AttentionFallback, AttentionLibrary, failed};
use crate::error::Result;

/// The library, or why attention is computed without it.
pub(super) struct Library {
    cudnn: Result<Cudnn, AttentionFallback>,
    /// Compute capability of the device: 10 * major + minor.
    capability: i32,
    /// Shapes without a plan that a warning has named.
    refused: Mutex<BTreeSet<(FusedShape, FusedPass)>>,
    /// Stream of the library's handle, which must not outlive it.
    stream: Arc<CudaStream>,
}

impl Library {
    /// Opens it for a device, if it is installed and takes packed sequences on it.
    pub(super) fn new(stream: &Arc<CudaStream>, capability: i32) -> Self {
        let cudnn = open(stream, capability);
        Self { cudnn, capability, refused: Mutex::default(), stream: stream.clone() }
    }

    /// Version and file of the library, or why it is not used.
    pub(super) fn name(&self) -> Result<AttentionLibrary, AttentionFallback> {
        let cudnn = self.cudnn.as_ref().map_err(Clone::clone)?;
        Ok(AttentionLibrary { version: cudnn.version(), path: Some(cudnn.path().into()) })
    }

    pub(super) fn workspace(&self, shape: FusedShape, pass: FusedPass) -> Option<usize> {
        let cudnn = self.cudnn.as_ref().ok()?;
        // Kernels of a plan are loaded into the thread's context.
        let bound = self.stream.context().bind_to_thread().map_err(|error| error.to_string());
        // Elsewhere the graph of a deterministic pass does not make it so.
        let plan = match pass {
            FusedPass::DeterministicBackward if self.capability != 90 => {
                let found = format!("{}.{}", self.capability / 10, self.capability % 10);
                Err(format!("compute capability of the device is {found}, allowed for a deterministic pass: 9.0"))
            }
            _ => bound.and_then(|()| cudnn.plan(shape, pass).map_err(|error| error.to_string())),
        };
        match plan {
            Ok(plan) => Some(plan.workspace()),
            Err(reason) => {
                let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
                if refused.insert((shape, pass)) {
                    tracing::warn!(%reason, "attention in blocks of queries, not by cuDNN");
                }
                None
            }
        }
    }

    pub(super) fn attend(&self, attention: &FusedAttention) -> Result<()> {
        self.stream.context().bind_to_thread().map_err(failed)?;
        let cudnn = self.cudnn.as_ref().map_err(failed)?;
        // SAFETY: arrays of the sizes that the value states, which outlive the pass in the order of the stream; offsets
        // were made of the lengths.
        let done = unsafe { cudnn.run(attention) };
        done.map_err(|error| failed(format!("attention {attention:?}: {error}")))
    }
}

/// The library, if it is installed and takes packed sequences on devices of this capability.
pub(super) fn check_library(capability: i32) -> Result<AttentionLibrary, AttentionFallback> {
    // Elsewhere the library's backward pass takes no packed logarithms.
    if !(90..110).contains(&capability) {
        return Err(AttentionFallback::Capability(capability));
    }
    Ok(AttentionLibrary { version: version()?, path: Some(path()?.into()) })
}

fn open(stream: &Arc<CudaStream>, capability: i32) -> Result<Cudnn, AttentionFallback> {
    check_library(capability)?;
    let context = stream.context();
    context.bind_to_thread().map_err(unidentified)?;
    let name = context.name().map_err(unidentified)?;
    let name = format!("{name} {}.{}", capability / 10, capability % 10);
    let number = i32::try_from(context.ordinal()).map_err(unidentified)?;
    // SAFETY: `Library` keeps the stream as long as the handle.
    Ok(unsafe { Cudnn::of_device(number, stream.cu_stream().cast(), &name) }?)
}

fn unidentified(error: impl Display) -> AttentionFallback {
    AttentionFallback::Unidentified(error.to_string())
}
