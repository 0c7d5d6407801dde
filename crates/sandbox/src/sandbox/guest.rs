//! What the host keeps for one instance of the guest: its streams, its limits, its time. It goes when the instance goes.

use std::sync::Arc;
use std::time::Duration;

use wasmtime::{ResourceLimiter, Result};

use super::cancel::Cancel;
use super::memory::MemoryUse;
use super::meter::Meter;
use super::stop::Stop;

/// What one run may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Budget {
    /// Work and sleep together.
    pub time: Duration,
    /// Wall clock, the backstop.
    pub wall: Duration,
    /// Bytes of memory above what the interpreter begins with.
    pub memory: u64,
    /// As many of them as the machine has for it now.
    pub granted: u64,
    /// Bytes written to both streams together.
    pub output: u64,
    /// Instructions count instead of time.
    pub deterministic: bool,
}

/// The state of one instance.
pub(crate) struct Guest {
    /// What descriptor 0 reads, and how far it was read.
    pub stdin: Arc<[u8]>,
    pub read: usize,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    /// Bytes that may still be written.
    pub output_left: u64,
    pub meter: Meter,
    pub cancel: Cancel,
    /// Every clock that was asked to ring, by its handle.
    pub alarms: Vec<u64>,
    /// State of the generator behind `os.urandom`.
    pub random: u64,
    pub memory: MemoryUse,
    /// How often it asked for what only the host knows or keeps: input, output, time, chance.
    pub asked: u32,
}

impl Guest {
    pub(crate) fn new(stdin: Arc<[u8]>, budget: &Budget, cancel: Cancel) -> Self {
        Self {
            stdin,
            read: 0,
            stdout: Vec::new(),
            stderr: Vec::new(),
            output_left: budget.output,
            meter: Meter::start(budget.deterministic, budget.time, budget.wall),
            cancel,
            alarms: Vec::new(),
            random: 0,
            memory: MemoryUse::new(budget.memory, budget.granted),
            asked: 0,
        }
    }

    /// Notes that it asked for something.
    pub(crate) fn ask(&mut self) {
        self.asked = self.asked.saturating_add(1);
    }

    /// Whether so many bytes may be written; they are taken from what is left.
    pub(crate) fn may_write(&mut self, length: usize) -> Result<(), Stop> {
        self.ask();
        let length = length as u64;
        if length > self.output_left {
            self.output_left = 0;
            return Err(Stop::Output);
        }
        self.output_left -= length;
        self.memory.hold(length)
    }

    /// Takes what the guest writes to a stream.
    pub(crate) fn write(&mut self, stderr: bool, bytes: &[u8]) {
        if stderr { self.stderr.extend_from_slice(bytes) } else { self.stdout.extend_from_slice(bytes) }
    }

    /// The next bytes of standard input, at most so many; none at its end.
    pub(crate) fn take_stdin(&mut self, most: u64) -> Vec<u8> {
        self.ask();
        let rest = &self.stdin[self.read..];
        let length = usize::try_from(most).unwrap_or(usize::MAX).min(rest.len());
        let bytes = rest[..length].to_vec();
        self.read += length;
        bytes
    }

    /// Pseudo-random bytes: the same ones in every run.
    pub(crate) fn random_u64(&mut self) -> u64 {
        self.ask();
        // SplitMix64.
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Called at every tick of the clock.
    pub(crate) fn tick(&mut self) -> Result<(), Stop> {
        if self.cancel.is_cancelled() {
            return Err(Stop::Cancelled);
        }
        self.memory.look()?;
        self.meter.check()
    }
}

impl ResourceLimiter for Guest {
    fn memory_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> Result<bool> {
        Ok(self.memory.grow(current as u64, desired as u64)?)
    }

    fn table_growing(&mut self, _current: usize, desired: usize, _maximum: Option<usize>) -> Result<bool> {
        Ok(desired <= 1 << 20)
    }
}
