//! Many programs, in sequence and concurrently: every program has exactly one verdict, and memory does not grow.
//!
//! `EVENKEEL_LONG=1` runs 10,000 programs instead of a few hundred and prints the memory curve.
#![allow(clippy::print_stderr)]

mod support;

use std::sync::mpsc;
use std::time::Duration;

use evenkeel_sandbox::{Invalid, Mode, ProgramLimits, ProgramOutcome, ProgramTask};
use support::{POOL, resident, stdin, task};
use tokio_util::sync::CancellationToken;

/// Number of programs that run concurrently.
const AT_ONCE: usize = 64;

/// Typical submissions: right, wrong, broken, greedy and deeply recursive programs.
const PROGRAMS: [(&str, ProgramOutcome); 8] = [
    ("print(int(input()) * 2)", ProgramOutcome::Pass),
    ("n = int(input())\nprint(sum(n for _ in range(2)))", ProgramOutcome::Pass),
    ("print(int(input()) + 1)", ProgramOutcome::WrongAnswer),
    ("x = list(range(200000))\nprint(input())", ProgramOutcome::WrongAnswer),
    ("raise ValueError", ProgramOutcome::RuntimeError),
    ("def f(:", ProgramOutcome::CompileError),
    ("x = bytearray(100 << 20)", ProgramOutcome::MemoryLimit),
    (
        "import sys\nsys.setrecursionlimit(10**6)\ndef f(n): return n and f(n - 1)\nf(20000)\nprint(42)",
        ProgramOutcome::Pass,
    ),
];

#[test]
fn thousands_of_programs_have_one_verdict_each_and_memory_stays_flat() {
    let long = std::env::var_os("EVENKEEL_LONG").is_some();
    let (rounds, each) = if long { (20, 500) } else { (6, 64) };
    let tests = stdin(&[("21", "42")]);
    let mut curve = Vec::new();
    for round in 0..rounds {
        let (sender, receiver) = mpsc::channel();
        let mut verdicts = vec![0_u32; each];
        let mut sent = 0;
        let mut pending = 0;
        while sent < each || pending > 0 {
            while sent < each && pending < AT_ONCE {
                let (program, expected) = PROGRAMS[(sent + round) % PROGRAMS.len()];
                let limits =
                    ProgramLimits { cpu: Duration::from_secs(10), memory_bytes: 64 << 20, ..ProgramLimits::default() };
                let mode = if sent % 3 == 0 { Mode::LiveCodeBench } else { Mode::Strict };
                let task = ProgramTask { limits, mode, ..task(program, &tests) };
                let sender = sender.clone();
                let index = sent;
                POOL.submit(task, CancellationToken::new(), move |verdict| {
                    sender.send((index, expected, verdict)).expect("the test waits")
                })
                .expect("room");
                sent += 1;
                pending += 1;
            }
            let (index, expected, verdict) = receiver.recv().expect("a verdict comes");
            assert_eq!(verdict.outcome, expected, "{}", verdict.detail);
            verdicts[index] += 1;
            pending -= 1;
        }
        assert!(verdicts.iter().all(|count| *count == 1), "one verdict for each program");
        curve.push(resident() >> 20);
    }
    eprintln!("resident memory in MiB after every {each} programs: {curve:?}");
    // The first third is warm-up.
    let flat = &curve[rounds / 3..];
    let least = flat.iter().min().expect("rounds");
    let most = flat.iter().max().expect("rounds");
    assert!(most - least <= least / 20 + 8, "memory is not flat: {curve:?}");
}

#[test]
fn a_cancelled_program_ends_and_has_no_verdict() {
    let cancel = CancellationToken::new();
    let (sender, receiver) = mpsc::channel();
    let endless = ProgramTask {
        limits: ProgramLimits { cpu: Duration::from_secs(60), ..ProgramLimits::default() },
        ..task("while True: pass", &stdin(&[("", "")]))
    };
    POOL.submit(endless, cancel.clone(), move |verdict| sender.send(verdict).expect("the test waits")).expect("room");
    std::thread::sleep(Duration::from_millis(200));
    cancel.cancel();
    let verdict = receiver.recv_timeout(Duration::from_secs(30)).expect("it ends");
    assert_eq!(verdict.outcome, ProgramOutcome::Invalid(Invalid::Cancelled));
    assert_eq!(verdict.reward, None);
}

#[test]
fn a_full_queue_refuses_programs_and_a_dropped_pool_answers_all() {
    use std::sync::Arc;

    use evenkeel_sandbox::{Pool, PoolSettings, QueueFull};

    let pool =
        Pool::in_process(Arc::clone(&support::INTERPRETER), PoolSettings { workers: 1, queue: 2, memory_bytes: None })
            .expect("threads start");
    let (sender, receiver) = mpsc::channel();
    let tests = stdin(&[("", "")]);
    let submit = |sender: mpsc::Sender<ProgramOutcome>| {
        let endless = task("while True: pass", &tests);
        pool.submit(endless, CancellationToken::new(), move |verdict| {
            sender.send(verdict.outcome).expect("the test waits")
        })
    };
    assert_eq!(submit(sender.clone()), Ok(()));
    assert_eq!(submit(sender.clone()), Ok(()));
    assert_eq!(submit(sender), Err(QueueFull));
    drop(pool);
    let ended: Vec<ProgramOutcome> = receiver.into_iter().collect();
    assert_eq!(ended, [ProgramOutcome::Invalid(Invalid::Cancelled); 2]);
}
