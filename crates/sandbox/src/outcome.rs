//! What a program did.

/// What a program did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProgramOutcome {
    /// The program passed every test.
    Pass,
    /// A test had the wrong output.
    WrongAnswer,
    /// The program raised an exception or terminated abnormally.
    RuntimeError,
    /// The program does not compile.
    CompileError,
    /// Used more time than allowed.
    TimeLimit,
    /// Used more memory than allowed.
    MemoryLimit,
    /// Wrote more output than allowed.
    OutputLimit,
    /// The completion contains no program.
    NoCode,
    /// There is no verdict, through no fault of the program.
    Invalid(Invalid),
}

/// Why there is no verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Invalid {
    /// The tests are invalid: a defect of the data.
    BadTests,
    /// The machine was too busy to give the program its CPU time within the wall clock limit.
    Starved,
    /// The machine had less memory available than the program was allowed.
    InsufficientMemory,
    /// The worker process was ended from outside twice, for example by the out-of-memory killer.
    Lost,
    /// The verdict is no longer needed.
    Cancelled,
    /// A defect of this worker.
    Internal,
}

impl ProgramOutcome {
    /// Name of the outcome in snake case, for rows, metrics and reason codes.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::WrongAnswer => "wrong_answer",
            Self::RuntimeError => "runtime_error",
            Self::CompileError => "compile_error",
            Self::TimeLimit => "time_limit",
            Self::MemoryLimit => "memory_limit",
            Self::OutputLimit => "output_limit",
            Self::NoCode => "no_code",
            Self::Invalid(Invalid::BadTests) => "bad_tests",
            Self::Invalid(Invalid::Starved) => "starved",
            Self::Invalid(Invalid::InsufficientMemory) => "insufficient_memory",
            Self::Invalid(Invalid::Lost) => "lost",
            Self::Invalid(Invalid::Cancelled) => "cancelled",
            Self::Invalid(Invalid::Internal) => "internal",
        }
    }
}
