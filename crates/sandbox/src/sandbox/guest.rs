//! The host's state of a guest instance: streams, limits, time.

use std::sync::Arc;

use evenkeel_seeds::{ChaCha12Rng, RngCore as _, Stream};
use tokio_util::sync::CancellationToken;
use wasmtime::{ResourceLimiter, Result};

use super::exit_status::Termination;
use super::memory::MemoryUse;
use super::meter::Meter;
use crate::run::Budget;

/// Seed of the entropy that programs see: no run's seed, since a verdict must not depend on the run.
const ENTROPY_SEED: u64 = 0;

/// Largest table of an instance, in elements.
const MAX_TABLE_ELEMENTS: usize = 1 << 20;

/// The host's state of an instance.
pub(crate) struct GuestState {
    stdin: Arc<[u8]>,
    /// Bytes of standard input that were read.
    stdin_read: usize,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    /// Bytes that may still be written.
    pub output_left: u64,
    pub meter: Meter,
    pub cancel: CancellationToken,
    /// When each alarm rings, by its handle.
    pub alarms: Vec<u64>,
    /// The generator behind `os.urandom`, created when first used.
    random: Option<ChaCha12Rng>,
    pub memory: MemoryUse,
    /// Number of calls for input, output, time or randomness.
    pub host_calls: u32,
}

impl GuestState {
    pub(crate) fn new(stdin: Arc<[u8]>, budget: &Budget, cancel: CancellationToken) -> Self {
        Self {
            stdin,
            stdin_read: 0,
            stdout: Vec::new(),
            stderr: Vec::new(),
            output_left: budget.output,
            meter: Meter::start(budget.deterministic, budget.time, budget.wall),
            cancel,
            alarms: Vec::new(),
            random: None,
            memory: MemoryUse::new(budget.memory, budget.granted, budget.deterministic),
            host_calls: 0,
        }
    }

    /// Counts a call for input, output, time or randomness.
    pub(crate) fn count_host_call(&mut self) {
        self.host_calls = self.host_calls.saturating_add(1);
    }

    /// Charges output that is about to be written.
    pub(crate) fn charge_output(&mut self, length: usize) -> Result<(), Termination> {
        self.count_host_call();
        let length = length as u64;
        if length > self.output_left {
            self.output_left = 0;
            return Err(Termination::Output);
        }
        self.output_left -= length;
        self.memory.charge_host(length)
    }

    /// Appends output to a stream.
    pub(crate) fn write(&mut self, stderr: bool, bytes: &[u8]) {
        if stderr { self.stderr.extend_from_slice(bytes) } else { self.stdout.extend_from_slice(bytes) }
    }

    /// Reads at most this many bytes of standard input; none at its end.
    pub(crate) fn read_stdin(&mut self, max_bytes: u64) -> Vec<u8> {
        self.count_host_call();
        let rest = &self.stdin[self.stdin_read..];
        let length = usize::try_from(max_bytes).unwrap_or(usize::MAX).min(rest.len());
        let bytes = rest[..length].to_vec();
        self.stdin_read += length;
        bytes
    }

    /// Pseudo-random bytes, the same in every run.
    pub(crate) fn random_u64(&mut self) -> u64 {
        self.count_host_call();
        self.random.get_or_insert_with(|| evenkeel_seeds::rng(ENTROPY_SEED, Stream::SandboxEntropy)).next_u64()
    }

    /// Checks the limits. Called in regular intervals while the guest runs.
    pub(crate) fn tick(&mut self) -> Result<(), Termination> {
        if self.cancel.is_cancelled() {
            return Err(Termination::Cancelled);
        }
        self.memory.check()?;
        self.meter.check()
    }
}

impl ResourceLimiter for GuestState {
    fn memory_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> Result<bool> {
        Ok(self.memory.grow(current as u64, desired as u64)?)
    }

    fn table_growing(&mut self, _current: usize, desired: usize, _maximum: Option<usize>) -> Result<bool> {
        Ok(desired <= MAX_TABLE_ELEMENTS)
    }
}
