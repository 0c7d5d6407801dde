//! A limit of time for what a GPU may never answer.

use std::sync::{OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use super::error::DriverError;

/// How long each call at the start of a process may take. With many devices that nothing has in use the first call
/// takes some seconds.
const LIMIT: Duration = Duration::from_secs(60);

/// The calls of this process.
pub(super) static ANSWERS: Answers = Answers::within(LIMIT);

/// Calls that must return in time. After one that did not, further calls fail at once.
pub(super) struct Answers {
    limit: Duration,
    silent: OnceLock<DriverError>,
}

impl Answers {
    pub(super) const fn within(limit: Duration) -> Self {
        Self { limit, silent: OnceLock::new() }
    }

    /// The result of `call`, which runs in a thread of its own. If a device hangs or was lost, that thread stays.
    ///
    /// # Errors
    /// No answer within the limit, or none to a call before.
    pub(super) fn of<T: Send + 'static>(
        &self,
        name: &'static str,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, DriverError> {
        if let Some(error) = self.silent.get() {
            return Err(error.clone());
        }
        let (answer, answered) = mpsc::channel();
        let thread = thread::spawn(move || {
            // Nobody listens to what comes too late.
            let _ = answer.send(call());
        });
        match answered.recv_timeout(self.limit) {
            Ok(result) => Ok(result),
            Err(mpsc::RecvTimeoutError::Timeout) => {
                let error = DriverError::Silent { call: name, limit: self.limit };
                Err(self.silent.get_or_init(|| error).clone())
            }
            // The call panicked.
            Err(mpsc::RecvTimeoutError::Disconnected) => match thread.join() {
                Err(panic) => std::panic::resume_unwind(panic),
                Ok(()) => unreachable!("a call that returns sends its result"),
            },
        }
    }
}

/// The result of a call at the start of a process that a GPU may never answer: it fails after 60 seconds. The call runs
/// in a thread of its own, to which the caller's CUDA context is not bound.
///
/// # Errors
/// [`DriverError::Silent`], which names the call, and for every further call the same at once.
pub fn answered<T: Send + 'static>(
    name: &'static str,
    call: impl FnOnce() -> T + Send + 'static,
) -> Result<T, DriverError> {
    ANSWERS.of(name, call)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_call_that_does_not_return_is_given_up_after_its_time_and_none_is_made_after_it() {
        static CALLS: AtomicUsize = AtomicUsize::new(0);
        let answers = Answers::within(Duration::from_millis(500));
        let hangs = || {
            CALLS.fetch_add(1, Ordering::SeqCst);
            thread::sleep(Duration::from_secs(20));
        };
        let began = Instant::now();
        let error = answers.of("loading the kernels", hangs).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the GPU has not answered within 500ms (loading the kernels): it hangs or was lost; the kernel's log names \
             the cause as an Xid"
        );
        assert_eq!(answers.of("cuInit", hangs), Err(error));
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        assert_eq!(CALLS.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_call_that_returns_in_time_has_its_result() {
        assert_eq!(answered("cuInit", || 100), Ok(100));
    }

    #[test]
    #[should_panic(expected = "a defect")]
    fn a_call_that_panics_does_so_in_its_caller() {
        let _ = Answers::within(LIMIT).of("cuInit", || panic!("a defect"));
    }
}
