//! A run of a program, as shared by its requester and its executor: what may be used, what is run, and what it did.

use std::time::Duration;

/// Limits of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Budget {
    /// Work and sleep together.
    pub time: Duration,
    /// Wall clock time, a backstop.
    pub wall: Duration,
    /// Bytes of memory above the interpreter's initial memory.
    pub memory: u64,
    /// The part of these bytes that the machine has available now.
    pub granted: u64,
    /// Bytes written to both streams together.
    pub output: u64,
    /// Whether instructions are counted instead of time.
    pub deterministic: bool,
}

/// A program, and its compiled form if it was compiled before.
#[derive(Clone, Copy)]
pub(crate) struct ProgramSource<'a> {
    pub text: &'a [u8],
    /// Empty if it was not compiled before.
    pub code: &'a [u8],
    /// Whether there are enough tests for it to pay off to run the program's definitions once for all: see [`Series`].
    pub many_tests: bool,
}

/// A cell of a session.
#[derive(Clone, Copy)]
pub(crate) struct Cell<'a> {
    /// Number of the session.
    pub id: u64,
    /// The program that runs cells, and its function.
    pub driver: &'a [u8],
    pub function: &'a str,
    /// The argument of that function as JSON.
    pub input: &'a [u8],
}

/// What a program did in a run.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    /// CPU time of the program.
    pub cpu: Duration,
    /// Peak memory above the interpreter's own, in bytes.
    pub memory: u64,
}

impl Run {
    /// A run in which the program did nothing.
    pub(crate) fn without(status: ExitStatus) -> Self {
        Self { status, stdout: Vec::new(), stderr: Vec::new(), cpu: Duration::ZERO, memory: 0 }
    }
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ExitStatus {
    /// The run completed, with a marshalled value or captured text.
    Returned(Vec<u8>),
    /// An uncaught exception, with its message.
    Raised(String),
    /// The program ended its process with this exit code.
    Exited(i32),
    /// The source does not compile.
    CompileError(String),
    /// Memory ran out, or the guest could not continue after a refused allocation.
    OutOfMemory,
    /// The program does not define the requested function.
    NoSuchFunction,
    /// An exception while loading the program.
    LoadFailed(String),
    /// An exception that would end the reference grader's own process.
    Fatal(String),
    /// Used more time than allowed.
    TimeLimit,
    /// Wrote more output than allowed.
    OutputLimit,
    /// The interpreter trapped: its stack overflowed, or it aborted.
    Trapped(String),
    /// The machine was too busy to give the program its CPU time.
    Starved,
    /// The program needs more memory than it was granted, though not more than allowed: to be run again with its full
    /// allowance.
    NeedsMemory,
    /// The verdict is no longer needed.
    Cancelled,
    /// A fault of neither the program nor the tests.
    Internal(String),
}
