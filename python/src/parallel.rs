//! Work on many items by threads that end with the call: none is left that a forked process would wait for.

use std::num::NonZero;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Items that a thread takes at a time; fewer are not worth a thread.
const CHUNK: usize = 16;
/// The most threads, whatever is asked for.
pub(crate) const MAX_THREADS: usize = 256;

/// The processors that this process may use, by affinity and control group.
pub(crate) fn available() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get).min(MAX_THREADS)
}

/// The results for the items of a range, in order. `judge` is called once for each.
///
/// # Panics
/// If `judge` does.
pub(crate) fn map<T: Send>(items: Range<usize>, threads: usize, judge: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let threads = threads.min(items.len() / CHUNK).max(1);
    if threads == 1 {
        return items.map(judge).collect();
    }
    let next = AtomicUsize::new(items.start);
    let work = || {
        let mut done = Vec::new();
        loop {
            let start = next.fetch_add(CHUNK, Ordering::Relaxed);
            if start >= items.end {
                return done;
            }
            let chunk = start..items.end.min(start.saturating_add(CHUNK));
            done.push((start, chunk.map(&judge).collect::<Vec<T>>()));
        }
    };
    let mut chunks = thread::scope(|scope| {
        // A thread that cannot be started is done without: this one works too.
        let others: Vec<_> =
            (1..threads).map_while(|_| thread::Builder::new().spawn_scoped(scope, work).ok()).collect();
        let mut chunks = work();
        for other in others {
            chunks.extend(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        chunks
    });
    chunks.sort_unstable_by_key(|(start, _)| *start);
    chunks.into_iter().flat_map(|(_, results)| results).collect()
}
