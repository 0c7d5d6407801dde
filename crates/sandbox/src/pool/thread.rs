//! A thread that has programs run.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::job::{Outturn, Unit};
use super::memory::Memory;
use super::queue::Queue;
use crate::cell::{Cell, CellCommand, Loss, NotStarted};
use crate::interpreter::Interpreter;
use crate::judge::{self, Report};
use crate::place::{Here, Place};
use crate::sandbox::{Budget, Ending, FILLS_STACK, Source, THREAD_STACK};
use crate::task::Mode;
use crate::verdict::{Invalid, Outcome, Verdict};

/// Before a cell that did not start is tried again.
const PAUSE: Duration = Duration::from_secs(1);
/// A program with so many tests is begun once for those that follow each other in one place.
const VERY_MANY: usize = 8;
/// A program with so many tests is compiled once for all of them.
const MANY: usize = 3;
/// Time for that. What takes longer is compiled by each test, within its own limit.
const COMPILING: Duration = Duration::from_secs(1);

/// Starts a thread that runs programs itself until the queue is closed.
pub(super) fn start(
    queue: Arc<Queue>,
    memory: Arc<Memory>,
    interpreter: Arc<Interpreter>,
) -> std::io::Result<JoinHandle<()>> {
    thread::Builder::new().name("evenkeel-sandbox".to_owned()).spawn(move || {
        // The threads that run programs come and go under this one.
        while shift(&queue, &memory, &interpreter) {}
    })
}

/// One thread with a deep stack, until its stack may be full: whether there is more to do.
fn shift(queue: &Arc<Queue>, memory: &Arc<Memory>, interpreter: &Arc<Interpreter>) -> bool {
    let thread = {
        let (queue, memory, interpreter) = (Arc::clone(queue), Arc::clone(memory), Arc::clone(interpreter));
        thread::Builder::new()
            .name("evenkeel-guest".to_owned())
            .stack_size(THREAD_STACK)
            .spawn(move || work(&queue, &memory, &interpreter))
    };
    match thread {
        Ok(thread) => thread.join().unwrap_or(true),
        // No thread to be had now: later, perhaps.
        Err(_) => {
            thread::sleep(Duration::from_millis(100));
            true
        }
    }
}

/// Works until the stack may be full (true) or the queue is closed (false).
fn work(queue: &Queue, memory: &Memory, interpreter: &Interpreter) -> bool {
    let mut place = Here::new(interpreter);
    while let Some((id, unit)) = queue.take() {
        let run = || admitted(memory, &unit, |granted| run(&mut place, &unit, granted));
        let outturn = catch_unwind(AssertUnwindSafe(run))
            .unwrap_or_else(|_| without(&unit, Outcome::Invalid(Invalid::Internal), "a worker thread panicked"));
        let cpu = match &outturn {
            Outturn::Test(report) => report.cpu,
            Outturn::Whole(verdict) => verdict.cpu,
        };
        queue.note(id, unit.test, outturn);
        if cpu > FILLS_STACK {
            return true;
        }
    }
    false
}

/// Starts a thread that has a process run programs until the queue is closed.
pub(super) fn start_with_cell(
    queue: Arc<Queue>,
    memory: Arc<Memory>,
    command: CellCommand,
) -> std::io::Result<JoinHandle<()>> {
    thread::Builder::new().name("evenkeel-sandbox".to_owned()).spawn(move || {
        let mut cell = None;
        while let Some((id, unit)) = queue.take() {
            let outturn = admitted(&memory, &unit, |granted| in_cell(&mut cell, &command, &unit, granted));
            queue.note(id, unit.test, outturn);
        }
    })
}

/// Runs a unit when the machine has memory for it; once more where it turns out to need more than was left.
fn admitted(memory: &Memory, unit: &Unit, mut run: impl FnMut(u64) -> Outturn) -> Outturn {
    let allowed = unit.task.limits.memory_bytes;
    let given_up = || unit.cancel.is_cancelled();
    let cancelled = || without(unit, Outcome::Invalid(Invalid::Cancelled), "cancelled");
    let Some(grant) = memory.grant(allowed, given_up) else { return cancelled() };
    let outturn = run(grant.bytes);
    if grant.bytes >= allowed || outturn.outcome() != Outcome::Invalid(Invalid::Crowded) {
        return outturn;
    }
    drop(grant);
    let Some(grant) = memory.grant_all(allowed, given_up) else { return cancelled() };
    run(grant.bytes)
}

