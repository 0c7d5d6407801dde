//! A device that computes nothing: it counts what a real one would be given.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use candle_core::{Shape, Tensor};
use evenkeel_kernels::{DeviceProperties, FusedAttention, FusedPass, FusedShape, Launch, Pointer, Product, Type};

use super::{AttentionFallback, AttentionLibrary, Device, DeviceStream};
use crate::error::{ModelError, Result};
use crate::kernels::HostValues;

/// What one kernel, or the products of one type, took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How often it was launched.
    pub launches: u64,
    /// Bytes of the device's memory that were read and written, each array of a launch once.
    pub bytes: u64,
    /// Floating-point operations of products; those of other kernels are not counted.
    pub flops: u64,
}

/// What a device was given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceCounts {
    /// Tally of each kernel, by its name.
    pub kernels: BTreeMap<String, Tally>,
    /// Copies from the host.
    pub uploads: Tally,
    /// Copies to the host, each of which waits.
    pub downloads: Tally,
    /// How often the host waited: for a copy, or until everything was done.
    pub waits: u64,
    /// Copies of moments in host memory, to the device and back, concurrently with the kernels.
    pub streamed: Tally,
    /// Bytes of host memory that are page-locked.
    pub pinned: u64,
    /// Bytes that are allocated now.
    pub live: u64,
    /// The most bytes that were allocated at a time, since the counts were last taken.
    pub peak: u64,
    /// The end of the addresses that were given out.
    end: u64,
}

impl DeviceCounts {
    /// Sum over all kernels and products.
    pub fn total(&self) -> Tally {
        let sum = |a: Tally, b: &Tally| Tally {
            launches: a.launches + b.launches,
            bytes: a.bytes + b.bytes,
            flops: a.flops + b.flops,
        };
        self.kernels.values().fold(Tally::default(), sum)
    }
}

/// Memory of 256 bytes that has the address of every parameter: a counter never reads it.
const PARAMETER: Pointer = Pointer(4096);
const ALIGNMENT: u64 = 256;

/// A device that only counts. What is read from it is zeros, and tensors that it makes are. A clone is the same device.
#[derive(Clone)]
pub struct Counter {
    properties: DeviceProperties,
    /// Bytes that there are.
    memory: u64,
    counts: Arc<Mutex<DeviceCounts>>,
}

/// Memory that does not exist.
pub struct Counted {
    at: Pointer,
    bytes: u64,
    counts: Arc<Mutex<DeviceCounts>>,
}

impl Counter {
    /// Counts what a device with these multiprocessors would be given.
    pub fn new(properties: DeviceProperties) -> Self {
        let end = PARAMETER.0 + ALIGNMENT;
        Self {
            properties,
            memory: u64::MAX,
            counts: Arc::new(Mutex::new(DeviceCounts { end, ..DeviceCounts::default() })),
        }
    }

    /// Sets the bytes of memory beyond which an allocation is refused.
    pub fn with_memory(self, bytes: u64) -> Self {
        Self { memory: bytes, ..self }
    }

    /// Takes what was counted since the last call. What is allocated stays so.
    pub fn take(&self) -> DeviceCounts {
        let mut counts = lock(&self.counts);
        let live = counts.live;
        let end = counts.end;
        let pinned = counts.pinned;
        std::mem::replace(&mut *counts, DeviceCounts { live, peak: live, end, pinned, ..DeviceCounts::default() })
    }

    fn count(&self, kernel: &str, bytes: u64, flops: u64) {
        let mut counts = lock(&self.counts);
        let tally = counts.kernels.entry(kernel.to_owned()).or_default();
        *tally = Tally { launches: tally.launches + 1, bytes: tally.bytes + bytes, flops: tally.flops + flops };
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        lock(&self.counts).live -= self.bytes;
    }
}

fn lock(counts: &Mutex<DeviceCounts>) -> MutexGuard<'_, DeviceCounts> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

fn copied(tally: &mut Tally, bytes: usize) {
    tally.launches += 1;
    tally.bytes += bytes as u64;
}

/// Page-locked memory that does not exist either.
struct CountedValues;

impl HostValues for CountedValues {
    fn values(&self) -> &[f32] {
        &[]
    }

    fn values_mut(&mut self) -> &mut [f32] {
        &mut []
    }
}

impl Device for Counter {
    type Memory = Counted;
    type Event = ();

    fn properties(&self) -> DeviceProperties {
        self.properties
    }

