//! Programs that try to pass without solving the problem, to exceed their limits, or to affect other programs.
//!
//! No program can know the expected output of the tests. Every attack is judged concurrently with an honest program,
//! which is judged again afterwards on the same threads.
#![allow(clippy::print_stderr)]

#[path = "../support/mod.rs"]
mod support;

mod cheating;
mod escape;
mod exhaustion;

use std::sync::Arc;
use std::time::{Duration, Instant};

use evenkeel_sandbox::rows::Tests;
use evenkeel_sandbox::{Mode, ProgramLimits, ProgramOutcome, ProgramTask};
use support::{POOL, functional, judge_all, resident, stdin, task};

/// CPU time limit of the attacks.
const CPU: Duration = Duration::from_millis(400);
/// By how much a program may exceed its limit.
const GRACE: Duration = Duration::from_millis(100);
/// The expected output, which does not follow from the input.
const SECRET: &str = "8461057";

const HONEST: &str =
    "import sys\nprint(sum(map(int, sys.stdin.read().split())), len(sys.modules) > 0, 'left' in dir(sys))";

/// Most memory that the pool may keep for later instances, in bytes.
const KEPT: u64 = 96 << 20;

fn limited(program: &str, tests: &Arc<Tests>, mode: Mode) -> ProgramTask {
    let limits = ProgramLimits { cpu: CPU, memory_bytes: 128 << 20, output_bytes: 1 << 20, ..ProgramLimits::default() };
    ProgramTask { mode, limits, ..task(program, tests) }
}

fn defeat(name: &str, attack: &str, tests: &Arc<Tests>) {
    let sums = stdin(&[("1 2 3", "6 True False")]);
    for mode in [Mode::Strict, Mode::LiveCodeBench] {
        let began = Instant::now();
        let verdicts = judge_all(vec![limited(attack, tests, mode), limited(HONEST, &sums, Mode::Strict)]);
        let after = judge_all(vec![limited(HONEST, &sums, Mode::Strict), limited(HONEST, &sums, mode)]);
        let verdict = &verdicts[0];
        let honest = &verdicts[1];
        assert!(!verdict.passed(), "{name} passes in the mode {mode:?}");
        assert!(!matches!(verdict.outcome, ProgramOutcome::Invalid(_)), "{name} has no verdict: {}", verdict.detail);
        // The program ends with its first test. In LiveCodeBench mode it is loaded before that, with a separate limit.
        let runs = if mode == Mode::Strict { 1 } else { 2 };
        assert!(verdict.cpu <= runs * (CPU + GRACE), "{name} worked for {:?}", verdict.cpu);
        assert!(began.elapsed() < Duration::from_secs(300), "{name} took {:?}", began.elapsed());
        assert!(honest.passed(), "{name} changed a concurrent verdict: {:?} {}", honest.outcome, honest.detail);
        for verdict in after {
            assert!(verdict.passed(), "{name} left something behind: {:?} {}", verdict.outcome, verdict.stdout_excerpt);
        }
    }
}

/// Growth of resident memory in bytes, once replaced threads have freed their stacks.
fn grown_since(before: u64) -> u64 {
    let grown = || resident().saturating_sub(before);
    let began = Instant::now();
    while grown() > KEPT && began.elapsed() < Duration::from_secs(2) {
        std::thread::sleep(Duration::from_millis(1));
    }
    grown()
}

#[test]
fn no_attack_passes_exceeds_its_limits_or_affects_others() {
    let reads = stdin(&[("3\n1 2 3\n", SECRET), ("2\n7 7\n", SECRET)]);
    let called = functional("solve", &[("[1, 2]\n3", SECRET), ("[4]\n5", SECRET)]);
    let groups = [exhaustion::PROGRAMS, escape::PROGRAMS, cheating::PROGRAMS];
    let programs = groups.iter().flat_map(|group| group.iter()).map(|(name, program)| (*name, *program, &reads));
    let functions = cheating::FUNCTIONS.iter().map(|(name, program)| (*name, *program, &called));
    let all: Vec<_> = programs.chain(functions).collect();
    assert!(all.len() >= 80, "{}", all.len());
    // Warm-up: build the guest and allocate what the pool keeps.
    assert_eq!(POOL.load(), 0);
    for _ in 0..2 {
        defeat("warm-up", "x = bytearray(100 << 20)\nwhile True: pass", &reads);
    }
    let before = resident();
    for (name, program, tests) in &all {
        defeat(name, program, tests);
        // Memory that the pool keeps for later instances is limited, whatever ran.
        let grown = grown_since(before);
        assert!(grown <= KEPT, "{name} left {} MiB in memory", grown >> 20);
    }
    let grown = resident().saturating_sub(before);
    eprintln!("{} attacks, {} KiB more in memory than before", all.len(), grown >> 10);
}
