//! Threads that run programs themselves.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::job::UnitResult;
use super::memory::MemoryBudget;
use super::queue::Queue;
use super::thread::{not_run, run, with_memory};
use crate::in_process::InProcess;
use crate::interpreter::Interpreter;
use crate::reason::Reason;
use crate::sandbox::{STACK_REUSE_LIMIT, THREAD_STACK};

/// Delay before another attempt at starting a thread.
const THREAD_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Starts a thread that runs programs itself until the queue is closed.
pub(super) fn start(
    queue: Arc<Queue>,
    memory: Arc<MemoryBudget>,
    interpreter: Arc<Interpreter>,
) -> std::io::Result<JoinHandle<()>> {
    thread::Builder::new()
        .name("evenkeel-sandbox".to_owned())
        .spawn(move || while run_with_fresh_stack(&queue, &memory, &interpreter) {})
}

/// Runs programs on a new thread with a deep stack, which is replaced when its stack may have grown. False once the
/// queue is closed.
fn run_with_fresh_stack(queue: &Arc<Queue>, memory: &Arc<MemoryBudget>, interpreter: &Arc<Interpreter>) -> bool {
    let thread = {
        let queue = Arc::clone(queue);
        let memory = Arc::clone(memory);
        let interpreter = Arc::clone(interpreter);
        thread::Builder::new()
            .name("evenkeel-guest".to_owned())
            .stack_size(THREAD_STACK)
            .spawn(move || run_until_stack_grows(&queue, &memory, &interpreter))
    };
    match thread {
        Ok(thread) => thread.join().unwrap_or(true),
        // The system may be able to start one later.
        Err(_) => {
            thread::sleep(THREAD_RETRY_DELAY);
            true
        }
    }
}

/// Runs programs until the stack may have grown (true) or the queue is closed (false).
fn run_until_stack_grows(queue: &Queue, memory: &MemoryBudget, interpreter: &Interpreter) -> bool {
    let mut executor = InProcess::new(interpreter);
    while let Some((id, unit)) = queue.take() {
        let run = || with_memory(memory, &unit, |granted| run(&mut executor, &unit, granted));
        let result = catch_unwind(AssertUnwindSafe(run))
            .unwrap_or_else(|_| not_run(&unit, Reason::Internal, "a pool thread panicked"));
        let cpu = match &result {
            UnitResult::Test(report) => report.cpu,
            UnitResult::Program(verdict) => verdict.cpu,
        };
        queue.record(id, unit.test, result);
        if cpu > STACK_REUSE_LIMIT {
            return true;
        }
    }
    false
}
