//! What the kernels need of a device.

use candle_core::{Shape, Tensor};
use evenkeel_kernels::{Chip, FusedAttention, FusedPass, FusedShape, Launch, Pointer, Product};

use crate::error::Result;

/// A device that runs launches and products one after another, in the order in which it is given them. The host need not wait for them.
pub trait Device: Send + Sync {
    /// Memory of the device, at an address divisible by 256. When it is dropped, whatever was launched before may still use it.
    type Memory: Send + Sync;

    /// What launches depend on.
    fn chip(&self) -> Chip;
    /// Memory whose content is undefined.
    fn allocate(&self, bytes: usize) -> Result<Self::Memory>;
    /// Memory that is all zeros.
    fn zeros(&self, bytes: usize) -> Result<Self::Memory>;
    /// A copy of the host's bytes.
    fn upload(&self, bytes: &[u8]) -> Result<Self::Memory>;
    /// A copy of the first `bytes` bytes for the host, which waits for everything that was launched before.
    fn download(&self, memory: &Self::Memory, bytes: usize) -> Result<Vec<u8>>;
    /// Where memory begins.
    fn address(&self, memory: &Self::Memory) -> Pointer;
    /// Where the values of a parameter lie: fp32, row by row, on this device. The address is good as long as the tensor is.
    fn parameter(&self, parameter: &Tensor) -> Result<Pointer>;
    /// Memory full of fp32 values as a tensor on this device.
    fn tensor(&self, memory: Self::Memory, shape: &Shape) -> Result<Tensor>;
    /// Launches a kernel of `evenkeel-kernels`. The addresses in it must be this device's.
    fn launch(&self, launch: &Launch) -> Result<()>;
    /// Computes a product. The addresses in it must be this device's.
    fn multiply(&self, product: &Product) -> Result<()>;
    /// The library that computes attention in one call, or why there is none.
    fn attention_library(&self) -> std::result::Result<String, String>;
    /// Bytes of workspace of a pass of attention by the library, or `None` where it has no plan for the shape.
    fn attention_workspace(&self, shape: FusedShape, pass: FusedPass) -> Result<Option<usize>>;
    /// Computes a pass of attention for which there is a plan. The addresses in it must be this device's.
    fn attend(&self, attention: &FusedAttention) -> Result<()>;
}
