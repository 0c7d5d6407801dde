//! AdamW with moments in host memory: they pass through two buffers on the device, one of which is filled and emptied
//! while the other is updated.
//!
//! A piece is copied in, updated and copied out in three streams. Copies in and out use different directions of the
//! bus, so that with two buffers both directions are always busy: the update itself is short compared with them.

use candle_core::Tensor;
use evenkeel_kernels::{AdamW, Pointer, Type, adamw};

use super::device::DeviceStream;
use super::{Cuda, Device};
use crate::error::{ModelError, Result};
use crate::kernels::{HostMoments, Moment};

/// Values of a piece, if nothing else is set: 64 MiB of each moment.
pub(super) const PIECE: usize = 16 << 20;
const BUFFERS: usize = 2;

/// Memory of the device for a piece of both moments.
struct Buffer<D: Device> {
    first: D::Memory,
    second: D::Memory,
    /// When its last piece has left it; when it was allocated, at first.
    free: D::Event,
}

/// A part of a parameter.
#[derive(Clone, Copy)]
pub(super) struct Piece {
    parameter: usize,
    first: usize,
    pub(super) count: usize,
}

/// What an update works on besides the moments.
pub(super) struct Update<'a> {
    pub(super) weights: &'a [Tensor],
    pub(super) gradients: &'a [Tensor],
    /// Where the device has the gradients' factor.
    pub(super) factor: Pointer,
    pub(super) numbers: &'a [AdamW],
    /// Where each piece leaves the parts of its change.
    pub(super) changes: Vec<Pointer>,
}

impl<D: Device> Cuda<D> {
    /// Bytes of the device's memory that the buffers take for parameters of these sizes.
    pub(super) fn buffer_bytes(&self, counts: impl Iterator<Item = usize>) -> usize {
        BUFFERS * Moment::ALL.len() * 4 * counts.max().unwrap_or(0).min(self.moment_piece)
    }

    /// The parts of parameters of these sizes, in order. All but the last of a parameter are as large as a buffer.
    pub(super) fn pieces(&self, counts: &[usize]) -> impl Iterator<Item = Piece> {
        let largest = self.moment_piece;
        counts.iter().enumerate().flat_map(move |(parameter, &all)| {
            (0..all).step_by(largest).map(move |first| Piece { parameter, first, count: largest.min(all - first) })
        })
    }

    pub(super) fn update_in_pieces(&self, update: &Update<'_>, moments: &mut HostMoments) -> Result<()> {
        let counts: Vec<usize> = update.weights.iter().map(Tensor::elem_count).collect();
        let mut buffers = Vec::with_capacity(BUFFERS);
        let given = self.enqueue_chunks(update, moments, &counts, &mut buffers);
        // Also after a failure: until then the device may use the moments and the buffers, which are freed after it.
        let settled = self.device.synchronize();
        drop(buffers);
        given.and(settled)
    }

    /// Fills `buffers`, which must live until the device has settled, whatever this returns.
    fn enqueue_chunks(
        &self,
        update: &Update<'_>,
        moments: &mut HostMoments,
        counts: &[usize],
        buffers: &mut Vec<Buffer<D>>,
    ) -> Result<()> {
        let bytes = self.buffer_bytes(counts.iter().copied()) / (BUFFERS * Moment::ALL.len());
        for _ in 0..BUFFERS {
            let first = self.device.allocate(bytes)?;
            let second = self.device.allocate(bytes)?;
            buffers.push(Buffer { first, second, free: self.device.record(DeviceStream::Compute)? });
        }
        for (number, (piece, change)) in self.pieces(counts).zip(&update.changes).enumerate() {
            self.enqueue_chunk(update, moments, piece, *change, &mut buffers[number % BUFFERS])?;
        }
        Ok(())
    }

