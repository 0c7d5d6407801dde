//! Independent pieces of work on the threads of the host: files that are written, tensors that are read.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::error::Result;

/// Threads, at most: more would wait for the memory or the disk.
const MOST: usize = 8;

/// The number of threads to use: as many as there are processors, up to eight.
pub(crate) fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(MOST)
}

/// Runs `work` for each number below `count` on [`threads`].
///
/// # Errors
/// As [`on_threads`].
pub(crate) fn in_parallel<T: Send>(count: usize, work: impl Fn(usize) -> Result<T> + Sync) -> Result<Vec<T>> {
    on_threads(threads(), count, work)
}

/// Runs `work` for each number below `count` on that many threads, and returns the results in order, or the error of
/// the lowest number that failed. Nothing is begun after an error.
pub(crate) fn on_threads<T: Send>(
    threads: usize,
    count: usize,
    work: impl Fn(usize) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let threads = threads.min(count);
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let done = Mutex::new(Vec::with_capacity(count));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !failed.load(Ordering::Relaxed) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        break;
                    }
                    let result = work(number);
                    failed.fetch_or(result.is_err(), Ordering::Relaxed);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((number, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, result)| result).collect()
}
