//! What time a program has used: CPU time of the thread that runs it, so that a loaded machine changes no verdict.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use super::stop::Stop;

/// Operators of the compiled guest, those that cost nothing left out, that count as one microsecond where time is counted in
/// instructions: as many as it executes on a server of 2026, over the programs of `tests/deterministic.rs`.
const INSTRUCTIONS_PER_US: u64 = 5_700;

/// Where instructions count, the CPU time that ends a program all the same, as a multiple of its limit. One instruction may copy all of
/// its memory, so that its account alone would let it stay for days; what computes is far from here on any machine.
const BACKSTOP: u32 = 10;

/// A program sees time in steps of this many nanoseconds.
const STEP_NS: u64 = 100_000;

/// What measures the time that a program works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    /// CPU time of the thread, in nanoseconds.
    Thread {
        /// Reading at the beginning.
        began: u64,
    },
    /// Instructions of the guest: the same on every machine.
    Instructions {
        /// Reading of the thread's CPU time at the beginning, for the backstop.
        began: u64,
    },
}

/// The time account of one run.
#[derive(Debug)]
pub(crate) struct Meter {
    clock: Clock,
    limit: Duration,
    wall: Option<(Instant, Duration)>,
    slept: u64,
    /// Nanoseconds of CPU time that went before, of what the program's beginning took that is not done again.
    before: u64,
}

impl Meter {
    /// Begins now. `limit` is on work and sleep together; `wall` is the backstop.
    pub(crate) fn start(deterministic: bool, limit: Duration, wall: Duration) -> Self {
        let began = thread_ns();
        let clock = if deterministic { Clock::Instructions { began } } else { Clock::Thread { began } };
        // Where instructions count, no clock may decide.
        let wall = (!deterministic).then(|| (Instant::now(), wall));
        Self { clock, limit, wall, slept: 0, before: 0 }
    }

    /// Counts so many nanoseconds of CPU time that went before. Where instructions count, those that are left say so themselves.
    pub(crate) fn goes_on_after(&mut self, before: u64) {
        self.before = before;
    }

    /// Nanoseconds of CPU time so far, whatever counts.
    pub(crate) fn cpu_ns(&self) -> u64 {
        let (Clock::Thread { began } | Clock::Instructions { began }) = self.clock;
        thread_ns().saturating_sub(began).saturating_add(self.before)
    }

    /// The instructions that the limit allows.
    pub(crate) fn fuel(&self) -> u64 {
        u64::try_from(self.limit.as_micros()).unwrap_or(u64::MAX).saturating_mul(INSTRUCTIONS_PER_US)
    }

    /// Nanoseconds of work so far. `fuel_left` is read where instructions count.
    pub(crate) fn worked_ns(&self, fuel_left: impl FnOnce() -> u64) -> u64 {
        match self.clock {
            Clock::Thread { .. } => self.cpu_ns(),
            Clock::Instructions { .. } => self.fuel().saturating_sub(fuel_left()) * 1000 / INSTRUCTIONS_PER_US,
        }
    }

    /// What the program sees when it asks for the time: work and sleep, in steps.
    pub(crate) fn seen_ns(&self, fuel_left: impl FnOnce() -> u64) -> u64 {
        (self.worked_ns(fuel_left) + self.slept) / STEP_NS * STEP_NS
    }

    /// Lets the program sleep until it would see `until_ns`: no time passes, but it is counted.
    pub(crate) fn sleep_until(&mut self, until_ns: u64, fuel_left: impl FnOnce() -> u64) -> Result<(), Stop> {
        let worked = self.worked_ns(fuel_left);
        let more = until_ns.saturating_sub(worked.saturating_add(self.slept));
        self.slept = self.slept.saturating_add(more);
        self.within(worked)
    }

    /// Refuses more work and sleep together than the limit. Asked at the end as well: instructions are refused by the engine, which
    /// knows of no sleep.
    pub(crate) fn within(&self, worked_ns: u64) -> Result<(), Stop> {
        within(worked_ns.saturating_add(self.slept), self.limit)
    }

    /// Refuses to go on once a limit is passed. Where instructions count, the engine itself enforces the limit on work.
    pub(crate) fn check(&self) -> Result<(), Stop> {
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

fn within(used_ns: u64, limit: Duration) -> Result<(), Stop> {
    if Duration::from_nanos(used_ns) > limit { Err(Stop::Time) } else { Ok(()) }
}

/// Where the wall clock's limit is reached. A program that had a processor for most of that time has filled it with its own work: that
/// is its verdict, or a wall clock's limit below that on work would let every endless program go without one.
fn wall(elapsed: Duration, limit: Duration, worked: Duration) -> Result<(), Stop> {
    if elapsed <= limit {
        return Ok(());
    }
    Err(if worked >= elapsed / 2 { Stop::Time } else { Stop::Starved })
}

fn thread_ns() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wall_clock_that_the_program_filled_with_its_own_work_is_its_verdict() {
        let ms = Duration::from_millis;
        assert_eq!(wall(ms(100), ms(100), ms(99)), Ok(()));
        assert_eq!(wall(ms(101), ms(100), ms(90)), Err(Stop::Time));
        assert_eq!(wall(ms(101), ms(100), ms(10)), Err(Stop::Starved));
    }
}
