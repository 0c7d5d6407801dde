//! How programs share the cores and the memory of the machine.

mod support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use evenkeel_sandbox::{
    Mode, Pool, PoolSettings, ProgramLimits, ProgramOutcome, ProgramTask, ProgramVerdict, RewardRule,
};
use support::{INTERPRETER, graded, judge, resident, stdin, task};
use tokio_util::sync::CancellationToken;

fn pool(workers: usize, memory_bytes: Option<u64>) -> Pool {
    let settings = PoolSettings { workers, queue: 100, memory_bytes };
    Pool::in_process(Arc::clone(&INTERPRETER), settings).expect("threads start")
}

/// The verdicts in the order of completion, each with the index of its task.
fn in_order(pool: &Pool, tasks: Vec<ProgramTask>) -> Vec<(usize, ProgramVerdict)> {
    let (sender, receiver) = mpsc::channel();
    for (index, task) in tasks.into_iter().enumerate() {
        let sender = sender.clone();
        let done = move |verdict| sender.send((index, verdict)).expect("the test waits");
        pool.submit(task, CancellationToken::new(), done).expect("there is room");
    }
    drop(sender);
    receiver.into_iter().collect()
}

fn endless(seconds: u64) -> ProgramTask {
    let mut task = task("while True: pass", &stdin(&[("", "")]));
    task.limits = ProgramLimits { cpu: Duration::from_secs(seconds), ..ProgramLimits::default() };
    task
}

#[test]
fn endless_programs_do_not_block_others() {
    for mode in [Mode::Strict, Mode::LiveCodeBench] {
        let honest = task("print('done')", &stdin(&[("", "done")]));
        // The first moves to a long-running slot after a second, the second is preempted a second later: long before
        // their time limits.
        let tasks = vec![endless(8), endless(8), honest];
        let tasks = tasks.into_iter().map(|task| ProgramTask { mode, ..task }).collect();
        let verdicts = in_order(&pool(1, None), tasks);
        let (first, verdict) = &verdicts[0];
        assert!(*first == 2 && verdict.passed(), "the verdict {first} came first: {:?}", verdict.outcome);
        // The two programs had all of their time, although one was preempted and started again.
        assert_eq!(verdicts.len(), 3);
        for (_, verdict) in &verdicts[1..] {
            assert_eq!((verdict.outcome, verdict.reward), (ProgramOutcome::TimeLimit, Some(0.0)), "{}", verdict.detail);
            assert!(verdict.cpu >= Duration::from_secs(8), "{:?}", verdict.cpu);
        }
    }
}

#[test]
fn preempted_tests_that_no_longer_count_are_dropped() {
    // The second test is preempted for the others, and then made irrelevant by the failure of the first.
    let program = "import time\nn = float(input())\nwhile time.process_time() < n: pass\nprint('wrong')";
    let mut fails = task(program, &stdin(&[("2.5", "right"), ("50", "right")]));
    fails.limits = ProgramLimits { cpu: Duration::from_secs(60), ..ProgramLimits::default() };
    let verdicts = in_order(&pool(2, None), vec![endless(3), endless(3), fails, endless(3), endless(3)]);
    assert_eq!(verdicts.len(), 5);
    for (index, verdict) in &verdicts {
        let expected = if *index == 2 { ProgramOutcome::WrongAnswer } else { ProgramOutcome::TimeLimit };
        assert_eq!((verdict.outcome, verdict.failing_test), (expected, Some(0)), "{index}: {}", verdict.detail);
    }
}

/// Three tests of this program end within the time, and four do not, if starting the interpreter takes less than 110 ms.
const THREE_TESTS_MS: u64 = 1850;

/// A program with five tests of half a second each.
fn steady() -> ProgramTask {
    let program = "import time\nend = time.process_time() + 0.5\nwhile time.process_time() < end: pass\nprint('done')";
    task(program, &stdin(&[("", "done"); 5]))
}

#[test]
fn the_time_limit_over_all_tests_applies() {
    let limited = |task: ProgramTask, ms| {
        let limits = ProgramLimits { program_cpu: Some(Duration::from_millis(ms)), ..task.limits };
        judge(ProgramTask { limits, ..task })
    };
    let verdict = limited(steady(), THREE_TESTS_MS);
    assert_eq!((verdict.outcome, verdict.failing_test, verdict.passed_tests), (ProgramOutcome::TimeLimit, Some(3), 3));
    assert!(verdict.detail.contains("1850 ms over its tests"), "{}", verdict.detail);
    assert!(limited(steady(), 60_000).passed());
    // The limit applies to a single test as well.
    let verdict = limited(endless(30), 300);
    assert_eq!(verdict.outcome, ProgramOutcome::TimeLimit);
    assert!(verdict.cpu < Duration::from_secs(2), "{:?}", verdict.cpu);
    // Tests beyond it do not pass; the reward is the fraction before it.
    let fraction = limited(ProgramTask { reward: RewardRule::PassedFraction, ..steady() }, THREE_TESTS_MS);
    assert_eq!((fraction.outcome, fraction.reward), (ProgramOutcome::TimeLimit, Some(0.6)));
    let grader = limited(ProgramTask { mode: Mode::LiveCodeBench, ..steady() }, THREE_TESTS_MS);
    assert_eq!(
        (grader.outcome, grader.grader.expect("its list").results),
        (ProgramOutcome::TimeLimit, vec![1, 1, 1, -3])
    );
    assert_eq!(graded("print('done')", &steady().tests).outcome, ProgramOutcome::Pass);
}

#[test]
fn programs_wait_until_enough_memory_is_available() {
    const MIB: u64 = 1 << 20;
    let greedy = |_| {
        let program = "import time\nx = bytearray(b'x') * (200 << 20)\nend = time.process_time() + 0.3\n\
            while time.process_time() < end: pass\nprint('done')";
        let mut task = task(program, &stdin(&[("", "done")]));
        task.limits =
            ProgramLimits { memory_bytes: 256 * MIB, cpu: Duration::from_secs(30), ..ProgramLimits::default() };
        task
    };
    let pool = pool(4, Some(300 * MIB));
    let before = resident();
    let done = AtomicBool::new(false);
    let (verdicts, most) = std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut most = 0;
            while !done.load(Ordering::Relaxed) {
                most = most.max(resident());
                std::thread::sleep(Duration::from_millis(5));
            }
            most
        });
        let verdicts = in_order(&pool, (0..6).map(greedy).collect());
        done.store(true, Ordering::Relaxed);
        (verdicts, watch.join().expect("the watching thread does not panic"))
    });
    assert_eq!(verdicts.len(), 6);
    for (_, verdict) in &verdicts {
        assert!(verdict.passed(), "{:?} {}", verdict.outcome, verdict.detail);
        assert!(verdict.peak_memory_bytes >= 200 * MIB);
    }
    // One with its full allowance, and others with small grants.
    assert!(most - before < 400 * MIB, "{} MiB at once", (most - before) / MIB);
}
