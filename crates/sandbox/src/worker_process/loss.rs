//! How a worker process was lost: it crashed, or something else ended it.

use std::fmt;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

/// A process whose pipe is closed is about to exit; how long that may take.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Signals of a crash: SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGSYS. The numbers are those of Linux on
/// x86-64 and ARM; macOS numbers SIGBUS and SIGSYS differently.
#[cfg(target_os = "linux")]
const CRASH_SIGNALS: [i32; 7] = [4, 5, 6, 7, 8, 11, 31];
#[cfg(not(target_os = "linux"))]
const CRASH_SIGNALS: [i32; 7] = [4, 5, 6, 10, 8, 11, 12];

/// How a worker process was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ProcessLoss {
    /// The process crashed, possibly because of the program that it ran.
    Crash(String),
    /// The process was killed from outside (for example by the out-of-memory killer) or does not respond: nothing that
    /// a program can cause.
    External(String),
}

impl ProcessLoss {
    /// Classifies the loss of a process whose pipe failed with this error.
    pub(super) fn of(child: &mut Child, error: &io::Error) -> Self {
        let began = Instant::now();
        while began.elapsed() < EXIT_TIMEOUT && error.kind() != io::ErrorKind::TimedOut {
            match child.try_wait() {
                Ok(Some(status)) => return Self::from_status(status),
                Ok(None) => thread::sleep(POLL_INTERVAL),
                Err(_) => break,
            }
        }
        Self::External(error.to_string())
    }

    fn from_status(status: ExitStatus) -> Self {
        match status.signal() {
            Some(signal) if CRASH_SIGNALS.contains(&signal) => Self::Crash(status.to_string()),
            Some(_) => Self::External(status.to_string()),
            // A worker process exits unasked only if one of its threads panicked.
            None => Self::Crash(status.to_string()),
        }
    }
}

impl fmt::Display for ProcessLoss {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Crash(how) | Self::External(how)) = self;
        write!(formatter, "the worker process of the sandbox was lost: {how}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crash_is_distinguished_from_being_killed() {
        let classify = |raw| ProcessLoss::from_status(ExitStatus::from_raw(raw));
        for killed in [1, 2, 9, 15, 24] {
            assert!(matches!(classify(killed), ProcessLoss::External(_)), "{killed}");
        }
        for crashed in [4, 6, 8, 11, 11 | 0x80, 101 << 8, 0] {
            assert!(matches!(classify(crashed), ProcessLoss::Crash(_)), "{crashed}");
        }
    }
}
