//! Threads that run closures one after the other.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;

/// A thread that runs closures in the order in which they are submitted. Once this is dropped, it exits after the last
/// one.
pub(crate) struct SerialThread(mpsc::Sender<Box<dyn FnOnce() + Send>>);

impl SerialThread {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub(crate) fn start(name: &str) -> std::io::Result<Self> {
        let (sender, receiver) = mpsc::channel::<Box<dyn FnOnce() + Send>>();
        std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            for job in receiver {
                // Whoever waits for a job that panics sees that its channel was dropped.
                let _ = catch_unwind(AssertUnwindSafe(job));
            }
        })?;
        Ok(Self(sender))
    }

    pub(crate) fn submit(&self, job: impl FnOnce() + Send + 'static) {
        // The thread outlives the sender.
        let _ = self.0.send(Box::new(job));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_affects_only_its_own_job() {
        let thread = SerialThread::start("test").unwrap();
        thread.submit(|| panic!("as the test wants it"));
        let (sender, receiver) = mpsc::channel();
        thread.submit(move || sender.send(7).unwrap());
        assert_eq!(receiver.recv(), Ok(7));
    }
}
