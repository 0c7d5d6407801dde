//! What the kernels need of a device.

use std::ops::Range;

use candle_core::{Shape, Tensor};
#[cfg(any(feature = "cuda", test))]
use evenkeel_kernels::cast;
use evenkeel_kernels::{DeviceProperties, FusedAttention, FusedPass, FusedShape, Launch, Pointer, Product, Type};

#[cfg(any(feature = "cuda", test))]
use crate::error::ModelError;
use crate::error::Result;
use crate::kernels::HostValues;
use crate::kernels::cuda::{AttentionFallback, AttentionLibrary};

/// A device that runs launches and products one after another, in the order in which they are submitted, without the
/// host waiting for them. Beside them it copies from and to the host, in streams of their own: see [`DeviceStream`].
pub trait Device: Send + Sync {
    /// Memory of the device, at an address divisible by 256. When it is dropped, whatever was launched before may still
    /// use it.
    type Memory: Send + Sync;
    /// A point in the work of a stream.
    type Event: Send + Sync;

    /// What launches depend on.
    fn properties(&self) -> DeviceProperties;
    /// Memory whose content is undefined.
    fn allocate(&self, bytes: usize) -> Result<Self::Memory>;
    /// Memory that is all zeros.
    fn zeros(&self, bytes: usize) -> Result<Self::Memory>;
    /// A copy of the host's bytes.
    fn upload(&self, bytes: &[u8]) -> Result<Self::Memory>;
    /// A copy of the first `bytes` bytes for the host, which waits for everything that was launched before.
    fn download(&self, memory: &Self::Memory, bytes: usize) -> Result<Vec<u8>>;
    /// Address of the first byte of memory.
    fn address(&self, memory: &Self::Memory) -> Pointer;
    /// The address of the values of a parameter, which must be of this type, row by row and on this device. The address
    /// is good as long as the tensor is.
    fn parameter(&self, parameter: &Tensor, kind: Type) -> Result<Pointer>;
    /// Memory full of fp32 values as a tensor on this device.
    fn tensor(&self, memory: Self::Memory, shape: &Shape) -> Result<Tensor>;
    /// Launches a kernel of `evenkeel-kernels`. The addresses in it must be this device's.
    fn launch(&self, launch: &Launch) -> Result<()>;
    /// Computes a product. The addresses in it must be this device's.
    fn multiply(&self, product: &Product) -> Result<()>;
    /// The library that computes attention in one call, or why there is none.
    fn attention_library(&self) -> Result<AttentionLibrary, AttentionFallback>;
    /// Bytes of workspace of a pass of attention by the library, or `None` where it has no plan for the shape.
    fn attention_workspace(&self, shape: FusedShape, pass: FusedPass) -> Result<Option<usize>>;
    /// Computes a pass of attention for which there is a plan. The addresses in it must be this device's.
    fn attend(&self, attention: &FusedAttention) -> Result<()>;

    /// This many fp32 zeros in memory of the host that this device copies from and to by itself.
    fn host_values(&self, count: usize) -> Result<Box<dyn HostValues>>;
    /// Copies some values to the beginning of the device's memory, in [`DeviceStream::HostToDevice`]. They must stay as
    /// they are until [`Device::synchronize`].
    fn copy_in(&self, from: &dyn HostValues, range: Range<usize>, to: &Self::Memory) -> Result<()>;
    /// Copies as many values from the beginning of the device's memory, in [`DeviceStream::DeviceToHost`]. They must
    /// not be touched until [`Device::synchronize`].
    fn copy_out(&self, from: &Self::Memory, to: &mut dyn HostValues, range: Range<usize>) -> Result<()>;
    /// Marks what was given to a stream so far.
    fn record(&self, stream: DeviceStream) -> Result<Self::Event>;
    /// Lets whatever is given to a stream from now on begin only when what the event marks is done.
    fn wait(&self, stream: DeviceStream, event: &Self::Event) -> Result<()>;
    /// Waits until all that was given to any stream is done.
    fn synchronize(&self) -> Result<()>;
}

/// What a device does in order. Different streams run at the same time, as far as events let them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeviceStream {
    /// Memory, launches and products.
    Compute,
    /// Copies from the host by [`Device::copy_in`].
    HostToDevice,
    /// Copies to the host by [`Device::copy_out`].
    DeviceToHost,
}

/// Runs a kernel on 256 values and waits for its result: what hangs then does so at the start.
#[cfg(any(feature = "cuda", test))]
pub(super) fn try_kernel<D: Device>(device: &D) -> Result<()> {
    let count = 256;
    let [from, to] = [device.zeros(count * Type::F32.size())?, device.allocate(count * Type::Bf16.size())?];
    let addresses = ((Type::F32, device.address(&from)), (Type::Bf16, device.address(&to)));
    let launch = cast(device.properties(), count, addresses.0, addresses.1).map_err(ModelError::Input)?;
    device.launch(&launch)?;
    let values = device.download(&to, count * Type::Bf16.size())?;
    if values.iter().any(|&byte| byte != 0) {
        return Err(ModelError::input("result of the first kernel", "not 0", "0, as the values that it casts"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::cuda::Counter;

    #[test]
    fn a_device_is_tried_with_one_kernel_and_its_memory_given_back() {
        let counter = Counter::new(DeviceProperties { multiprocessors: 132 });
        try_kernel(&counter).unwrap();
        let counts = counter.take();
        // The values are filled with zeros and cast.
        assert_eq!((counts.total().launches, counts.downloads.launches, counts.live), (2, 1, 0));
    }
}
