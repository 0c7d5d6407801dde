//! An interpreter and a pool for all tests of a file, and helpers to judge programs.
#![allow(dead_code, clippy::print_stderr)]

use std::path::Path;
use std::sync::{Arc, LazyLock, mpsc};
use std::time::Duration;

use evenkeel_sandbox::rows::{Test, TestKind, Tests};
use evenkeel_sandbox::{
    Interpreter, Mode, Pool, PoolSettings, ProgramLimits, ProgramSubmission, ProgramTask, ProgramVerdict, guest,
};
use tokio_util::sync::CancellationToken;

/// Shared by all tests of a process. Panics with what is missing if the guest cannot be built.
pub(crate) static INTERPRETER: LazyLock<Arc<Interpreter>> = LazyLock::new(|| {
    let folder = guest::default_folder().unwrap_or_else(|error| panic!("{error}"));
    for form in [guest::Form::Timed, guest::Form::Counted] {
        evenkeel_guest::ensure(&folder, form, &|line| eprintln!("{line}")).unwrap_or_else(|error| panic!("{error}"));
    }
    let interpreter = Interpreter::load(&folder, 16, &|line| eprintln!("{line}"));
    Arc::new(interpreter.unwrap_or_else(|error| panic!("{error}")))
});

pub(crate) static POOL: LazyLock<Pool> = LazyLock::new(|| {
    let workers = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    Pool::in_process(Arc::clone(&INTERPRETER), PoolSettings { workers, queue: 1 << 16, memory_bytes: None })
        .expect("threads start")
});

/// Tests of a program that uses standard input and output.
pub(crate) fn stdin(cases: &[(&str, &str)]) -> Arc<Tests> {
    tests(TestKind::Stdin, cases, None)
}

/// Tests of a function.
pub(crate) fn functional(name: &str, cases: &[(&str, &str)]) -> Arc<Tests> {
    tests(TestKind::Functional, cases, Some(name))
}

fn tests(kind: TestKind, cases: &[(&str, &str)], name: Option<&str>) -> Arc<Tests> {
    let cases = cases.iter().map(|(input, output)| Test::new(kind, *input, *output));
    Arc::new(Tests::new(cases.collect(), name.map(str::to_owned)).expect("the tests are well formed"))
}

/// A task with a short time limit for endless programs.
pub(crate) fn task(program: &str, tests: &Arc<Tests>) -> ProgramTask {
    let mut task = ProgramTask::new(ProgramSubmission::Program(program.to_owned()), Arc::clone(tests));
    task.limits = ProgramLimits { cpu: Duration::from_secs(5), ..ProgramLimits::default() };
    task
}

pub(crate) fn judge(task: ProgramTask) -> ProgramVerdict {
    POOL.judge(task).expect("the queue is not full")
}

/// Judges all tasks concurrently. Returns the verdicts in the order of the tasks.
pub(crate) fn judge_all(tasks: Vec<ProgramTask>) -> Vec<ProgramVerdict> {
    let (sender, receiver) = mpsc::channel();
    let count = tasks.len();
    for (index, task) in tasks.into_iter().enumerate() {
        let sender = sender.clone();
        POOL.submit(task, CancellationToken::new(), move |verdict| {
            sender.send((index, verdict)).expect("the test waits")
        })
        .expect("there is room");
    }
    drop(sender);
    let mut verdicts: Vec<Option<ProgramVerdict>> = vec![None; count];
    for (index, verdict) in receiver {
        assert!(verdicts[index].replace(verdict).is_none(), "one verdict for each program");
    }
    verdicts.into_iter().map(|verdict| verdict.expect("every program has a verdict")).collect()
}

/// Requires that the program writes exactly this output for the input.
pub(crate) fn answers(program: &str, input: &str, output: &str) {
    let verdict = strict(program, &stdin(&[(input, output)]));
    assert!(
        verdict.passed(),
        "{program}\n{:?} {}\n{}\n{}",
        verdict.outcome,
        verdict.detail,
        verdict.stdout_excerpt,
        verdict.stderr_excerpt
    );
}

/// Resident memory of this process in bytes.
pub(crate) fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    status.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}

/// The verdict in strict mode.
pub(crate) fn strict(program: &str, tests: &Arc<Tests>) -> ProgramVerdict {
    judge(task(program, tests))
}

/// The verdict in LiveCodeBench mode.
pub(crate) fn graded(program: &str, tests: &Arc<Tests>) -> ProgramVerdict {
    judge(ProgramTask { mode: Mode::LiveCodeBench, ..task(program, tests) })
}

/// The rows of a data file.
pub(crate) fn rows(file: &Path) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    text.lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| serde_json::from_str(line).expect("the data is JSON"))
        .collect()
}

/// The tests of a LiveCodeBench row.
pub(crate) fn tests_of(question: &serde_json::Value) -> Arc<Tests> {
    let column = |name: &str| question[name].as_str().unwrap_or_default();
    let read = evenkeel_sandbox::rows::tests_of_row(
        column("public_test_cases"),
        column("private_test_cases"),
        column("metadata"),
        evenkeel_sandbox::rows::MAX_PRIVATE_BYTES,
    );
    Arc::new(read.expect("the row is well formed"))
}

/// The grader's results in the data: true, false and codes.
pub(crate) fn results(value: &serde_json::Value) -> Vec<i32> {
    let one = |value: &serde_json::Value| match value {
        serde_json::Value::Bool(passed) => i32::from(*passed),
        other => i32::try_from(other.as_i64().expect("a code")).expect("a small code"),
    };
    value.as_array().expect("a list").iter().map(one).collect()
}
