//! The signals that end a command: Ctrl-C from a person, SIGTERM from a scheduler, SIGHUP from a terminal that is gone.

use std::io;

use evenkeel_rpc::server::signals_are_handled;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Number of SIGHUP, as the kernel counts.
const HANGUP: u32 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Received {
    Interrupt,
    Terminate,
    HangUp,
}

impl Received {
    /// Exit status of a process that this has ended, by the convention of shells.
    pub(crate) fn exit_status(self) -> u8 {
        match self {
            Self::Interrupt => 130,
            Self::Terminate => 143,
            Self::HangUp => 129,
        }
    }

    /// Whether a person may press it again; the others are followed by SIGKILL.
    pub(crate) fn is_from_person(self) -> bool {
        self == Self::Interrupt
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Interrupt => "Ctrl-C",
            Self::Terminate => "SIGTERM",
            Self::HangUp => "SIGHUP",
        }
    }
}

/// Signals that end the process. From the first value on none of them ends it by itself.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// Absent where it was ignored when the process started, as `nohup` has it: it stays ignored.
    hang_up: Option<Signal>,
}

impl Signals {
    /// # Errors
    /// The system refuses a handler.
    pub(crate) fn listen() -> io::Result<Self> {
        // The first process of a container would end at the first SIGTERM otherwise.
        signals_are_handled();
        let hang_up = if is_ignored(HANGUP) { None } else { Some(signal(SignalKind::hangup())?) };
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())?, hang_up })
    }

    pub(crate) async fn next(&mut self) -> Received {
        let hang_up = async {
            match &mut self.hang_up {
                Some(signal) => received(signal).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = received(&mut self.interrupt) => Received::Interrupt,
            () = received(&mut self.terminate) => Received::Terminate,
            () = hang_up => Received::HangUp,
        }
    }
}

async fn received(signal: &mut Signal) {
    if signal.recv().await.is_none() {
        // There will be no further one.
        std::future::pending().await
    }
}

/// Whether this process ignores a signal. Unknown counts as no.
fn is_ignored(number: u32) -> bool {
    std::fs::read_to_string("/proc/self/status").is_ok_and(|status| ignores(&status, number))
}

/// Whether a process with that `/proc/PID/status` ignores a signal.
fn ignores(status: &str, number: u32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (number - 1) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_was_ignored_at_the_start_is_found_in_the_mask_of_the_process() {
        let status = |mask: &str| format!("Name:\tevenkeel\nSigBlk:\t0000000000000000\nSigIgn:\t{mask}\n");
        assert!(ignores(&status("0000000000000001"), HANGUP) && ignores(&status("0000000000001001"), HANGUP));
        assert!(!ignores(&status("0000000000001000"), HANGUP) && !ignores("Name: other", HANGUP));
    }
}
