//! The first call of a driver, which may never return.

use std::ffi::c_int;
use std::sync::{OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use super::error::DriverError;

/// How long it may take: with many devices that nothing has in use it takes some seconds.
pub(super) const FIRST_ANSWER: Duration = Duration::from_secs(60);

/// Calls `cuInit` in a thread of its own, which stays where a device hangs or was lost. `silent` remembers that: what
/// asks again is told at once.
///
/// # Errors
/// No answer within the limit, or none to a call before.
pub(super) fn first_call(
    init: unsafe extern "C" fn(u32) -> c_int,
    limit: Duration,
    silent: &OnceLock<DriverError>,
) -> Result<c_int, DriverError> {
    if let Some(error) = silent.get() {
        return Err(error.clone());
    }
    let (answer, answered) = mpsc::channel();
    thread::spawn(move || {
        // SAFETY: the flags must be 0.
        let code = unsafe { init(0) };
        // Nobody listens to what comes too late.
        let _ = answer.send(code);
    });
    let no_answer = |_| silent.get_or_init(|| DriverError::Silent { call: "cuInit", limit }).clone();
    answered.recv_timeout(limit).map_err(no_answer)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Instant;

    use super::*;

    static CALLS: AtomicUsize = AtomicUsize::new(0);

    unsafe extern "C" fn hangs(_: u32) -> c_int {
        CALLS.fetch_add(1, Ordering::SeqCst);
        thread::sleep(Duration::from_secs(20));
        0
    }

    unsafe extern "C" fn answers(_: u32) -> c_int {
        100
    }

    #[test]
    fn a_driver_that_does_not_answer_is_given_up_after_its_time_and_not_asked_again() {
        let silent = OnceLock::new();
        let began = Instant::now();
        let error = first_call(hangs, Duration::from_millis(500), &silent).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the driver has not answered cuInit within 500ms: a device hangs or was lost, of which the kernel's log \
             names the cause as an Xid"
        );
        assert_eq!(first_call(hangs, FIRST_ANSWER, &silent), Err(error));
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        assert_eq!(CALLS.load(Ordering::SeqCst), 1);
        assert_eq!(first_call(answers, FIRST_ANSWER, &OnceLock::new()), Ok(100));
    }
}
