//! Programs in worker processes, and the verdicts on programs whose process is killed, crashes or is stopped.
//!
//! The test binary is also the worker process, whose standard output carries the protocol. It therefore has its own
//! `main`.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod support;

use std::process::{Command, ExitCode};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use evenkeel_sandbox::{
    CellOutcome, CellPool, CellSettings, Invalid, Pool, PoolSettings, ProgramLimits, ProgramOutcome, ProgramTask,
    ProgramVerdict, WorkerProcessCommand, guest, run_session_process, run_worker_process,
};
use support::{stdin, task};
use tokio_util::sync::CancellationToken;

const WORKER_PROCESS: &str = "worker-process";

const SESSIONS: &str = "sessions";

const TESTS: [(&str, fn()); 8] = [
    ("a_program_passes_in_a_worker_process", a_program_passes_in_a_worker_process),
    ("a_program_whose_process_is_killed_is_run_again", a_program_whose_process_is_killed_is_run_again),
    ("a_program_whose_processes_are_killed_has_no_verdict", a_program_whose_processes_are_killed_has_no_verdict),
    ("a_program_whose_processes_crash_is_a_runtime_error", a_program_whose_processes_crash_is_a_runtime_error),
    ("a_stopped_process_is_replaced", a_stopped_process_is_replaced),
    ("a_program_in_a_stopped_process_can_be_cancelled", a_program_in_a_stopped_process_can_be_cancelled),
    ("a_pool_with_a_stopped_process_shuts_down", a_pool_with_a_stopped_process_shuts_down),
    (
        "sessions_are_lost_with_their_process_and_others_are_not",
        sessions_are_lost_with_their_process_and_others_are_not,
    ),
];

fn main() -> ExitCode {
    let folder = guest::default_folder().unwrap_or_else(|error| panic!("{error}"));
    let asked: Vec<String> = std::env::args().skip(1).collect();
    if asked.first().is_some_and(|first| first == WORKER_PROCESS) {
        return if run_worker_process(&folder).is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    if let [first, number, ..] = &asked[..]
        && first == SESSIONS
    {
        let sessions = number.parse().unwrap_or(1);
        return if run_session_process(&folder, sessions).is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    for form in [guest::Form::Timed, guest::Form::Counted] {
        evenkeel_guest::ensure(&folder, form, &|line| eprintln!("{line}")).unwrap_or_else(|error| panic!("{error}"));
    }
    let names: Vec<&String> = asked.iter().filter(|name| !name.starts_with('-')).collect();
    for (name, test) in TESTS {
        if names.is_empty() || names.iter().any(|part| name.contains(part.as_str())) {
            test();
            println!("test {name} ... ok");
        }
    }
    ExitCode::SUCCESS
}

fn pool() -> Pool {
    let program = std::env::current_exe().expect("a test has a file");
    let command = WorkerProcessCommand { program, arguments: vec![WORKER_PROCESS.into()] };
    Pool::with_worker_processes(&command, PoolSettings { workers: 1, queue: 100, memory_bytes: None })
        .expect("threads start")
}

/// A program that uses about this much CPU time.
fn working(seconds: u32) -> ProgramTask {
    let program = format!("import time\nwhile time.process_time() < {seconds}: pass\nprint('done')");
    let mut task = task(&program, &stdin(&[("", "done")]));
    task.limits = ProgramLimits { cpu: Duration::from_secs(60), ..ProgramLimits::default() };
    task
}

/// Judges a task and sends a signal to its process after it has run for a while, up to this many times.
fn judged_under(signal: &str, times: u32) -> ProgramVerdict {
    let pool = Arc::new(pool());
    let (sender, receiver) = mpsc::channel();
    pool.submit(working(3), CancellationToken::new(), move |verdict| sender.send(verdict).expect("the test waits"))
        .expect("there is room");
    let mut sent = 0;
    let began = Instant::now();
    loop {
        if let Ok(verdict) = receiver.recv_timeout(Duration::from_millis(20)) {
            assert_eq!(sent, times, "processes that received the signal");
            let usage = pool.usage();
            assert_eq!((usage.programs, usage.processes_lost), (0, u64::from(times)), "{usage:?}");
            return verdict;
        }
        assert!(began.elapsed() < Duration::from_secs(300), "no verdict");
        let busy = children().into_iter().find(|child| worked(*child) > Duration::from_millis(1500));
        if let Some(child) = busy.filter(|_| sent < times) {
            let status = Command::new("kill").args([signal, &child.to_string()]).status().expect("kill can be run");
            assert!(status.success());
            sent += 1;
        }
    }
}

fn stat(process: u32) -> Vec<String> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    text.rsplit(')').next().unwrap_or_default().split_whitespace().map(str::to_owned).collect()
}

/// The child processes that are still running.
fn children() -> Vec<u32> {
    let own = std::process::id().to_string();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_string_lossy().parse().ok());
    let running = |stat: &[String]| stat.get(1) == Some(&own) && stat.first().is_some_and(|state| state != "Z");
    numbers.filter(|process| running(&stat(*process))).collect()
}

/// CPU time of a process, assuming a hundred ticks per second.
fn worked(process: u32) -> Duration {
    let stat = stat(process);
    let ticks = |at: usize| stat.get(at).and_then(|ticks| ticks.parse::<u64>().ok()).unwrap_or(0);
    Duration::from_millis(10 * (ticks(11) + ticks(12)))
}

fn a_program_passes_in_a_worker_process() {
    let verdict = pool().judge(working(0)).expect("there is room");
    assert!(verdict.passed(), "{}", verdict.detail);
}

