//! Kernels of the optimizer: norms of gradients and the AdamW update.

use candle_core::Tensor;
use evenkeel_kernels::{AdamW, Clip};

use super::host_moments::HostMoments;
use crate::error::Result;

/// A parameter's or all parameters' arrays, in the order of the parameters: fp32 on the kernels' device.
#[derive(Clone, Copy, Debug)]
pub struct UpdateArrays<'a> {
    /// Weights, which are changed in place.
    pub weights: &'a [Tensor],
    /// Running means of gradients, changed in place.
    pub first: &'a [Tensor],
    /// Running means of their squares, changed in place.
    pub second: &'a [Tensor],
    /// Gradients of the weights.
    pub gradients: &'a [Tensor],
}

/// What an update found of its gradients, and how far it went.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UpdateNorm {
    /// Root of the sum of squares over all gradients, before they were scaled.
    pub norm: f64,
    /// Whether anything was changed: not where the gradients, or what they would be multiplied by, are not finite.
    pub applied: bool,
    /// Root of the sum of squares of what was added to the weights, where it was applied.
    pub change: f64,
}

/// Passes over whole arrays that read and write each value once.
pub trait OptimizerKernels {
    /// Root of the sum of squares over all tensors, summed in f64.
    ///
    /// # Errors
    /// A failure of the device.
    fn norm(&self, gradients: &[Tensor]) -> Result<f64>;
    /// One AdamW update in place, with the gradients scaled and clipped; the numbers are those of each parameter. The
    /// device decides how far to clip, and whether there is anything finite to update by, before it changes a weight:
    /// the host waits once, at the end.
    ///
    /// # Errors
    /// A failure of the device, after which it can no longer be used.
    fn update(&self, arrays: UpdateArrays<'_>, clip: Clip, updates: &[AdamW]) -> Result<UpdateNorm>;
    /// Moments of zeros for parameters of this many values, in page-locked host memory.
    ///
    /// # Errors
    /// No more such memory.
    fn host_moments(&self, counts: &[usize]) -> Result<HostMoments>;
    /// [`OptimizerKernels::update`], to the bit, with moments in host memory, which pass through the device in pieces.
    ///
    /// # Errors
    /// A failure of the device, after which it can no longer be used.
    fn update_from_host(
        &self,
        weights: &[Tensor],
        gradients: &[Tensor],
        moments: &mut HostMoments,
        clip: Clip,
        updates: &[AdamW],
    ) -> Result<UpdateNorm>;
}
