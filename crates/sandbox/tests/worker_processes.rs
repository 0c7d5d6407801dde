//! Programs in processes of their own, and what becomes of a program whose process is ended.
//!
//! The test is its own cell, so it has a `main` of its own: what a cell writes to standard output is read by whoever started it.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod support;

use std::process::{Command, ExitCode};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use evenkeel_sandbox::{
    Cancel, CellCommand, Invalid, Limits, Outcome, Pool, PoolSettings, Task, Verdict, guest, serve_cell,
};
use support::{stdin, task};

const CELL: &str = "cell";

const TESTS: [(&str, fn()); 7] = [
    ("a_program_passes_in_a_cell", a_program_passes_in_a_cell),
    ("a_program_whose_process_is_killed_is_run_again", a_program_whose_process_is_killed_is_run_again),
    ("a_program_whose_processes_are_killed_has_no_verdict", a_program_whose_processes_are_killed_has_no_verdict),
    (
        "a_program_whose_processes_break_down_is_a_runtime_error",
        a_program_whose_processes_break_down_is_a_runtime_error,
    ),
    ("a_process_that_was_stopped_is_replaced", a_process_that_was_stopped_is_replaced),
    ("a_program_is_taken_back_from_a_stopped_process", a_program_is_taken_back_from_a_stopped_process),
    ("a_pool_ends_whose_process_was_stopped", a_pool_ends_whose_process_was_stopped),
];

fn main() -> ExitCode {
    let folder = guest::default_folder().unwrap_or_else(|error| panic!("{error}"));
    let asked: Vec<String> = std::env::args().skip(1).collect();
    if asked.first().is_some_and(|first| first == CELL) {
        return if serve_cell(&folder).is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    evenkeel_guest::ensure(&folder, guest::Form::Timed, &|line| eprintln!("{line}"))
        .unwrap_or_else(|error| panic!("{error}"));
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
    let command = CellCommand { program, arguments: vec![CELL.into()] };
    Pool::of_cells(&command, PoolSettings { workers: 1, queue: 100, memory_bytes: None }).expect("threads start")
}

/// Works for about so many seconds.
fn working(seconds: u32) -> Task {
    let program = format!("import time\nwhile time.process_time() < {seconds}: pass\nprint('done')");
    let mut task = task(&program, &stdin(&[("", "done")]));
    task.limits = Limits { cpu: Duration::from_secs(60), ..Limits::default() };
    task
}

/// Judges a task while its process gets a signal whenever it has run for a while, so often at most.
fn judged_under(signal: &str, times: u32) -> Verdict {
    let pool = Arc::new(pool());
    let (sender, receiver) = mpsc::channel();
    pool.submit(working(3), Cancel::new(), move |verdict| sender.send(verdict).expect("the test waits"))
        .expect("there is room");
    let mut sent = 0;
    let began = Instant::now();
    loop {
        if let Ok(verdict) = receiver.recv_timeout(Duration::from_millis(20)) {
            assert_eq!(sent, times, "processes that got a signal");
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

/// The processes that this one started, without those that have ended.
fn children() -> Vec<u32> {
    let own = std::process::id().to_string();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_string_lossy().parse().ok());
    let running = |stat: &[String]| stat.get(1) == Some(&own) && stat.first().is_some_and(|state| state != "Z");
    numbers.filter(|process| running(&stat(*process))).collect()
}

/// CPU time that a process has used, with a hundred ticks to a second.
fn worked(process: u32) -> Duration {
    let stat = stat(process);
    let ticks = |at: usize| stat.get(at).and_then(|ticks| ticks.parse::<u64>().ok()).unwrap_or(0);
    Duration::from_millis(10 * (ticks(11) + ticks(12)))
}

fn a_program_passes_in_a_cell() {
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
        assert_eq!((verdict.outcome, verdict.reward), (Outcome::Invalid(Invalid::Lost), None), "{}", verdict.detail);
    }
}

fn a_program_whose_processes_break_down_is_a_runtime_error() {
    let verdict = judged_under("-ABRT", 2);
    assert_eq!((verdict.outcome, verdict.reward), (Outcome::RuntimeError, Some(0.0)), "{}", verdict.detail);
}

fn signal(process: u32, signal: &str) {
    let status = Command::new("kill").args([signal, &process.to_string()]).status().expect("kill can be run");
    assert!(status.success());
}

/// Waits for a process that works, and stops it in the middle.
fn stop_a_busy_one() {
    let began = Instant::now();
    loop {
        if let Some(child) = children().into_iter().find(|child| worked(*child) > Duration::from_millis(1500)) {
            return signal(child, "-STOP");
        }
        assert!(began.elapsed() < Duration::from_secs(300), "nothing works");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn a_process_that_was_stopped_is_replaced() {
    let pool = pool();
    let long = "x".repeat(1 << 20);
    for _ in 0..3 {
        assert!(pool.judge(working(0)).expect("there is room").passed());
        children().into_iter().for_each(|child| signal(child, "-STOP"));
        // More than a pipe holds, so that a process that does not read would hold up whoever writes.
        let mut task = task("print(len(input()))", &stdin(&[(&long, "1048576")]));
        // Where the system does not say that a process was stopped, the wall clock has to end.
        let wall = Duration::from_secs(if cfg!(target_os = "linux") { 600 } else { 5 });
        task.limits = Limits { wall, ..Limits::default() };
        let began = Instant::now();
        let verdict = pool.judge(task).expect("there is room");
        assert!(verdict.passed(), "{:?} {}", verdict.outcome, verdict.detail);
        assert!(began.elapsed() < Duration::from_secs(300), "{:?}", began.elapsed());
    }
}

fn a_program_is_taken_back_from_a_stopped_process() {
    let pool = pool();
    let (sender, receiver) = mpsc::channel();
    let cancel = Cancel::new();
    let done = move |verdict| sender.send(verdict).expect("the test waits");
    pool.submit(working(60), cancel.clone(), done).expect("there is room");
    stop_a_busy_one();
    cancel.cancel();
    let verdict: Verdict = receiver.recv_timeout(Duration::from_secs(100)).expect("well before its wall clock");
    assert!(matches!(verdict.outcome, Outcome::Invalid(_)), "{:?}", verdict.outcome);
}

fn a_pool_ends_whose_process_was_stopped() {
    let pool = pool();
    pool.submit(working(60), Cancel::new(), |_| {}).expect("there is room");
    stop_a_busy_one();
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        drop(pool);
        let _ = sender.send(());
    });
    receiver.recv_timeout(Duration::from_secs(100)).expect("well before the program's wall clock");
}
