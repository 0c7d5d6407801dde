//! How a process was lost: by its own doing, or by somebody else's.

use std::fmt;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

/// A process whose pipe is closed is about to end; how long that may take.
const ENDS: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(1);

/// Signals by which a process breaks down itself: SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGSYS. They have these numbers on
/// every Linux that has x86-64 or ARM; macOS has others for SIGBUS and SIGSYS.
#[cfg(target_os = "linux")]
const BREAKDOWNS: [i32; 7] = [4, 5, 6, 7, 8, 11, 31];
#[cfg(not(target_os = "linux"))]
const BREAKDOWNS: [i32; 7] = [4, 5, 6, 10, 8, 11, 12];

/// What ended a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// It broke down, which the program that it ran may have brought about.
    Crash(String),
    /// It was ended from outside (by the machine's out-of-memory killer, say), or does not answer: nothing that a program can do.
    Outside(String),
}

impl Loss {
    /// What has become of a process that answered with this error.
    pub(super) fn of(child: &mut Child, error: &io::Error) -> Self {
        let began = Instant::now();
        while began.elapsed() < ENDS && error.kind() != io::ErrorKind::TimedOut {
            match child.try_wait() {
                Ok(Some(status)) => return Self::by(status),
                Ok(None) => thread::sleep(LOOK),
                Err(_) => break,
            }
        }
        Self::Outside(error.to_string())
    }

    fn by(status: ExitStatus) -> Self {
        match status.signal() {
            Some(signal) if BREAKDOWNS.contains(&signal) => Self::Crash(status.to_string()),
            Some(_) => Self::Outside(status.to_string()),
            // It ends so only where a thread of its own panicked.
            None => Self::Crash(status.to_string()),
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Crash(how) | Self::Outside(how)) = self;
        write!(formatter, "the process of the sandbox was lost: {how}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_does_to_itself_is_told_from_what_is_done_to_it() {
        let by = |raw| Loss::by(ExitStatus::from_raw(raw));
        for outside in [1, 2, 9, 15, 24] {
            assert!(matches!(by(outside), Loss::Outside(_)), "{outside}");
        }
        for own in [4, 6, 8, 11, 11 | 0x80, 101 << 8, 0] {
            assert!(matches!(by(own), Loss::Crash(_)), "{own}");
        }
    }
}
