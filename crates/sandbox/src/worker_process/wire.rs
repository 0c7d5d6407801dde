//! What a worker asks of its cell and what it is answered, as messages.

use std::time::Duration;

use super::frame::{Frame, numbers, pack};
use crate::sandbox::{Budget, Ending, Run};

/// Kinds of messages to a cell.
pub(super) const PROCESS: u32 = 1;
pub(super) const CALL: u32 = 2;
pub(super) const LOAD: u32 = 3;
pub(super) const GRADE: u32 = 4;
pub(super) const CANCEL: u32 = 5;
pub(super) const UNLOAD: u32 = 9;
pub(super) const COMPILE: u32 = 10;
/// Kinds of messages from a cell.
pub(super) const READY: u32 = 6;
pub(super) const RUN: u32 = 7;
pub(super) const MISSING: u32 = 8;

pub(super) fn budget(budget: &Budget) -> Vec<u8> {
    let ns = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    let deterministic = u64::from(budget.deterministic);
    pack(&[ns(budget.time), ns(budget.wall), budget.memory, budget.output, deterministic, budget.granted])
}

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

/// Parts of the message on a run.
pub(super) fn run(run: &Run) -> [Vec<u8>; 4] {
    let text = |text: &String| text.clone().into_bytes();
    let (kind, payload) = match &run.ending {
        Ending::Returned(bytes) => (0, bytes.clone()),
        Ending::Raised(said) => (1, text(said)),
        Ending::Exited(status) => (2, pack(&[u64::from(status.cast_unsigned())])),
        Ending::NotAProgram(said) => (3, text(said)),
        Ending::OutOfMemory => (4, Vec::new()),
        Ending::NoSuchFunction => (5, Vec::new()),
        Ending::NotLoaded(said) => (7, text(said)),
        Ending::Died(said) => (8, text(said)),
        Ending::TimeLimit => (9, Vec::new()),
        Ending::OutputLimit => (10, Vec::new()),
        Ending::Trapped(said) => (11, text(said)),
        Ending::Starved => (12, Vec::new()),
        Ending::Cancelled => (13, Vec::new()),
        Ending::Broken(said) => (14, text(said)),
        Ending::Crowded => (15, Vec::new()),
    };
    let cpu = u64::try_from(run.cpu.as_nanos()).unwrap_or(u64::MAX);
    [pack(&[kind, cpu, run.memory]), payload, run.stdout.clone(), run.stderr.clone()]
}

pub(super) fn read_run(mut frame: Frame) -> Option<Run> {
    let head = frame.part(0);
    let mut head = numbers(&head);
    let (kind, cpu, memory) = (head.next()?, Duration::from_nanos(head.next()?), head.next()?);
    let payload = frame.part(1);
    let text = |payload: Vec<u8>| String::from_utf8_lossy(&payload).into_owned();
    let ending = match kind {
        0 => Ending::Returned(payload),
        1 => Ending::Raised(text(payload)),
        2 => Ending::Exited(u32::try_from(numbers(&payload).next()?).ok()?.cast_signed()),
        3 => Ending::NotAProgram(text(payload)),
        4 => Ending::OutOfMemory,
        5 => Ending::NoSuchFunction,
        7 => Ending::NotLoaded(text(payload)),
        8 => Ending::Died(text(payload)),
        9 => Ending::TimeLimit,
        10 => Ending::OutputLimit,
        11 => Ending::Trapped(text(payload)),
        12 => Ending::Starved,
        13 => Ending::Cancelled,
        14 => Ending::Broken(text(payload)),
        15 => Ending::Crowded,
        _ => return None,
    };
    Some(Run { ending, stdout: frame.part(2), stderr: frame.part(3), cpu, memory })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ending_comes_out_as_it_went_in() {
        let said = || "said".to_owned();
        for ending in [
            Ending::Returned(vec![0, 255]),
            Ending::Raised(said()),
            Ending::Exited(-3),
            Ending::NotAProgram(said()),
            Ending::OutOfMemory,
            Ending::NoSuchFunction,
            Ending::NotLoaded(said()),
            Ending::Died(said()),
            Ending::TimeLimit,
            Ending::OutputLimit,
            Ending::Trapped(said()),
            Ending::Starved,
            Ending::Cancelled,
            Ending::Broken(said()),
            Ending::Crowded,
        ] {
            let before = Run {
                ending: ending.clone(),
                stdout: b"out".to_vec(),
                stderr: b"err".to_vec(),
                cpu: Duration::from_nanos(12),
                memory: 34,
            };
            let after = read_run(Frame { kind: RUN, parts: run(&before).to_vec() }).unwrap();
            assert_eq!((after.ending, after.stdout, after.stderr), (ending, b"out".to_vec(), b"err".to_vec()));
            assert_eq!((after.cpu, after.memory), (before.cpu, before.memory));
        }
        assert!(read_run(Frame { kind: RUN, parts: Vec::new() }).is_none());
    }

    #[test]
    fn a_budget_comes_out_as_it_went_in() {
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
