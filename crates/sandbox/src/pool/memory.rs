//! Grants memory to programs before they run.
//!
//! If enough memory is available, a program is granted all that it is allowed. Otherwise it gets a small grant, which
//! suffices for most; if it turns out to need more, it is run again once its full allowance is available.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Bytes of a small grant.
const SMALL_GRANT: u64 = 64 << 20;
/// Bytes that a worker process needs in addition to its program.
const PROCESS_OVERHEAD: u64 = 96 << 20;
/// Share of the available memory that programs may use, in percent: the machine runs other things as well.
const USABLE_PERCENT: u64 = 90;
/// How often the available memory is read again.
const REFRESH_INTERVAL: Duration = Duration::from_millis(100);
/// How often a waiting program checks for cancellation.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

pub(super) struct MemoryBudget {
    capacity: u64,
    /// Reads the available memory in bytes. `None` if the machine does not tell.
    available: fn() -> Option<u64>,
    state: Mutex<MemoryGrants>,
    freed: Condvar,
}

struct MemoryGrants {
    granted: u64,
    /// When the available memory was last read, and the result.
    last_read: Option<(Instant, Option<u64>)>,
}

/// Memory that a program may use until this is dropped.
pub(super) struct Grant<'a> {
    budget: &'a MemoryBudget,
    pub bytes: u64,
}

impl MemoryBudget {
    /// A budget of `bytes`, or by default of what is available, for this many processes.
    pub(super) fn new(bytes: Option<u64>, processes: usize) -> Self {
        let capacity = bytes.unwrap_or_else(|| match evenkeel_host::available_memory() {
            Some(available) => {
                (available / 100 * USABLE_PERCENT).saturating_sub(PROCESS_OVERHEAD.saturating_mul(processes as u64))
            }
            None => u64::MAX,
        });
        // A configured capacity takes precedence over the state of the machine.
        let available = if bytes.is_some() { || None } else { evenkeel_host::available_memory };
        Self::with(capacity, available)
    }

    fn with(capacity: u64, available: fn() -> Option<u64>) -> Self {
        Self {
            capacity,
            available,
            state: Mutex::new(MemoryGrants { granted: 0, last_read: None }),
            freed: Condvar::new(),
        }
    }

    /// Waits for the full allowance of a program or a small grant. `None` once `is_cancelled` returns true.
    pub(super) fn grant(&self, allowed: u64, is_cancelled: impl Fn() -> bool) -> Option<Grant<'_>> {
        self.wait(&[allowed, allowed.min(SMALL_GRANT)], is_cancelled)
    }

    /// Waits for the full allowance of a program. `None` once `is_cancelled` returns true.
    pub(super) fn grant_all(&self, allowed: u64, is_cancelled: impl Fn() -> bool) -> Option<Grant<'_>> {
        self.wait(&[allowed], is_cancelled)
    }

    fn wait(&self, amounts: &[u64], is_cancelled: impl Fn() -> bool) -> Option<Grant<'_>> {
        let mut state = self.lock();
        loop {
            // A program that is alone gets its full allowance on any machine: waiting would not help.
            let alone = state.granted == 0;
            let fitting = amounts.iter().copied().find(|bytes| alone || self.fits(&mut state, *bytes));
            if let Some(bytes) = fitting {
                state.granted += bytes;
                return Some(Grant { budget: self, bytes });
            }
            if is_cancelled() {
                return None;
            }
            state = self.freed.wait_timeout(state, POLL_INTERVAL).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn fits(&self, state: &mut MemoryGrants, bytes: u64) -> bool {
        if state.granted.saturating_add(bytes) > self.capacity {
            return false;
        }
        // A small grant fits into the memory that processes hold anyway.
        bytes <= SMALL_GRANT || self.available(state).is_none_or(|available| bytes <= available)
    }

    fn available(&self, state: &mut MemoryGrants) -> Option<u64> {
        match state.last_read {
            Some((when, available)) if when.elapsed() < REFRESH_INTERVAL => available,
            _ => {
                let available = (self.available)();
                state.last_read = Some((Instant::now(), available));
                available
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, MemoryGrants> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Grant<'_> {
    fn drop(&mut self) {
        self.budget.lock().granted -= self.bytes;
        self.budget.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn budget(mebibytes: u64) -> MemoryBudget {
        MemoryBudget::with(mebibytes * MIB, || None)
    }

    fn granted(grant: Option<&Grant<'_>>) -> Option<u64> {
        grant.map(|grant| grant.bytes / MIB)
    }

    #[test]
    fn the_remaining_budget_allows_a_full_grant_a_small_one_or_none() {
        let budget = budget(1200);
        let all = budget.grant(1024 * MIB, || true);
        assert_eq!(granted(all.as_ref()), Some(1024));
        let little = budget.grant(1024 * MIB, || true);
        assert_eq!(granted(little.as_ref()), Some(64));
        assert_eq!(granted(budget.grant_all(1024 * MIB, || true).as_ref()), None);
        let small = budget.grant(16 * MIB, || true);
        assert_eq!(granted(small.as_ref()), Some(16));
        drop(all);
        assert_eq!(granted(budget.grant_all(1024 * MIB, || true).as_ref()), Some(1024));
    }

    #[test]
    fn a_program_that_runs_alone_always_gets_its_full_allowance() {
        let budget = budget(1);
        let first = budget.grant(1024 * MIB, || true);
        assert_eq!(granted(first.as_ref()), Some(1024));
        assert_eq!(granted(budget.grant(16 * MIB, || true).as_ref()), None);
    }

    #[test]
    fn freed_memory_goes_to_a_waiting_program() {
        let budget = budget(100);
        let first = budget.grant(100 * MIB, || true);
        std::thread::scope(|scope| {
            let second = scope.spawn(|| granted(budget.grant_all(80 * MIB, || false).as_ref()));
            drop(first);
            assert_eq!(second.join().unwrap(), Some(80));
        });
    }

    #[test]
    fn memory_that_the_machine_no_longer_has_is_not_granted() {
        let budget = MemoryBudget::with(u64::MAX, || Some(500 << 20));
        let first = budget.grant(1024 * MIB, || true);
        assert_eq!(granted(first.as_ref()), Some(1024), "it runs alone");
        assert_eq!(granted(budget.grant(1024 * MIB, || true).as_ref()), Some(64));
        assert_eq!(granted(budget.grant(400 * MIB, || true).as_ref()), Some(400));
    }
}
