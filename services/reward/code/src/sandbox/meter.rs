//! What time a program has used: CPU time of the thread that runs it, so that a loaded machine changes no verdict.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use super::stop::Stop;

/// Instructions of the guest that count as one nanosecond where time is counted in instructions. CPython executes two to three
/// billion instructions of WebAssembly a second on the machines of 2026.
const INSTRUCTIONS_PER_US: u64 = 2_000;

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
    Instructions,
}

/// The time account of one run.
#[derive(Debug)]
pub(crate) struct Meter {
    clock: Clock,
    limit: Duration,
    wall: Option<(Instant, Duration)>,
    slept: u64,
}

impl Meter {
    /// Begins now. `limit` is on work and sleep together; `wall` is the backstop.
    pub(crate) fn start(deterministic: bool, limit: Duration, wall: Duration) -> Self {
        let clock = if deterministic { Clock::Instructions } else { Clock::Thread { began: thread_ns() } };
        // Where instructions count, no clock may decide.
        let wall = (!deterministic).then(|| (Instant::now(), wall));
        Self { clock, limit, wall, slept: 0 }
    }

    /// The instructions that the limit allows.
    pub(crate) fn fuel(&self) -> u64 {
        u64::try_from(self.limit.as_micros()).unwrap_or(u64::MAX).saturating_mul(INSTRUCTIONS_PER_US)
    }

    /// Nanoseconds of work so far. `fuel_left` is read where instructions count.
    pub(crate) fn worked_ns(&self, fuel_left: impl FnOnce() -> u64) -> u64 {
        match self.clock {
            Clock::Thread { began } => thread_ns().saturating_sub(began),
            Clock::Instructions => self.fuel().saturating_sub(fuel_left()) * 1000 / INSTRUCTIONS_PER_US,
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

    /// Refuses to go on once a limit is passed. Where instructions count, the engine itself enforces the limit on work.
    pub(crate) fn check(&self) -> Result<(), Stop> {
        if let Clock::Thread { began } = self.clock {
            self.within(thread_ns().saturating_sub(began))?;
        }
        match self.wall {
            Some((began, limit)) if began.elapsed() > limit => Err(Stop::Starved),
            _ => Ok(()),
        }
    }

    fn within(&self, worked: u64) -> Result<(), Stop> {
        let used = Duration::from_nanos(worked.saturating_add(self.slept));
        if used > self.limit { Err(Stop::Time) } else { Ok(()) }
    }
}

fn thread_ns() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}
