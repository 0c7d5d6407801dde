//! Threads that run tasks one after the other.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;

/// A thread that runs tasks in the order in which they are submitted. Once this is dropped, it exits after the last task.
pub(crate) struct TaskThread(mpsc::Sender<Box<dyn FnOnce() + Send>>);

impl TaskThread {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub(crate) fn start(name: &str) -> std::io::Result<Self> {
        let (sender, receiver) = mpsc::channel::<Box<dyn FnOnce() + Send>>();
        std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            for task in receiver {
                // A client of a task that panics notices that its channel was dropped.
                let _ = catch_unwind(AssertUnwindSafe(task));
            }
        })?;
        Ok(Self(sender))
    }

    /// Submits a task.
    pub(crate) fn submit(&self, task: impl FnOnce() + Send + 'static) {
        // The thread outlives the sender.
        let _ = self.0.send(Box::new(task));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_affects_only_its_own_task() {
        let thread = TaskThread::start("test").unwrap();
        thread.submit(|| panic!("as the test wants it"));
        let (sender, receiver) = mpsc::channel();
        thread.submit(move || sender.send(7).unwrap());
        assert_eq!(receiver.recv(), Ok(7));
    }
}
