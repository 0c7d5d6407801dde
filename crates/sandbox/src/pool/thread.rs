//! The threads of the pool: each has its programs run by a worker process, or runs them itself (`in_process`).

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::job::{UnitResult, WorkUnit};
use super::memory::MemoryBudget;
use super::queue::Queue;
use super::usage::ProcessCounts;
use crate::executor::Executor;
use crate::judge::{self, Report};
use crate::outcome::{Invalid, ProgramOutcome};
use crate::reason::Reason;
use crate::run::{Budget, ExitStatus, ProgramSource};
use crate::task::Mode;
use crate::verdict::ProgramVerdict;
use crate::worker_process::{ProcessLoss, StartError, WorkerProcess, WorkerProcessCommand};

/// Delay before another attempt at starting a worker process.
const RESTART_DELAY: Duration = Duration::from_secs(1);
/// From this many tests on, an executor runs the definitions of a program once for all its tests: see
/// [`ProgramSource::many_tests`].
const MIN_SERIES_TESTS: usize = 8;
/// From this many tests on, a program is compiled once for all of them.
const MIN_COMPILED_TESTS: usize = 3;
/// Time limit for compiling a program once. Beyond it each test compiles the program, within its own limit.
const COMPILE_TIMEOUT: Duration = Duration::from_secs(1);

/// Starts a thread that has a worker process run programs until the queue is closed.
pub(super) fn with_worker_process(
    queue: Arc<Queue>,
    memory: Arc<MemoryBudget>,
    counts: Arc<ProcessCounts>,
    command: WorkerProcessCommand,
) -> std::io::Result<JoinHandle<()>> {
    thread::Builder::new().name("evenkeel-sandbox".to_owned()).spawn(move || {
        let mut process = None;
        while let Some((id, unit)) = queue.take() {
            let run = |granted| run_in_process(&mut process, &command, &counts, &unit, granted);
            let result = with_memory(&memory, &unit, run);
            queue.record(id, unit.test, result);
        }
    })
}

/// Runs a unit once it has a grant of memory, and again with its full allowance if the grant did not suffice.
pub(super) fn with_memory(
    memory: &MemoryBudget,
    unit: &WorkUnit,
    mut run: impl FnMut(u64) -> UnitResult,
) -> UnitResult {
    let allowed = unit.task.limits.memory_bytes;
    let is_cancelled = || unit.cancel.is_cancelled();
    let cancelled = || not_run(unit, Reason::Cancelled, "cancelled");
    let Some(grant) = memory.grant(allowed, is_cancelled) else { return cancelled() };
    let result = run(grant.bytes);
    if grant.bytes >= allowed || result.outcome() != ProgramOutcome::Invalid(Invalid::InsufficientMemory) {
        return result;
    }
    drop(grant);
    let Some(grant) = memory.grant_all(allowed, is_cancelled) else { return cancelled() };
    run(grant.bytes)
}

/// Has a unit run by a worker process. If the process is lost, the unit is run again in another one. If that is lost as
/// well, the verdict is a runtime error if both crashed; if one was ended from outside, there is no verdict.
fn run_in_process(
    process: &mut Option<WorkerProcess>,
    command: &WorkerProcessCommand,
    counts: &ProcessCounts,
    unit: &WorkUnit,
    granted: u64,
) -> UnitResult {
    let mut first = None;
    loop {
        if unit.cancel.is_cancelled() {
            return not_run(unit, Reason::Cancelled, "cancelled");
        }
        let running = match process {
            Some(process) => Ok(process),
            None => WorkerProcess::start(command, &unit.cancel).map(|started| {
                counts.started();
                process.insert(started)
            }),
        };
        let loss = match running {
            Ok(running) => {
                let result = run(running, unit, granted);
                let Some(loss) = running.lost().cloned() else { return result };
                *process = None;
                counts.lost();
                loss
            }
            Err(StartError::Missing(missing)) => {
                thread::sleep(RESTART_DELAY);
                return not_run(unit, Reason::Internal, &missing);
            }
            // The program cannot be the cause: the process had not received it.
            Err(StartError::Lost(ProcessLoss::Crash(how) | ProcessLoss::External(how))) => ProcessLoss::External(how),
        };
        match (first.replace(loss.clone()), loss) {
            (None, _) => {}
            (Some(ProcessLoss::Crash(_)), ProcessLoss::Crash(how)) => {
                let detail = format!("crashed the worker process of the sandbox twice: {how}");
                return not_run(unit, Reason::Crashed, &detail);
            }
            (Some(_), loss) => return not_run(unit, Reason::Lost, &loss.to_string()),
        }
    }
}

pub(super) fn run(executor: &mut dyn Executor, unit: &WorkUnit, granted: u64) -> UnitResult {
    let task = &unit.task;
    let program = match &*unit.program {
        Ok(program) => program,
        Err(verdict) => return UnitResult::Program(verdict.clone()),
    };
    if unit.cancel.is_cancelled() {
        return not_run(unit, Reason::Cancelled, "cancelled");
    }
    let budget = Budget { granted, ..task.limits.budget() };
    let function = task.tests.function().unwrap_or_default();
    let program = match program.choose(executor, function, &budget, &unit.cancel) {
        Ok(program) => program,
        Err(run) => {
            let (reason, detail) = judge::reason_of(&run);
            return not_run(unit, reason, &detail);
        }
    };
    match task.mode {
        Mode::Strict => {
            let code = compiled(executor, program, unit, &budget);
            let program =
                ProgramSource { text: program.as_bytes(), code, many_tests: task.tests.len() >= MIN_SERIES_TESTS };
            if task.keep_output {
                let input = task.tests.tests()[unit.test].input.as_bytes();
                return UnitResult::Test(judge::run_and_keep(executor, program, input, &budget, &unit.cancel));
            }
            let test = (&*task.tests, unit.test);
            UnitResult::Test(judge::judge_strictly(executor, program, test, task.tolerance, &budget, &unit.cancel))
        }
        Mode::LiveCodeBench => {
            let mut verdict = judge::judge_by_grader(executor, program, task, &budget, &unit.cancel);
            executor.unload();
            verdict.program = Some(program.to_owned());
            UnitResult::Program(Box::new(verdict))
        }
    }
}

/// The compiled program if it has several tests. Empty if every test has to compile the program itself, which also
/// reports the warnings and errors of the compiler.
fn compiled<'u>(executor: &mut dyn Executor, program: &str, unit: &'u WorkUnit, budget: &Budget) -> &'u [u8] {
    if unit.task.tests.len() < MIN_COMPILED_TESTS {
        return &[];
    }
    unit.code.get_or_init(|| {
        let budget = Budget { time: budget.time.min(COMPILE_TIMEOUT), ..*budget };
        match executor.compile(program.as_bytes(), &budget, &unit.cancel).status {
            ExitStatus::Returned(code) => code,
            _ => Vec::new(),
        }
    })
}

/// The result of a unit that was not run.
pub(super) fn not_run(unit: &WorkUnit, reason: Reason, detail: &str) -> UnitResult {
    match unit.task.mode {
        Mode::Strict if unit.program.is_ok() => UnitResult::Test(Report::without_run(reason, detail)),
        _ => UnitResult::Program(Box::new(ProgramVerdict::without_run(reason, unit.task.tests.len(), detail))),
    }
}
