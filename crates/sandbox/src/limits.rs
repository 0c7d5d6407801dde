//! Limits on a test and on a program.

use std::time::Duration;

use crate::run::Budget;

/// Limits on each test and on a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramLimits {
    /// CPU time and sleep of a test. LiveCodeBench allows 6 s of a native interpreter. The guest is about 2.3 times
    /// slower; the default of 18 s is three times as much, with a margin for machines on which the ratio is worse.
    pub cpu: Duration,
    /// CPU time of the program over all its tests, in their order. `None` for no limit.
    pub program_cpu: Option<Duration>,
    /// Wall clock time of a test: a backstop for a machine that is too busy. The outcome is then
    /// [`ProgramOutcome::Invalid`](crate::ProgramOutcome).
    pub wall: Duration,
    /// Memory of the program in bytes, beyond the interpreter's own and 4 MiB that are free initially. It includes the
    /// native stack and buffered output.
    pub memory_bytes: u64,
    /// Bytes written to standard output and standard error together.
    pub output_bytes: u64,
    /// Length of the program in bytes.
    pub source_bytes: u64,
    /// Count instructions instead of time: the same verdict on every machine, at about half the speed.
    pub deterministic: bool,
}

impl Default for ProgramLimits {
    fn default() -> Self {
        Self {
            cpu: Duration::from_secs(18),
            program_cpu: None,
            wall: Duration::from_secs(120),
            memory_bytes: 1 << 30,
            output_bytes: 16 << 20,
            source_bytes: 256 << 10,
            deterministic: false,
        }
    }
}

impl ProgramLimits {
    pub(crate) fn budget(&self) -> Budget {
        Budget {
            time: self.program_cpu.map_or(self.cpu, |limit| limit.min(self.cpu)),
            wall: self.wall,
            memory: self.memory_bytes,
            granted: self.memory_bytes,
            output: self.output_bytes,
            deterministic: self.deterministic,
        }
    }
}