    fn enqueue_chunk(
        &self,
        update: &Update<'_>,
        moments: &mut HostMoments,
        Piece { parameter, first, count }: Piece,
        change: Pointer,
        buffer: &mut Buffer<D>,
    ) -> Result<()> {
        let device = &self.device;
        let range = first..first + count;
        device.wait(DeviceStream::HostToDevice, &buffer.free)?;
        device.copy_in(moments.of(Moment::First, parameter), range.clone(), &buffer.first)?;
        device.copy_in(moments.of(Moment::Second, parameter), range.clone(), &buffer.second)?;
        device.wait(DeviceStream::Compute, &device.record(DeviceStream::HostToDevice)?)?;

        let part =
            |tensor: &Tensor| Ok::<_, ModelError>(Pointer(device.parameter(tensor, Type::F32)?.0 + 4 * first as u64));
        let weight = part(&update.weights[parameter])?;
        let state = [weight, device.address(&buffer.first), device.address(&buffer.second)];
        let gradient = part(&update.gradients[parameter])?;
        let numbers = update.numbers[parameter];
        self.run(adamw(device.properties(), numbers, count, state, gradient, update.factor, change))?;

        device.wait(DeviceStream::DeviceToHost, &device.record(DeviceStream::Compute)?)?;
        device.copy_out(&buffer.first, moments.of_mut(Moment::First, parameter), range.clone())?;
        device.copy_out(&buffer.second, moments.of_mut(Moment::Second, parameter), range)?;
        buffer.free = device.record(DeviceStream::DeviceToHost)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::ops::Range;
    use std::sync::{Arc, Mutex};

    use candle_core::{DType, Shape};
    use evenkeel_kernels::{Argument, Clip, DeviceProperties, FusedAttention, FusedPass, FusedShape, Launch, Product};

    use super::*;
    use crate::kernels::cuda::{AttentionFallback, AttentionLibrary};
    use crate::kernels::{HostValues, OptimizerKernels};

    /// For each stream, how much of its work is known to be done.
    type Clock = BTreeMap<DeviceStream, usize>;

    /// A use of memory: an address of the device, or one of the host's values with a first one.
    #[derive(Clone, Debug)]
    struct Use {
        memory: (u64, usize),
        stream: DeviceStream,
        /// The number of this work in its stream, and what had to be done before.
        number: usize,
        after: Clock,
    }

    #[derive(Default)]
    struct Log {
        clocks: BTreeMap<DeviceStream, Clock>,
        uses: Vec<Use>,
        addresses: Vec<u64>,
        waits: usize,
        copies: usize,
        /// Whether no stream was given work since the last wait for the device.
        settled: bool,
        /// Blocks that were freed while a stream might still have used them.
        freed_early: usize,
    }

    /// Memory of the device.
    struct DeviceBlock {
        at: u64,
        log: Arc<Mutex<Log>>,
    }

    impl Drop for DeviceBlock {
        fn drop(&mut self) {
            let mut log = self.log.lock().unwrap();
            log.freed_early += usize::from(!log.settled);
        }
    }

    /// A device that checks orders: of any two uses of the same memory the later one must wait for the earlier.
    struct Lanes {
        log: Arc<Mutex<Log>>,
        /// A call of `wait` that is left out.
        forgets: Option<usize>,
        /// A copy to the device that fails.
        fails: Option<usize>,
    }

    impl Lanes {
        fn add(&self, stream: DeviceStream, memories: impl IntoIterator<Item = (u64, usize)>) {
            let mut log = self.log.lock().unwrap();
            log.settled = false;
            let clock = log.clocks.entry(stream).or_default();
            let number = *clock.entry(stream).and_modify(|number| *number += 1).or_insert(1);
            let after = clock.clone();
            let uses = memories.into_iter().map(|memory| Use { memory, stream, number, after: after.clone() });
            log.uses.extend(uses);
        }

        fn order(&self, stream: DeviceStream, event: &Clock) {
            let mut log = self.log.lock().unwrap();
            let clock = log.clocks.entry(stream).or_default();
            for (&stream, &number) in event {
                clock.entry(stream).and_modify(|done| *done = (*done).max(number)).or_insert(number);
            }
        }

        fn races(&self) -> usize {
            let uses = &self.log.lock().unwrap().uses;
            let is_ordered = |a: &Use, b: &Use| b.after.get(&a.stream).is_some_and(|&done| done >= a.number);
            let pairs = uses.iter().enumerate().flat_map(|(i, b)| uses[..i].iter().map(move |a| (a, b)));
            pairs.filter(|(a, b)| a.memory == b.memory && !is_ordered(a, b)).count()
        }
    }

    impl Device for Lanes {
        type Memory = DeviceBlock;
        type Event = Clock;

        fn properties(&self) -> DeviceProperties {
            DeviceProperties { multiprocessors: 4 }
        }

        fn allocate(&self, _: usize) -> Result<DeviceBlock> {
            let mut log = self.log.lock().unwrap();
            let at = 4096 * (1 + log.addresses.len() as u64);
            log.addresses.push(at);
            drop(log);
            // In the order of the stream, as a pool does.
            self.add(DeviceStream::Compute, [(at, 0)]);
            Ok(DeviceBlock { at, log: Arc::clone(&self.log) })
        }

        fn zeros(&self, bytes: usize) -> Result<DeviceBlock> {
            self.allocate(bytes)
        }

        fn upload(&self, bytes: &[u8]) -> Result<DeviceBlock> {
            self.allocate(bytes.len())
        }

        fn download(&self, _: &DeviceBlock, bytes: usize) -> Result<Vec<u8>> {
            let mut log = self.log.lock().unwrap();
            let done = log.clocks.get(&DeviceStream::Compute).cloned().unwrap_or_default();
            let is_done = |(stream, clock): (&DeviceStream, &Clock)| done.get(stream) >= clock.get(stream);
            log.settled = log.clocks.iter().all(is_done);
            Ok(vec![0; bytes])
        }

        fn address(&self, memory: &DeviceBlock) -> Pointer {
            Pointer(memory.at)
        }

        fn parameter(&self, _: &Tensor, _: Type) -> Result<Pointer> {
            Ok(Pointer(64))
        }

        fn tensor(&self, _: DeviceBlock, shape: &Shape) -> Result<Tensor> {
            Ok(Tensor::zeros(shape, DType::F32, &candle_core::Device::Cpu)?)
        }

        fn launch(&self, launch: &Launch) -> Result<()> {
            let known = self.log.lock().unwrap().addresses.clone();
            let pointers = launch.arguments.iter().map(Argument::bits).filter(|bits| known.contains(bits));
            self.add(DeviceStream::Compute, pointers.map(|at| (at, 0)));
            Ok(())
        }

        fn multiply(&self, _: &Product) -> Result<()> {
            Ok(())
        }

        fn attention_library(&self) -> Result<AttentionLibrary, AttentionFallback> {
            Err(AttentionFallback::NotRequested)
        }

        fn attention_workspace(&self, _: FusedShape, _: FusedPass) -> Result<Option<usize>> {
            Ok(None)
        }

        fn attend(&self, _: &FusedAttention) -> Result<()> {
            unreachable!("an update has no attention")
        }

        fn host_values(&self, count: usize) -> Result<Box<dyn HostValues>> {
            Ok(Box::new(vec![0.0; count]))
        }

        fn copy_in(&self, from: &dyn HostValues, range: Range<usize>, to: &DeviceBlock) -> Result<()> {
            let number = {
                let mut log = self.log.lock().unwrap();
                log.copies += 1;
                log.copies
            };
            if self.fails == Some(number) {
                return Err(ModelError::input("copy", number, "another one"));
            }
            let from = (from.values().as_ptr() as u64, range.start);
            self.add(DeviceStream::HostToDevice, [from, (to.at, 0)]);
            Ok(())
        }

        fn copy_out(&self, from: &DeviceBlock, to: &mut dyn HostValues, range: Range<usize>) -> Result<()> {
            let to = (to.values().as_ptr() as u64, range.start);
            self.add(DeviceStream::DeviceToHost, [to, (from.at, 0)]);
            Ok(())
        }

        fn record(&self, stream: DeviceStream) -> Result<Clock> {
            Ok(self.log.lock().unwrap().clocks.entry(stream).or_default().clone())
        }

        fn wait(&self, stream: DeviceStream, event: &Clock) -> Result<()> {
            let number = {
                let mut log = self.log.lock().unwrap();
                log.waits += 1;
                log.waits
            };
            if self.forgets != Some(number) {
                self.order(stream, event);
            }
            Ok(())
        }

        fn synchronize(&self) -> Result<()> {
            const ALL: [DeviceStream; 3] =
                [DeviceStream::Compute, DeviceStream::HostToDevice, DeviceStream::DeviceToHost];
            for from in ALL {
                let event = self.record(from)?;
                ALL.into_iter().for_each(|to| self.order(to, &event));
            }
            self.log.lock().unwrap().settled = true;
            Ok(())
        }
    }

    const CLIP: Clip = Clip { scale: 1.0, limit: 1.0 };
    const NUMBERS: AdamW = AdamW { betas: [0.9, 0.99], step: 0.1, second_root: 1.0, epsilon: 1e-8, shrink: 1.0 };

    /// Pairs of uses without an order in two updates of parameters with one to three pieces, and how often a stream
    /// waited.
    fn races(forgets: Option<usize>) -> (usize, usize) {
        let kernels = Cuda::new(Lanes { log: Arc::default(), forgets, fails: None }, DType::F32).unwrap();
        let kernels = kernels.with_moment_piece(64).unwrap();
        let tensors = [64, 5, 190].map(|n| Tensor::zeros(n, DType::F32, &candle_core::Device::Cpu).unwrap());
        let mut moments = kernels.host_moments(&[64, 5, 190]).unwrap();
        for _ in 0..2 {
            kernels.update_from_host(&tensors, &tensors, &mut moments, CLIP, &[NUMBERS; 3]).unwrap();
        }
        let waits = kernels.device().log.lock().unwrap().waits;
        (kernels.device().races(), waits)
    }

    #[test]
    fn copies_and_updates_are_ordered_and_no_wait_could_be_left_out() {
        let (none, waits) = races(None);
        assert_eq!((none, waits), (0, 2 * 5 * 3));
        for left_out in 1..=waits {
            assert!(races(Some(left_out)).0 > 0, "wait {left_out} is not needed, or no order is checked");
        }
    }

    #[test]
    fn buffers_are_freed_after_the_device_has_settled_also_when_a_copy_fails() {
        for fails in [None, Some(1), Some(2), Some(5)] {
            let log = Arc::new(Mutex::new(Log::default()));
            let device = Lanes { log: Arc::clone(&log), forgets: None, fails };
            let kernels = Cuda::new(device, DType::F32).unwrap().with_moment_piece(64).unwrap();
            let tensors = [64, 190].map(|n| Tensor::zeros(n, DType::F32, &candle_core::Device::Cpu).unwrap());
            let mut moments = kernels.host_moments(&[64, 190]).unwrap();
            let updated = kernels.update_from_host(&tensors, &tensors, &mut moments, CLIP, &[NUMBERS; 2]);
            assert_eq!(updated.is_err(), fails.is_some());
            let log = log.lock().unwrap();
            assert_eq!((log.freed_early, log.settled), (0, true), "copy {fails:?}");
        }
    }

    #[test]
    fn every_moment_goes_to_the_device_and_back_once_and_only_two_pieces_are_on_it_at_a_time() {
        let counter = crate::kernels::cuda::Counter::new(DeviceProperties { multiprocessors: 132 });
        let kernels = Cuda::new(counter, DType::F32).unwrap().with_moment_piece(1 << 10).unwrap();
        let counts = [3000, 10, 1 << 20];
        let tensors = counts.map(|n| Tensor::zeros(n, DType::F32, &candle_core::Device::Cpu).unwrap());
        let mut moments = kernels.host_moments(&counts).unwrap();
        kernels.update_from_host(&tensors, &tensors, &mut moments, CLIP, &[NUMBERS; 3]).unwrap();
        let counts_of = kernels.device().take();
        let all: usize = counts.iter().sum();
        assert_eq!(counts_of.pinned, 8 * all as u64);
        assert_eq!(counts_of.streamed.bytes, 16 * all as u64);
        let bytes_of = |name: &str| counts_of.kernels.get(name).map_or(0, |tally| tally.bytes);
        assert_eq!(bytes_of("adamw_wide") + bytes_of("adamw_single"), 28 * all as u64);
        // Two buffers for two moments, beside the parts of the norm and the norm itself.
        let parts = 8 * 2 * (3 + 1 + 1024_u64);
        assert_eq!(counts_of.peak, 4 * 4096 + parts.next_multiple_of(256) + 256);
    }
}
