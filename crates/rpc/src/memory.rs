//! Memory that is free goes back to the system.
//!
//! The C library keeps what was freed, for later: after a moment with many large messages a server would stay as large as it was then,
//! for ever. So whoever serves looks now and then whether the process has grown, and has what is free of that given back.

use std::time::Duration;

/// How often is looked.
const LOOK: Duration = Duration::from_secs(30);
/// What a process may have grown by without anything being done, in bytes.
const GROWN: u64 = 4 << 20;

/// Looks after the memory of this process, for ever. Several of these do not disturb each other.
pub async fn give_back() {
    let mut interval = tokio::time::interval(LOOK);
    let mut before = resident().unwrap_or(0);
    loop {
        interval.tick().await;
        let Some(now) = resident() else { return };
        if now < before.saturating_add(GROWN) {
            before = before.min(now);
            continue;
        }
        // It may take a while where much is free.
        let _ = tokio::task::spawn_blocking(trim).await;
        before = resident().unwrap_or(now);
        tracing::debug!(grown_to = now, now = before, "gave memory back");
    }
}

/// Bytes of memory that this process has. `None` where the system does not say, which is anywhere but on Linux.
fn resident() -> Option<u64> {
    let pages: u64 = std::fs::read_to_string("/proc/self/statm").ok()?.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * 4096)
}

/// Gives what is free to the system.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "there is no other way to the allocator of the C library")]
fn trim() {
    // SAFETY: it takes a number and may be called by any thread at any time; what is in use is not touched.
    unsafe { libc::malloc_trim(0) };
}

/// Other allocators do so by themselves.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn trim() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    fn what_is_freed_behind_something_that_is_not_goes_back() {
        // Small pieces are kept by the allocator, and the last one keeps the heap from shrinking at its end.
        let mut pieces: Vec<Box<[u8]>> = (0..200_000).map(|_| vec![7; 1_000].into_boxed_slice()).collect();
        let full = resident().unwrap();
        let last = pieces.pop();
        drop(pieces);
        trim();
        let left = resident().unwrap();
        assert!(left + (100 << 20) < full, "{full} -> {left}");
        drop(last);
    }
}
