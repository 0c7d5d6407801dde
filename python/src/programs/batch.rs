//! Programs that are submitted and waited for together.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use evenkeel_sandbox::{Pool, ProgramLimits, ProgramSubmission, ProgramTask, ProgramVerdict, RewardRule};
use pyo3::prelude::*;
use pyo3::types::PyString;
use tokio_util::sync::CancellationToken;

use super::own_process::OwnProcess;
use super::report::{Values, values};
use super::tests::CodeTests;
use crate::errors::guarded;
use crate::released::released;
use crate::text::lossy;

/// How long a wait may take before signals are looked for.
const BETWEEN_SIGNALS: Duration = Duration::from_millis(50);

/// Programs that are submitted and waited for together. Dropping it cancels those without a verdict.
#[pyclass(frozen, name = "_Batch", module = "evenkeel_rlvr._native")]
pub(crate) struct Batch {
    inner: OwnProcess<Inner>,
}

struct Inner {
    pool: Arc<Pool>,
    shared: Arc<Delivered>,
    /// What cancels each program without a verdict, by its key.
    running: Mutex<HashMap<u64, CancellationToken>>,
    /// The end that is readable, of which the threads of the pool have the other one.
    wakes: Option<UnixStream>,
}

/// What the threads of the pool deliver to.
struct Delivered {
    finished: Mutex<Vec<(u64, ProgramVerdict)>>,
    changed: Condvar,
    /// Verdicts that are waited for; read and written under the lock of `finished`.
    wanted: AtomicUsize,
    wake: Option<UnixStream>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Delivered {
    fn deliver(&self, key: u64, verdict: ProgramVerdict) {
        let mut finished = lock(&self.finished);
        finished.push((key, verdict));
        if finished.len() >= self.wanted.load(Ordering::Relaxed) {
            self.changed.notify_all();
        }
        drop(finished);
        if let Some(mut wake) = self.wake.as_ref() {
            // A full buffer has woken the reader already.
            let _ = wake.write(&[0]);
        }
    }
}

impl Batch {
    pub(super) fn new(pool: Arc<Pool>, readable: bool) -> io::Result<Self> {
        let (wakes, wake) = if readable {
            let (wakes, wake) = UnixStream::pair()?;
            wakes.set_nonblocking(true)?;
            wake.set_nonblocking(true)?;
            (Some(wakes), Some(wake))
        } else {
            (None, None)
        };
        let shared = Arc::new(Delivered {
            finished: Mutex::default(),
            changed: Condvar::new(),
            wanted: AtomicUsize::new(1),
            wake,
        });
        Ok(Self { inner: OwnProcess::new(Inner { pool, shared, running: Mutex::default(), wakes }) })
    }
}

#[pymethods]
impl Batch {
    /// Submits a program. False if the pool has as many as it takes, or is closed.
    #[allow(clippy::too_many_arguments)]
    fn submit(
        &self,
        py: Python<'_>,
        key: u64,
        completion: &Bound<'_, PyString>,
        tests: &Bound<'_, CodeTests>,
        partial: bool,
        cpu_s: Option<f64>,
        memory_bytes: Option<u64>,
        deterministic: bool,
    ) -> PyResult<bool> {
        guarded(py, || {
            let inner = self.inner.get(py)?;
            let default = ProgramLimits::default();
            let limits = ProgramLimits {
                cpu: cpu_s.map_or(Ok(default.cpu), Duration::try_from_secs_f64).unwrap_or(default.cpu),
                memory_bytes: memory_bytes.unwrap_or(default.memory_bytes),
                deterministic,
                ..default
            };
            let text = lossy(completion);
            let tests = Arc::clone(&tests.get().tests);
            // Finding the program takes as long as the text is.
            Ok(released(py, || {
                let submission = ProgramSubmission::Completion(text.into_owned());
                let reward = if partial { RewardRule::PassedFraction } else { RewardRule::AllOrNothing };
                let task = ProgramTask { limits, reward, ..ProgramTask::new(submission, tests) };
                let cancel = CancellationToken::new();
                lock(&inner.running).insert(key, cancel.clone());
                let shared = Arc::clone(&inner.shared);
                let submitted = inner.pool.submit(task, cancel, move |verdict| shared.deliver(key, verdict));
                if submitted.is_err() {
                    lock(&inner.running).remove(&key);
                }
                submitted.is_ok()
            }))
        })
    }

    /// Verdicts by their keys: waits for so many (to be woken for each one takes time from the workers), at most so
    /// many seconds, or until a signal's handler raises.
    #[pyo3(signature = (seconds, count=1))]
    fn wait(&self, py: Python<'_>, seconds: f64, count: usize) -> PyResult<Vec<(u64, Values)>> {
        guarded(py, || {
            let inner = self.inner.get(py)?;
            let until = Instant::now() + Duration::try_from_secs_f64(seconds).unwrap_or_default();
            let mut found = Vec::new();
            loop {
                found.extend(released(py, || inner.take(until, count.saturating_sub(found.len()).max(1))));
                py.check_signals()?;
                if found.len() >= count || Instant::now() >= until {
                    return Ok(found.into_iter().map(|(key, verdict)| (key, values(verdict))).collect());
                }
            }
        })
    }

    /// Ends a program; its verdict is that it was cancelled, or the one that it has.
    fn cancel(&self, py: Python<'_>, key: u64) -> PyResult<()> {
        if let Some(cancel) = lock(&self.inner.get(py)?.running).get(&key) {
            cancel.cancel();
        }
        Ok(())
    }

    /// Programs without a verdict.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(lock(&self.inner.get(py)?.running).len())
    }

    /// A file descriptor that is readable when there are verdicts, if it was asked for.
    fn fileno(&self, py: Python<'_>) -> PyResult<Option<i32>> {
        Ok(self.inner.get(py)?.wakes.as_ref().map(AsRawFd::as_raw_fd))
    }

    /// Ends all programs without a verdict.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.inner.get(py)?.cancel_all();
        Ok(())
    }
}

impl Inner {
    fn take(&self, until: Instant, count: usize) -> Vec<(u64, ProgramVerdict)> {
        let mut finished = lock(&self.shared.finished);
        if finished.len() < count {
            self.shared.wanted.store(count, Ordering::Relaxed);
            let patience = until.saturating_duration_since(Instant::now()).min(BETWEEN_SIGNALS);
            finished = self.shared.changed.wait_timeout(finished, patience).unwrap_or_else(PoisonError::into_inner).0;
        }
        let found = std::mem::take(&mut *finished);
        drop(finished);
        if let Some(mut wakes) = self.wakes.as_ref() {
            // Until it would block.
            while wakes.read(&mut [0; 64]).is_ok_and(|count| count > 0) {}
        }
        let mut running = lock(&self.running);
        for (key, _) in &found {
            running.remove(key);
        }
        found
    }

    fn cancel_all(&self) {
        for cancel in lock(&self.running).values() {
            cancel.cancel();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.cancel_all();
    }
}
