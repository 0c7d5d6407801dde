//! The machine's memory, granted to programs that run.
//!
//! A program is granted all that it is allowed where that is left. Where it is not, a little is granted, which is enough for most; one
//! that turns out to need more is run again when there is room for all of it.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::machine;

/// What is granted where more is not left.
const LITTLE: u64 = 64 << 20;
/// What a process has that runs programs, besides what a program has.
const PROCESS: u64 = 96 << 20;
/// Part of what is left that programs may have, in percent: others live on the machine as well.
const PART: u64 = 90;
/// How often what the machine has left is read again.
const FRESH: Duration = Duration::from_millis(100);
/// How often a program that waits looks whether it was taken back.
const LOOK: Duration = Duration::from_millis(50);

pub(super) struct Memory {
    capacity: u64,
    /// Bytes that the machine has left; none where it does not say.
    left: fn() -> Option<u64>,
    state: Mutex<State>,
    freed: Condvar,
}

struct State {
    granted: u64,
    /// What the machine had left, and when.
    seen: Option<(Instant, Option<u64>)>,
}

/// Bytes that a program may have until this is dropped.
pub(super) struct Grant<'a> {
    memory: &'a Memory,
    pub bytes: u64,
}

impl Memory {
    /// For so many processes: so many bytes for all programs, or what the machine has left.
    pub(super) fn new(bytes: Option<u64>, processes: usize) -> Self {
        let capacity = bytes.unwrap_or_else(|| match machine::memory_left() {
            Some(left) => (left / 100 * PART).saturating_sub(PROCESS.saturating_mul(processes as u64)),
            None => u64::MAX,
        });
        // Whoever sets the capacity knows the machine.
        let left = if bytes.is_some() { || None } else { machine::memory_left };
        Self::with(capacity, left)
    }

    fn with(capacity: u64, left: fn() -> Option<u64>) -> Self {
        Self { capacity, left, state: Mutex::new(State { granted: 0, seen: None }), freed: Condvar::new() }
    }

    /// What a program may have that is allowed so much; nothing where `given_up` says that it is no longer waited for.
    pub(super) fn grant(&self, allowed: u64, given_up: impl Fn() -> bool) -> Option<Grant<'_>> {
        self.wait(&[allowed, allowed.min(LITTLE)], given_up)
    }

    /// All that a program is allowed, once there is room for it.
    pub(super) fn grant_all(&self, allowed: u64, given_up: impl Fn() -> bool) -> Option<Grant<'_>> {
        self.wait(&[allowed], given_up)
    }

    fn wait(&self, amounts: &[u64], given_up: impl Fn() -> bool) -> Option<Grant<'_>> {
        let mut state = self.lock();
        loop {
            // A program that is alone gets what it is allowed on any machine: waiting would change nothing.
            let alone = state.granted == 0;
            let fitting = amounts.iter().copied().find(|bytes| alone || self.fits(&mut state, *bytes));
            if let Some(bytes) = fitting {
                state.granted += bytes;
                return Some(Grant { memory: self, bytes });
            }
            if given_up() {
                return None;
            }
            state = self.freed.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn fits(&self, state: &mut State, bytes: u64) -> bool {
        if state.granted.saturating_add(bytes) > self.capacity {
            return false;
        }
        // A little is in what processes have anyway.
        bytes <= LITTLE || self.left(state).is_none_or(|left| bytes <= left)
    }

    fn left(&self, state: &mut State) -> Option<u64> {
        match state.seen {
            Some((when, left)) if when.elapsed() < FRESH => left,
            _ => {
                let left = (self.left)();
                state.seen = Some((Instant::now(), left));
                left
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Grant<'_> {
    fn drop(&mut self) {
        self.memory.lock().granted -= self.bytes;
        self.memory.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn memory(mebibytes: u64) -> Memory {
        Memory::with(mebibytes * MIB, || None)
    }

    fn granted(grant: Option<&Grant<'_>>) -> Option<u64> {
        grant.map(|grant| grant.bytes / MIB)
    }

    #[test]
    fn what_is_left_decides_between_all_a_little_and_nothing() {
        let memory = memory(1200);
        let all = memory.grant(1024 * MIB, || true);
        assert_eq!(granted(all.as_ref()), Some(1024));
        let little = memory.grant(1024 * MIB, || true);
        assert_eq!(granted(little.as_ref()), Some(64));
        assert_eq!(granted(memory.grant_all(1024 * MIB, || true).as_ref()), None);
        let small = memory.grant(16 * MIB, || true);
        assert_eq!(granted(small.as_ref()), Some(16));
        drop(all);
        assert_eq!(granted(memory.grant_all(1024 * MIB, || true).as_ref()), Some(1024));
    }

    #[test]
    fn a_program_that_is_alone_is_never_refused() {
        let memory = memory(1);
        let first = memory.grant(1024 * MIB, || true);
        assert_eq!(granted(first.as_ref()), Some(1024));
        assert_eq!(granted(memory.grant(16 * MIB, || true).as_ref()), None);
    }

    #[test]
    fn whoever_waits_gets_what_is_given_back() {
        let memory = memory(100);
        let first = memory.grant(100 * MIB, || true);
        std::thread::scope(|scope| {
            let second = scope.spawn(|| granted(memory.grant_all(80 * MIB, || false).as_ref()));
            drop(first);
            assert_eq!(second.join().unwrap(), Some(80));
        });
    }

    #[test]
    fn what_others_took_meanwhile_is_not_granted() {
        let memory = Memory::with(u64::MAX, || Some(500 << 20));
        let first = memory.grant(1024 * MIB, || true);
        assert_eq!(granted(first.as_ref()), Some(1024), "it is alone");
        assert_eq!(granted(memory.grant(1024 * MIB, || true).as_ref()), Some(64));
        assert_eq!(granted(memory.grant(400 * MIB, || true).as_ref()), Some(400));
    }
}