/// Has a unit run in a cell. A program whose cell is lost gets another one. Where that is lost too, it has ended both itself if both
/// broke down; and where somebody else ended one of them there is no verdict.
fn in_cell(cell: &mut Option<Cell>, command: &CellCommand, unit: &Unit, granted: u64) -> Outturn {
    let mut first = None;
    loop {
        if unit.cancel.is_cancelled() {
            return without(unit, Outcome::Invalid(Invalid::Cancelled), "cancelled");
        }
        let place = match cell {
            Some(cell) => Ok(cell),
            None => Cell::start(command, &unit.cancel).map(|started| cell.insert(started)),
        };
        let loss = match place {
            Ok(place) => {
                let outturn = run(place, unit, granted);
                let Some(loss) = place.lost().cloned() else { return outturn };
                *cell = None;
                loss
            }
            Err(NotStarted::Missing(missing)) => {
                thread::sleep(PAUSE);
                return without(unit, Outcome::Invalid(Invalid::Internal), &missing);
            }
            // It has not seen the program.
            Err(NotStarted::Lost(Loss::Crash(how) | Loss::Outside(how))) => Loss::Outside(how),
        };
        match (first.replace(loss.clone()), loss) {
            (None, _) => {}
            (Some(Loss::Crash(_)), Loss::Crash(how)) => {
                let detail = format!("ended the process of the sandbox, twice: {how}");
                return without(unit, Outcome::RuntimeError, &detail);
            }
            (Some(_), loss) => return without(unit, Outcome::Invalid(Invalid::Lost), &loss.to_string()),
        }
    }
}

fn run(place: &mut dyn Place, unit: &Unit, granted: u64) -> Outturn {
    let task = &unit.task;
    let program = match &*unit.program {
        Ok(program) => program,
        Err(verdict) => return Outturn::Whole(verdict.clone()),
    };
    if unit.cancel.is_cancelled() {
        return without(unit, Outcome::Invalid(Invalid::Cancelled), "cancelled");
    }
    let budget = Budget { granted, ..task.limits.budget() };
    match task.mode {
        Mode::Strict => {
            let code = code(place, program, unit, &budget);
            let program = Source { text: program.as_bytes(), code, many: task.tests.len() >= VERY_MANY };
            Outturn::Test(judge::judge_strictly(place, program, &task.tests, unit.test, &budget, &unit.cancel))
        }
        Mode::LiveCodeBench => {
            let mut verdict = judge::judge_by_grader(place, program, task, &budget, &unit.cancel);
            place.unload();
            verdict.program = Some(program.clone());
            Outturn::Whole(Box::new(verdict))
        }
    }
}

/// What compiling a program gives, done once where it has many tests. An empty code leaves it to every test, and with it whatever the
/// compiler has to say.
fn code<'u>(place: &mut dyn Place, program: &str, unit: &'u Unit, budget: &Budget) -> &'u [u8] {
    if unit.task.tests.len() < MANY {
        return &[];
    }
    unit.code.get_or_init(|| {
        let budget = Budget { time: budget.time.min(COMPILING), ..*budget };
        match place.compile(program.as_bytes(), &budget, &unit.cancel).ending {
            Ending::Returned(code) => code,
            _ => Vec::new(),
        }
    })
}

/// A unit that was not run.
fn without(unit: &Unit, outcome: Outcome, detail: &str) -> Outturn {
    match unit.task.mode {
        Mode::Strict if unit.program.is_ok() => Outturn::Test(Report {
            outcome,
            detail: detail.to_owned(),
            unsupported: false,
            stdout: String::new(),
            stderr: String::new(),
            cpu: Duration::ZERO,
            memory: 0,
        }),
        _ => Outturn::Whole(Box::new(Verdict::without_run(outcome, unit.task.tests.len(), detail))),
    }
}
