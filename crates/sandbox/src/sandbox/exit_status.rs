//! How a run ended, as claimed by the guest and as observed by the host.

use wasmtime::Trap;

use crate::run::ExitStatus;

/// Bytes of an error message that are kept. The guest truncates messages to this length, unless the program manipulates
/// it.
const MESSAGE_BYTES: usize = 4096;

/// Why the host ended a guest in the middle of its work. Passed through the engine as the error of a host call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Termination {
    /// The program used up its time: CPU time and sleep.
    #[error("used more time than allowed")]
    Time,
    /// The wall clock ran far ahead of the thread's CPU clock: the machine was too busy for a verdict.
    #[error("the machine gave the program too little time")]
    Starved,
    /// The guest wrote more output than allowed.
    #[error("wrote more than allowed")]
    Output,
    /// Memory, native stack and buffered output of the guest exceed the limit.
    #[error("used more memory than allowed")]
    Memory,
    /// The guest needs more memory than it was granted, though not more than allowed.
    #[error("needs more memory than the machine has available")]
    NeedsMemory,
    /// The verdict is no longer needed.
    #[error("cancelled")]
    Cancelled,
    /// The program ended its process (`os._exit`) with this exit code.
    #[error("exited with status {0}")]
    Exited(i32),
}

impl ExitStatus {
    /// Decodes what the guest returned: a number of `guest/exit_status.py` with a payload, of at most `max_bytes`. A
    /// program can forge either, so that no number means a fault that is not the program's own: only the host detects
    /// those.
    pub(crate) fn claimed(number: u32, payload: Vec<u8>, max_bytes: u64) -> Self {
        let message =
            |payload: Vec<u8>| String::from_utf8_lossy(&payload[..payload.len().min(MESSAGE_BYTES)]).into_owned();
        match number {
            0 if payload.len() as u64 > max_bytes => Self::OutputLimit,
            0 => Self::Returned(payload),
            1 => Self::Raised(message(payload)),
            2 => match message(payload).parse() {
                Ok(code) => Self::Exited(code),
                Err(_) => Self::Raised("exited with an invalid exit code".to_owned()),
            },
            3 => Self::CompileError(message(payload)),
            4 => Self::OutOfMemory,
            5 => Self::NoSuchFunction,
            6 => Self::LoadFailed(message(payload)),
            7 => Self::Fatal(message(payload)),
            other => Self::Raised(format!("returned the unknown status {other}")),
        }
    }

    /// Interprets an error of the engine. `refused` says whether a memory allocation was refused before.
    pub(crate) fn of_error(error: &wasmtime::Error, refused: bool) -> Self {
        if let Some(termination) = error.downcast_ref::<Termination>() {
            return match termination {
                Termination::Time => Self::TimeLimit,
                Termination::Starved => Self::Starved,
                Termination::Output => Self::OutputLimit,
                Termination::Memory => Self::OutOfMemory,
                Termination::NeedsMemory => Self::NeedsMemory,
                Termination::Cancelled => Self::Cancelled,
                Termination::Exited(code) => Self::Exited(*code),
            };
        }
        match error.downcast_ref::<Trap>() {
            Some(Trap::OutOfFuel) => Self::TimeLimit,
            Some(_) if refused => Self::OutOfMemory,
            Some(Trap::StackOverflow) => Self::Trapped("the call stack of the interpreter overflowed".to_owned()),
            Some(trap) => Self::Trapped(format!("the interpreter trapped: {trap}")),
            // A host function refused something that no program needs.
            None => Self::Trapped(format!("the sandbox refused: {error}")),
        }
    }
}
