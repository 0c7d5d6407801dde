//! How a run ended, as the guest claims and as the host saw.

use wasmtime::Trap;

use super::stop::Stop;

/// Bytes of an error's text that are believed; the guest cuts there as well, where a program left it whole.
const TEXT_BYTES: usize = 4096;

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It came to its end, with a value in marshal's form or captured text.
    Returned(Vec<u8>),
    /// An exception that nothing caught; its text.
    Raised(String),
    /// It ended its process with this status.
    Exited(i32),
    /// The source does not compile.
    NotAProgram(String),
    /// Memory ran out, or a growth was refused and the guest could not go on.
    OutOfMemory,
    /// The program has no function of the name that was asked for.
    NoSuchFunction,
    /// An exception while the program was loaded.
    NotLoaded(String),
    /// An exception that ends the reference grader's own process.
    Died(String),
    /// More time than allowed.
    TimeLimit,
    /// More output than allowed.
    OutputLimit,
    /// The interpreter itself broke off: its stack ran out, or it aborted.
    Trapped(String),
    /// The machine had too little time for a verdict.
    Starved,
    /// It needs more memory than was granted to it, though no more than allowed: to be run again where there is room.
    Crowded,
    /// Nobody waits any more.
    Cancelled,
    /// Neither the program's doing nor the tests'.
    Broken(String),
}

impl Ending {
    /// Reads the guest's answer. The numbers are those of `guest/ending.py`; any other is a program that forged one. None of them says
    /// that the program is not to blame: that is found on the host alone. `most` is how many bytes an answer may have.
    pub(crate) fn claimed(status: u32, rest: Vec<u8>, most: u64) -> Self {
        let text = |rest: Vec<u8>| String::from_utf8_lossy(&rest[..rest.len().min(TEXT_BYTES)]).into_owned();
        match status {
            0 if rest.len() as u64 > most => Self::OutputLimit,
            0 => Self::Returned(rest),
            1 => Self::Raised(text(rest)),
            2 => match text(rest).parse() {
                Ok(status) => Self::Exited(status),
                Err(_) => Self::Raised("exited with a status that is none".to_owned()),
            },
            3 => Self::NotAProgram(text(rest)),
            4 => Self::OutOfMemory,
            5 => Self::NoSuchFunction,
            6 => Self::NotLoaded(text(rest)),
            7 => Self::Died(text(rest)),
            other => Self::Raised(format!("answered with the status {other}, which there is none of")),
        }
    }

    /// What an error of the engine means. `refused` says that a growth of memory was refused before.
    pub(crate) fn stopped(error: &wasmtime::Error, refused: bool) -> Self {
        if let Some(stop) = error.downcast_ref::<Stop>() {
            return match stop {
                Stop::Time => Self::TimeLimit,
                Stop::Starved => Self::Starved,
                Stop::Output => Self::OutputLimit,
                Stop::Memory => Self::OutOfMemory,
                Stop::Crowded => Self::Crowded,
                Stop::Cancelled => Self::Cancelled,
                Stop::Exited(status) => Self::Exited(*status),
            };
        }
        match error.downcast_ref::<Trap>() {
            Some(Trap::OutOfFuel) => Self::TimeLimit,
            Some(_) if refused => Self::OutOfMemory,
            Some(Trap::StackOverflow) => Self::Trapped("the call stack of the interpreter ran out".to_owned()),
            Some(trap) => Self::Trapped(format!("the interpreter broke off: {trap}")),
            // A host function refused: the guest asked for something that no program needs.
            None => Self::Trapped(format!("the sandbox refused: {error}")),
        }
    }
}
