//! The global allocator: mimalloc where the C library is glibc, which keeps up to 64 MiB for each of its arenas, for ever.
//!
//! mimalloc returns memory when a thread allocates, at its own pace: a thread that has nothing to do keeps the pages that it has freed. A
//! service that held many large messages for a moment would keep a part of them until it is as busy again, so that a thread that goes idle
//! collects first.

/// Returns what this thread and the process do not use to the system. To be called before a thread waits; does nothing within a second of
/// the last time.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) fn release_unused() {
    use std::cell::Cell;
    use std::time::{Duration, Instant};

    /// A collection takes some ten microseconds where there is nothing to collect, and memory that is used again costs page faults.
    const INTERVAL: Duration = Duration::from_secs(1);

    thread_local! {
        static LAST: Cell<Option<Instant>> = const { Cell::new(None) };
    }
    let now = Instant::now();
    if LAST.get().is_none_or(|last| now.duration_since(last) >= INTERVAL) {
        LAST.set(Some(now));
        #[expect(unsafe_code, reason = "the allocator has no other interface for this")]
        // SAFETY: it has no precondition; it frees nothing that is in use.
        unsafe {
            libmimalloc_sys::mi_collect(true);
        }
    }
}

/// Other allocators return memory by themselves.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn release_unused() {}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
