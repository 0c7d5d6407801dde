//! A thread that runs programs.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::job::{Outturn, Unit};
use super::queue::Queue;
use crate::interpreter::Interpreter;
use crate::judge::{self, Report};
use crate::sandbox::THREAD_STACK;
use crate::task::Mode;
use crate::verdict::{Invalid, Outcome, Verdict};

/// A program that worked for longer may have filled the thread's stack; the thread is then replaced, which gives the memory back. In
/// this time some 30 MiB can be touched.
const FILLS_STACK: Duration = Duration::from_millis(5);

/// Starts a thread that works until the queue is closed.
pub(super) fn start(queue: Arc<Queue>, interpreter: Arc<Interpreter>) -> std::io::Result<JoinHandle<()>> {
    thread::Builder::new().name("evenkeel-code".to_owned()).spawn(move || {
        // The threads that run programs come and go under this one.
        while let Some(more) = shift(&queue, &interpreter) {
            if !more {
                return;
            }
        }
    })
}

/// One thread with a deep stack, until its stack may be full: whether there is more to do.
fn shift(queue: &Arc<Queue>, interpreter: &Arc<Interpreter>) -> Option<bool> {
    let thread = {
        let (queue, interpreter) = (Arc::clone(queue), Arc::clone(interpreter));
        thread::Builder::new()
            .name("evenkeel-guest".to_owned())
            .stack_size(THREAD_STACK)
            .spawn(move || work(&queue, &interpreter))
    };
    match thread {
        Ok(thread) => Some(thread.join().unwrap_or(true)),
        // No thread to be had now: later, perhaps.
        Err(_) => {
            thread::sleep(Duration::from_millis(100));
            Some(true)
        }
    }
}

/// Works until the stack may be full (true) or the queue is closed (false).
fn work(queue: &Queue, interpreter: &Interpreter) -> bool {
    while let Some((id, unit)) = queue.take() {
        let outturn = catch_unwind(AssertUnwindSafe(|| run(interpreter, &unit)))
            .unwrap_or_else(|_| without(&unit, Invalid::Internal, "a worker thread panicked"));
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

fn run(interpreter: &Interpreter, unit: &Unit) -> Outturn {
    let task = &unit.task;
    let program = match &*unit.program {
        Ok(program) => program,
        Err(verdict) => return Outturn::Whole(verdict.clone()),
    };
    if unit.cancel.is_cancelled() {
        return without(unit, Invalid::Cancelled, "cancelled");
    }
    let budget = task.limits.budget();
    let sandbox = match interpreter.sandbox(budget.deterministic) {
        Ok(sandbox) => sandbox,
        Err(error) => return without(unit, Invalid::Internal, &error.to_string()),
    };
    match task.mode {
        Mode::Strict => {
            Outturn::Test(judge::judge_strictly(sandbox, program, &task.tests, unit.test, &budget, &unit.cancel))
        }
        Mode::LiveCodeBench => {
            let mut verdict = judge::judge_by_grader(sandbox, program, &task.tests, &budget, &unit.cancel);
            verdict.program = Some(program.clone());
            Outturn::Whole(Box::new(verdict))
        }
    }
}

/// A unit that has no verdict.
fn without(unit: &Unit, reason: Invalid, detail: &str) -> Outturn {
    let outcome = Outcome::Invalid(reason);
    match unit.task.mode {
        Mode::Strict if unit.program.is_ok() => Outturn::Test(Report {
            outcome,
            detail: detail.to_owned(),
            stdout: String::new(),
            stderr: String::new(),
            cpu: Duration::ZERO,
            memory: 0,
        }),
        _ => Outturn::Whole(Box::new(Verdict::without_run(outcome, unit.task.tests.len(), detail))),
    }
}
