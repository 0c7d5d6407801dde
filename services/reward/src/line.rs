//! Threads for work that is done one after the other.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;

/// A thread that does what it is given, in that order. It ends with the last that was given once this is dropped.
pub(crate) struct Line(mpsc::Sender<Box<dyn FnOnce() + Send>>);

impl Line {
    /// # Errors
    /// The system has no thread to give.
    pub(crate) fn start(name: &str) -> std::io::Result<Self> {
        let (sender, receiver) = mpsc::channel::<Box<dyn FnOnce() + Send>>();
        std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            for work in receiver {
                // Whoever waits sees that what would have answered is gone.
                let _ = catch_unwind(AssertUnwindSafe(work));
            }
        })?;
        Ok(Self(sender))
    }

    /// Puts work at the end.
    pub(crate) fn put(&self, work: impl FnOnce() + Send + 'static) {
        // The thread outlives every sender.
        let _ = self.0.send(Box::new(work));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_panics_costs_itself_alone() {
        let line = Line::start("test").unwrap();
        line.put(|| panic!("as the test wants it"));
        let (sender, receiver) = mpsc::channel();
        line.put(move || sender.send(7).unwrap());
        assert_eq!(receiver.recv(), Ok(7));
    }
}
