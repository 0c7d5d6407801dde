//! How memory that was freed goes back to the system.
//!
//! glibc keeps it for the next allocation: it raises its thresholds to the largest block that was ever freed (up to 64
//! MiB for each of its arenas), and gives back the end of a heap only. A service that held many large messages for a
//! moment would stay as large as its peak. Other C libraries need none of this.

/// Sets fixed thresholds, and starts the thread that returns free pages from the middle of heaps. To be called once,
/// before other threads.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) fn return_freed_memory() -> std::io::Result<()> {
    use std::thread;
    use std::time::Duration;

    /// Larger blocks are mapped each on its own, and unmapped when they are freed. Tensors of that size are reused by
    /// the code that computes.
    const MAP_FROM_BYTES: libc::c_int = 1 << 20;
    /// Free bytes at the end of a heap from which it shrinks at once; the rest waits for the thread. A heap that
    /// shrinks and grows with every message spends more time on pages than on what is in them.
    const SHRINK_FROM_BYTES: libc::c_int = 8 << 20;
    /// A trim costs about a millisecond for a hundred megabytes, and page faults where what it returned is needed
    /// again.
    const INTERVAL: Duration = Duration::from_secs(10);

    for (name, value) in [(libc::M_MMAP_THRESHOLD, MAP_FROM_BYTES), (libc::M_TRIM_THRESHOLD, SHRINK_FROM_BYTES)] {
        #[expect(unsafe_code, reason = "the C library has no other interface for this")]
        // SAFETY: both take any size; no other thread allocates yet.
        let accepted = unsafe { libc::mallopt(name, value) };
        debug_assert_eq!(accepted, 1, "mallopt({name}, {value})");
    }
    thread::Builder::new().name("trim".to_owned()).stack_size(64 << 10).spawn(|| {
        loop {
            thread::sleep(INTERVAL);
            #[expect(unsafe_code, reason = "the C library has no other interface for this")]
            // SAFETY: it has no precondition; it returns pages in which nothing is allocated.
            unsafe {
                libc::malloc_trim(0);
            }
        }
    })?;
    Ok(())
}

/// Other allocators return memory by themselves.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn return_freed_memory() -> std::io::Result<()> {
    Ok(())
}