fn a_program_whose_process_is_killed_is_run_again() {
    let verdict = judged_under("-KILL", 1);
    assert!(verdict.passed(), "{:?} {}", verdict.outcome, verdict.detail);
}

fn a_program_whose_processes_are_killed_has_no_verdict() {
    for signal in ["-KILL", "-TERM"] {
        let verdict = judged_under(signal, 2);
        assert_eq!(
            (verdict.outcome, verdict.reward),
            (ProgramOutcome::Invalid(Invalid::Lost), None),
            "{}",
            verdict.detail
        );
    }
}

fn a_program_whose_processes_crash_is_a_runtime_error() {
    let verdict = judged_under("-ABRT", 2);
    assert_eq!((verdict.outcome, verdict.reward), (ProgramOutcome::RuntimeError, Some(0.0)), "{}", verdict.detail);
}

fn signal(process: u32, signal: &str) {
    let status = Command::new("kill").args([signal, &process.to_string()]).status().expect("kill can be run");
    assert!(status.success());
}

/// Waits for a busy process and stops it.
fn stop_a_busy_process() {
    let began = Instant::now();
    loop {
        if let Some(child) = children().into_iter().find(|child| worked(*child) > Duration::from_millis(1500)) {
            return signal(child, "-STOP");
        }
        assert!(began.elapsed() < Duration::from_secs(300), "no process is busy");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn a_stopped_process_is_replaced() {
    let pool = pool();
    let long = "x".repeat(1 << 20);
    for _ in 0..3 {
        assert!(pool.judge(working(0)).expect("there is room").passed());
        children().into_iter().for_each(|child| signal(child, "-STOP"));
        // More than a pipe holds, so that writing to a process that does not read would block.
        let mut task = task("print(len(input()))", &stdin(&[(&long, "1048576")]));
        // If the system does not tell that a process is stopped, the wall clock limit applies.
        let wall = Duration::from_secs(if cfg!(target_os = "linux") { 600 } else { 5 });
        task.limits = ProgramLimits { wall, ..ProgramLimits::default() };
        let began = Instant::now();
        let verdict = pool.judge(task).expect("there is room");
        assert!(verdict.passed(), "{:?} {}", verdict.outcome, verdict.detail);
        assert!(began.elapsed() < Duration::from_secs(300), "{:?}", began.elapsed());
    }
}

fn a_program_in_a_stopped_process_can_be_cancelled() {
    let pool = pool();
    let (sender, receiver) = mpsc::channel();
    let cancel = CancellationToken::new();
    let done = move |verdict| sender.send(verdict).expect("the test waits");
    pool.submit(working(60), cancel.clone(), done).expect("there is room");
    stop_a_busy_process();
    cancel.cancel();
    let verdict: ProgramVerdict = receiver.recv_timeout(Duration::from_secs(100)).expect("well before its wall clock");
    assert!(matches!(verdict.outcome, ProgramOutcome::Invalid(_)), "{:?}", verdict.outcome);
}

fn a_pool_with_a_stopped_process_shuts_down() {
    let pool = pool();
    pool.submit(working(60), CancellationToken::new(), |_| {}).expect("there is room");
    stop_a_busy_process();
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        drop(pool);
        let _ = sender.send(());
    });
    receiver.recv_timeout(Duration::from_secs(100)).expect("well before the program's wall clock");
}

fn sessions_are_lost_with_their_process_and_others_are_not() {
    let program = std::env::current_exe().expect("a test has a file");
    let command = WorkerProcessCommand { program, arguments: vec![SESSIONS.into()] };
    let settings = CellSettings {
        threads: 2,
        memory_bytes: 512 << 20,
        session_bytes: 64 << 20,
        cell_time: Duration::from_secs(60),
        output_chars: 1000,
    };
    let pool = CellPool::with_worker_processes(&command, settings).expect("threads start");
    let sessions = [0, 1, 2, 3].map(|_| pool.open().expect("there is memory"));
    let ran = |text: &str| CellOutcome::Ran { text: text.to_owned(), raised: false };
    for (number, session) in sessions.iter().enumerate() {
        assert_eq!(session.run_and_wait(&format!("x = {number}")), ran(""));
    }
    // Sessions take turns on the two processes.
    let (sender, receiver) = mpsc::channel();
    let busy = "import time\nwhile time.process_time() < 50: pass";
    sessions[0].run(busy.to_owned(), move |outcome| sender.send(outcome).expect("the test waits"));
    let began = Instant::now();
    let working = loop {
        let busy = children().into_iter().find(|child| worked(*child) > Duration::from_millis(1500));
        assert!(began.elapsed() < Duration::from_secs(60), "no process works");
        if let Some(child) = busy {
            break child;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let status = Command::new("kill").args(["-KILL", &working.to_string()]).status().expect("kill can be run");
    assert!(status.success());
    let lost = receiver.recv_timeout(Duration::from_secs(60)).expect("an outcome");
    assert!(matches!(&lost, CellOutcome::Lost(_)), "{lost:?}");
    let beside = sessions[2].run_and_wait("x");
    assert!(matches!(&beside, CellOutcome::Lost(_)), "it was in the same process: {beside:?}");
    for number in [1, 3] {
        assert_eq!(sessions[number].run_and_wait("x"), ran(&format!("{number}\n")));
    }
    drop(sessions);
    let next = pool.open().expect("there is memory");
    assert_eq!(next.run_and_wait("1 + 1"), ran("2\n"));
}