    fn allocate(&self, bytes: usize) -> Result<Counted> {
        let mut counts = lock(&self.counts);
        let at = Pointer(counts.end);
        let bytes = (bytes as u64).next_multiple_of(ALIGNMENT);
        let free = self.memory - counts.live;
        if bytes > free {
            let reason = format!("{free} of {} bytes are free", self.memory);
            return Err(ModelError::out_of_memory("memory of the device", bytes, reason));
        }
        counts.end += bytes;
        counts.live += bytes;
        counts.peak = counts.peak.max(counts.live);
        Ok(Counted { at, bytes, counts: self.counts.clone() })
    }

    fn zeros(&self, bytes: usize) -> Result<Counted> {
        self.count("fill with zeros", bytes as u64, 0);
        self.allocate(bytes)
    }

    fn upload(&self, bytes: &[u8]) -> Result<Counted> {
        copied(&mut lock(&self.counts).uploads, bytes.len());
        self.allocate(bytes.len())
    }

    fn download(&self, _memory: &Counted, bytes: usize) -> Result<Vec<u8>> {
        let mut counts = lock(&self.counts);
        copied(&mut counts.downloads, bytes);
        counts.waits += 1;
        Ok(vec![0; bytes])
    }

    fn address(&self, memory: &Counted) -> Pointer {
        memory.at
    }

    fn parameter(&self, _parameter: &Tensor, _kind: Type) -> Result<Pointer> {
        Ok(PARAMETER)
    }

    fn tensor(&self, _memory: Counted, shape: &Shape) -> Result<Tensor> {
        Ok(Tensor::zeros((), candle_core::DType::F32, &candle_core::Device::Cpu)?.broadcast_as(shape)?)
    }

    fn launch(&self, launch: &Launch) -> Result<()> {
        self.count(&launch.kernel, launch.bytes, 0);
        Ok(())
    }

    fn multiply(&self, product: &Product) -> Result<()> {
        self.count(&product.name(), product.bytes(), product.flops());
        Ok(())
    }

    fn attention_library(&self) -> Result<AttentionLibrary, AttentionFallback> {
        Ok(AttentionLibrary::stand_in("counted"))
    }

    /// The most that a plan may take.
    fn attention_workspace(&self, shape: FusedShape, pass: FusedPass) -> Result<Option<usize>> {
        Ok(Some(shape.workspace(pass)))
    }

    fn attend(&self, attention: &FusedAttention) -> Result<()> {
        self.count(attention.name(), attention.bytes(), attention.flops());
        Ok(())
    }

    fn host_values(&self, count: usize) -> Result<Box<dyn HostValues>> {
        lock(&self.counts).pinned += 4 * count as u64;
        Ok(Box::new(CountedValues))
    }

    fn copy_in(&self, _from: &dyn HostValues, range: Range<usize>, _to: &Counted) -> Result<()> {
        copied(&mut lock(&self.counts).streamed, 4 * range.len());
        Ok(())
    }

    fn copy_out(&self, _from: &Counted, _to: &mut dyn HostValues, range: Range<usize>) -> Result<()> {
        copied(&mut lock(&self.counts).streamed, 4 * range.len());
        Ok(())
    }

    fn record(&self, _stream: DeviceStream) -> Result<()> {
        Ok(())
    }

    fn wait(&self, _stream: DeviceStream, _event: &()) -> Result<()> {
        Ok(())
    }

    fn synchronize(&self) -> Result<()> {
        lock(&self.counts).waits += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allocation_beyond_the_memory_is_refused_with_what_was_asked_and_what_was_free() {
        let counter = Counter::new(DeviceProperties { multiprocessors: 1 }).with_memory(4 << 20);
        let _kept = counter.allocate(3 << 20).unwrap();
        let error = counter.zeros(2 << 20).err().unwrap().to_string();
        assert_eq!(error, "out of memory of the device: 2.0 MiB requested (1048576 of 4194304 bytes are free)");
        counter.upload(&[0; 1 << 20]).unwrap();
    }

    #[test]
    fn the_peak_is_of_what_is_allocated_together() {
        let counter = Counter::new(DeviceProperties { multiprocessors: 1 });
        let kept = counter.allocate(1000).unwrap();
        drop(counter.allocate(512).unwrap());
        drop(counter.allocate(256).unwrap());
        let counts = counter.take();
        assert_eq!((counts.live, counts.peak), (1024, 1536));
        drop(kept);
        let counts = counter.take();
        assert_eq!((counts.live, counts.peak), (0, 1024));
    }
}
