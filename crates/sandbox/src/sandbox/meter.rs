//! Time accounting of a program: CPU time of the thread that runs it, so that a loaded machine changes no verdict.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use super::exit_status::Termination;

/// Instructions (operators of the guest that are not free) that count as one microsecond if instructions are counted:
/// as many as a server of 2026 executes, over the programs of `tests/suite/deterministic.rs`.
const INSTRUCTIONS_PER_US: u64 = 5_700;

/// If instructions are counted, a program is still ended after this multiple of its limit in CPU time: a single
/// instruction may copy all of its memory, so that its count alone could allow days. Programs that compute stay far
/// below on any machine.
const BACKSTOP: u32 = 10;

/// Resolution of the clock that a program sees, in nanoseconds.
const STEP_NS: u64 = 100_000;

/// How a program's time is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    /// CPU time of the thread, in nanoseconds.
    Thread {
        /// Reading at the start.
        began: u64,
    },
    /// Instructions of the guest, the same on every machine.
    Instructions {
        /// Reading of the thread's CPU time at the start, for the backstop.
        began: u64,
    },
}

/// The time use of a run.
#[derive(Debug)]
pub(crate) struct Meter {
    clock: Clock,
    limit: Duration,
    wall: Option<(Instant, Duration)>,
    slept: u64,
    /// CPU time that is charged although it was spent before, in nanoseconds: that of the definitions of a series.
    charged: u64,
}

impl Meter {
    /// Starts now. `limit` applies to work and sleep together; `wall` is the backstop.
    pub(crate) fn start(deterministic: bool, limit: Duration, wall: Duration) -> Self {
        let began = thread_ns();
        let clock = if deterministic { Clock::Instructions { began } } else { Clock::Thread { began } };
        // If instructions are counted, no clock may decide.
        let wall = (!deterministic).then(|| (Instant::now(), wall));
        Self { clock, limit, wall, slept: 0, charged: 0 }
    }

    /// Charges CPU time that was spent before, in nanoseconds. Counted instructions are charged by setting less fuel.
    pub(crate) fn charge_cpu(&mut self, nanoseconds: u64) {
        self.charged = nanoseconds;
    }

    /// CPU time so far in nanoseconds, whether or not instructions are counted.
    pub(crate) fn cpu_ns(&self) -> u64 {
        let (Clock::Thread { began } | Clock::Instructions { began }) = self.clock;
        thread_ns().saturating_sub(began).saturating_add(self.charged)
    }

    /// The instructions that the limit allows.
    pub(crate) fn fuel(&self) -> u64 {
        u64::try_from(self.limit.as_micros()).unwrap_or(u64::MAX).saturating_mul(INSTRUCTIONS_PER_US)
    }

    /// Work so far in nanoseconds. `fuel_left` is read if instructions are counted.
    pub(crate) fn worked_ns(&self, fuel_left: impl FnOnce() -> u64) -> u64 {
        match self.clock {
            Clock::Thread { .. } => self.cpu_ns(),
            Clock::Instructions { .. } => self.fuel().saturating_sub(fuel_left()) * 1000 / INSTRUCTIONS_PER_US,
        }
    }

    /// The clock that the program sees, in nanoseconds: work and sleep, in steps.
    pub(crate) fn guest_clock_ns(&self, fuel_left: impl FnOnce() -> u64) -> u64 {
        (self.worked_ns(fuel_left) + self.slept) / STEP_NS * STEP_NS
    }

    /// Lets the program sleep until its clock shows `until_ns`. No real time passes, but the sleep is charged.
    pub(crate) fn sleep_until(&mut self, until_ns: u64, fuel_left: impl FnOnce() -> u64) -> Result<(), Termination> {
        let worked = self.worked_ns(fuel_left);
        let more = until_ns.saturating_sub(worked.saturating_add(self.slept));
        self.slept = self.slept.saturating_add(more);
        self.within(worked)
    }

    /// Checks the limit on work and sleep together. Also to be checked at the end of a run: the engine limits
    /// instructions without knowing of sleep.
    pub(crate) fn within(&self, worked_ns: u64) -> Result<(), Termination> {
        within(worked_ns.saturating_add(self.slept), self.limit)
    }

    /// Checks all limits during a run. If instructions are counted, the engine itself enforces the limit on work.
    pub(crate) fn check(&self) -> Result<(), Termination> {
        let limit = match self.clock {
            Clock::Thread { .. } => self.limit,
            Clock::Instructions { .. } => self.limit.saturating_mul(BACKSTOP),
        };
        let worked = self.cpu_ns();
        within(worked.saturating_add(self.slept), limit)?;
        match self.wall {
            Some((began, limit)) => wall(began.elapsed(), limit, Duration::from_nanos(worked)),
            None => Ok(()),
        }
    }
}

fn within(used_ns: u64, limit: Duration) -> Result<(), Termination> {
    if Duration::from_nanos(used_ns) > limit { Err(Termination::Time) } else { Ok(()) }
}

/// Checks the wall clock limit. A program that had a processor for at least half of that time has used it up itself.
/// Otherwise an endless program would have no verdict whenever the wall clock limit is below the limit on work.
fn wall(elapsed: Duration, limit: Duration, worked: Duration) -> Result<(), Termination> {
    if elapsed <= limit {
        return Ok(());
    }
    Err(if worked >= elapsed / 2 { Termination::Time } else { Termination::Starved })
}

fn thread_ns() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reaching_the_wall_clock_limit_by_own_work_is_a_time_limit() {
        let ms = Duration::from_millis;
        assert_eq!(wall(ms(100), ms(100), ms(99)), Ok(()));
        assert_eq!(wall(ms(101), ms(100), ms(90)), Err(Termination::Time));
        assert_eq!(wall(ms(101), ms(100), ms(10)), Err(Termination::Starved));
    }
}
