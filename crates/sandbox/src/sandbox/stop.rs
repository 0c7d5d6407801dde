//! Why the host stopped a guest.

/// The reason for which the host ended a guest in the middle of its work. Travels as the error of a host call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Stop {
    /// The program used up its time: CPU time, and what it slept.
    #[error("used more time than allowed")]
    Time,
    /// The wall clock ran far ahead of the thread's own: the machine was too busy for a verdict.
    #[error("the machine gave the program too little time")]
    Starved,
    /// It wrote more than it may.
    #[error("wrote more than allowed")]
    Output,
    /// The native stack and what the host holds for it came to more memory than allowed.
    #[error("used more memory than allowed")]
    Memory,
    /// It needs more memory than was granted to it, though no more than allowed.
    #[error("needs more memory than the machine has left")]
    Crowded,
    /// Nobody waits for the verdict any more.
    #[error("cancelled")]
    Cancelled,
    /// The program ended its process (`os._exit`) with this status.
    #[error("exited with status {0}")]
    Exited(i32),
}
