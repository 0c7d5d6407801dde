//! Requests to a worker process and its responses, encoded as messages.

use std::time::Duration;

use super::frame::{Frame, numbers, pack};
use crate::run::{Budget, ExitStatus, Run};

/// Kinds of requests to a worker process.
pub(super) const PROCESS: u32 = 1;
pub(super) const CALL: u32 = 2;
pub(super) const LOAD: u32 = 3;
pub(super) const GRADE: u32 = 4;
pub(super) const CANCEL: u32 = 5;
pub(super) const UNLOAD: u32 = 9;
pub(super) const COMPILE: u32 = 10;
pub(super) const CELL: u32 = 11;
pub(super) const END_SESSION: u32 = 12;
/// Kinds of responses from a worker process.
pub(super) const READY: u32 = 6;
pub(super) const RUN: u32 = 7;
pub(super) const MISSING: u32 = 8;

pub(super) fn budget(budget: &Budget) -> Vec<u8> {
    let ns = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    let deterministic = u64::from(budget.deterministic);
    pack(&[ns(budget.time), ns(budget.wall), budget.memory, budget.output, deterministic, budget.granted])
}

/// The number of a session.
pub(super) fn session(id: u64) -> Vec<u8> {
    pack(&[id])
}

/// The number of a request, the last part of it and of its response.
pub(super) fn number(number: u64) -> Vec<u8> {
    pack(&[number])
}

#[cfg(feature = "interpreter")]
pub(super) fn read_session(part: &[u8]) -> Option<u64> {
    numbers(part).next()
}

#[cfg(any(feature = "interpreter", test))]
pub(super) fn read_budget(part: &[u8]) -> Option<Budget> {
    let mut numbers = numbers(part);
    Some(Budget {
        time: Duration::from_nanos(numbers.next()?),
        wall: Duration::from_nanos(numbers.next()?),
        memory: numbers.next()?,
        output: numbers.next()?,
        deterministic: numbers.next()? != 0,
        granted: numbers.next()?,
    })
}

/// The parts of a response about a run.
#[cfg(any(feature = "interpreter", test))]
pub(super) fn run(run: &Run) -> [Vec<u8>; 4] {
    let text = |text: &String| text.clone().into_bytes();
    let (kind, payload) = match &run.status {
        ExitStatus::Returned(bytes) => (0, bytes.clone()),
        ExitStatus::Raised(error) => (1, text(error)),
        ExitStatus::Exited(code) => (2, pack(&[u64::from(code.cast_unsigned())])),
        ExitStatus::CompileError(error) => (3, text(error)),
        ExitStatus::OutOfMemory => (4, Vec::new()),
        ExitStatus::NoSuchFunction => (5, Vec::new()),
        ExitStatus::LoadFailed(error) => (7, text(error)),
        ExitStatus::Fatal(error) => (8, text(error)),
        ExitStatus::TimeLimit => (9, Vec::new()),
        ExitStatus::OutputLimit => (10, Vec::new()),
        ExitStatus::Trapped(error) => (11, text(error)),
        ExitStatus::Starved => (12, Vec::new()),
        ExitStatus::Cancelled => (13, Vec::new()),
        ExitStatus::Internal(error) => (14, text(error)),
        ExitStatus::NeedsMemory => (15, Vec::new()),
    };
    let cpu = u64::try_from(run.cpu.as_nanos()).unwrap_or(u64::MAX);
    [pack(&[kind, cpu, run.memory]), payload, run.stdout.clone(), run.stderr.clone()]
}

pub(super) fn read_run(mut frame: Frame) -> Option<Run> {
    let head = frame.part(0);
    let mut head = numbers(&head);
    let kind = head.next()?;
    let cpu = Duration::from_nanos(head.next()?);
    let memory = head.next()?;
    let payload = frame.part(1);
    let text = |payload: Vec<u8>| String::from_utf8_lossy(&payload).into_owned();
    let status = match kind {
        0 => ExitStatus::Returned(payload),
        1 => ExitStatus::Raised(text(payload)),
        2 => ExitStatus::Exited(u32::try_from(numbers(&payload).next()?).ok()?.cast_signed()),
        3 => ExitStatus::CompileError(text(payload)),
        4 => ExitStatus::OutOfMemory,
        5 => ExitStatus::NoSuchFunction,
        7 => ExitStatus::LoadFailed(text(payload)),
        8 => ExitStatus::Fatal(text(payload)),
        9 => ExitStatus::TimeLimit,
        10 => ExitStatus::OutputLimit,
        11 => ExitStatus::Trapped(text(payload)),
        12 => ExitStatus::Starved,
        13 => ExitStatus::Cancelled,
        14 => ExitStatus::Internal(text(payload)),
        15 => ExitStatus::NeedsMemory,
        _ => return None,
    };
    Some(Run { status, stdout: frame.part(2), stderr: frame.part(3), cpu, memory })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_exit_status_survives_a_round_trip() {
        let error = || "error".to_owned();
        for status in [
            ExitStatus::Returned(vec![0, 255]),
            ExitStatus::Raised(error()),
            ExitStatus::Exited(-3),
            ExitStatus::CompileError(error()),
            ExitStatus::OutOfMemory,
            ExitStatus::NoSuchFunction,
            ExitStatus::LoadFailed(error()),
            ExitStatus::Fatal(error()),
            ExitStatus::TimeLimit,
            ExitStatus::OutputLimit,
            ExitStatus::Trapped(error()),
            ExitStatus::Starved,
            ExitStatus::Cancelled,
            ExitStatus::Internal(error()),
            ExitStatus::NeedsMemory,
        ] {
            let before = Run {
                status: status.clone(),
                stdout: b"out".to_vec(),
                stderr: b"err".to_vec(),
                cpu: Duration::from_nanos(12),
                memory: 34,
            };
            let after = read_run(Frame { kind: RUN, parts: run(&before).to_vec() }).unwrap();
            assert_eq!((after.status, after.stdout, after.stderr), (status, b"out".to_vec(), b"err".to_vec()));
            assert_eq!((after.cpu, after.memory), (before.cpu, before.memory));
        }
        assert!(read_run(Frame { kind: RUN, parts: Vec::new() }).is_none());
    }

    #[test]
    fn a_budget_survives_a_round_trip() {
        let before = Budget {
            time: Duration::from_millis(5),
            wall: Duration::from_secs(7),
            memory: 1,
            output: 2,
            deterministic: true,
            granted: 3,
        };
        assert_eq!(read_budget(&budget(&before)), Some(before));
        assert_eq!(read_budget(b"short"), None);
    }
}
