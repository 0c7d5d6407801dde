//! What one test may use, and a whole program.

use std::time::Duration;

use crate::sandbox::Budget;

/// Limits on one test, and on a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// CPU time of the program, and what it sleeps. LiveCodeBench gives 6 s of a native interpreter; the guest is about 2.3 times
    /// slower, so the default is 18 s: three times as much, so that a machine whose ratio is worse loses nothing.
    pub cpu: Duration,
    /// CPU time of the program over all its tests, in their order; none for any.
    pub program_cpu: Option<Duration>,
    /// Wall clock: a backstop for a machine that is too busy to say anything about the program. The verdict is then INVALID.
    pub wall: Duration,
    /// Memory of the program above the interpreter's own, and above 4 MiB that it has free, bytes. The native stack that it stands on
    /// and the output that is held for it count.
    pub memory_bytes: u64,
    /// What it may write to standard output and standard error together, bytes.
    pub output_bytes: u64,
    /// Length of the program, bytes.
    pub source_bytes: u64,
    /// Count instructions instead of time: the same verdict on every machine, at about half the speed.
    pub deterministic: bool,
}

impl Default for Limits {
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

impl Limits {
    pub(crate) fn budget(&self) -> Budget {
        Budget {
            time: self.program_cpu.map_or(self.cpu, |most| most.min(self.cpu)),
            wall: self.wall,
            memory: self.memory_bytes,
            granted: self.memory_bytes,
            output: self.output_bytes,
            deterministic: self.deterministic,
        }
    }
}
