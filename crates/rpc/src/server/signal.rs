//! The signals that shut down a server.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

/// Exit status after a Ctrl-C that ends the draining: the shell convention for SIGINT.
const INTERRUPTED: i32 = 130;

/// Exit status after a SIGTERM before there is anything to drain: the shell convention.
#[cfg(unix)]
const TERMINATED: i32 = 143;

/// Whether a server has begun to listen for signals.
static DRAINS: AtomicBool = AtomicBool::new(false);

/// Lets SIGTERM end this process until a server drains on it. Call it within a runtime, in the first process of a
/// container: only for that process does the kernel ignore a signal without a handler, so a container stopped while it
/// loads would run until it is killed.
///
/// # Errors
/// The system refuses the handler.
#[cfg(unix)]
pub fn exit_on_early_signal() -> io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::spawn(async move {
        terminate.recv().await;
        if !DRAINS.load(Ordering::SeqCst) {
            tracing::info!(signal = "SIGTERM", "ended before anything was served");
            std::process::exit(TERMINATED);
        }
    });
    Ok(())
}

/// Says that this process handles its signals from now on, so that [`exit_on_early_signal`] ends nothing any more.
pub fn signals_are_handled() {
    DRAINS.store(true, Ordering::SeqCst);
}

/// Other systems have no such process.
///
/// # Errors
/// None.
#[cfg(not(unix))]
pub fn exit_on_early_signal() -> io::Result<()> {
    Ok(())
}

/// Completes at the first SIGTERM or Ctrl-C. A Ctrl-C after it exits the process at once; a SIGTERM changes nothing,
/// since schedulers send it repeatedly.
pub async fn shutdown_signal() {
    let mut signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(error) => {
            // Without a handler the default action ends the process.
            tracing::warn!(%error, "cannot listen for signals; the server will end without draining");
            return std::future::pending().await;
        }
    };
    DRAINS.store(true, Ordering::SeqCst);
    let name = signals.next().await;
    tracing::info!(signal = name, "draining; Ctrl-C exits at once");
    tokio::spawn(async move {
        signals.interrupted().await;
        tracing::warn!(signal = "SIGINT", "exiting without draining");
        std::process::exit(INTERRUPTED);
    });
}

#[cfg(unix)]
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }

    async fn interrupted(&mut self) {
        self.interrupt.recv().await;
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn listen() -> io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) -> &'static str {
        match tokio::signal::ctrl_c().await {
            Ok(()) => "Ctrl-C",
            Err(_) => std::future::pending().await,
        }
    }

    async fn interrupted(&mut self) {
        self.next().await;
    }
}
