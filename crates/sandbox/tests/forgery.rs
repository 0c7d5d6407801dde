//! Forged messages from a program to the host: none avoids a verdict, and none costs the host more memory than the
//! guest has.

mod support;

use std::time::Duration;

use evenkeel_sandbox::{Mode, ProgramLimits, ProgramOutcome, ProgramTask, ProgramVerdict, RewardRule};
use support::{functional, graded, judge, stdin, strict, task};

/// Peak memory of this process in bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kilobytes| kilobytes.parse::<u64>().ok()).unwrap_or(0) << 10
}

/// Judges with the default limits on memory and output.
fn with_default_limits(
    program: &str,
    tests: &std::sync::Arc<evenkeel_sandbox::rows::Tests>,
    mode: Mode,
) -> ProgramVerdict {
    judge(ProgramTask {
        mode,
        limits: ProgramLimits { cpu: Duration::from_secs(10), ..ProgramLimits::default() },
        ..task(program, tests)
    })
}

#[test]
fn no_forged_status_avoids_a_verdict() {
    let reads = stdin(&[("", "never printed")]);
    let called = functional("f", &[("1", "\"never returned\"")]);
    for status in (0..12).chain([u32::MAX]) {
        let forge = format!(
            "import sys\nfor name in ('RETURNED', 'RAISED', 'EXITED', 'COMPILE_ERROR', 'OUT_OF_MEMORY', \
            'NO_SUCH_FUNCTION', 'LOAD_FAILED', 'FATAL'):\n    setattr(sys.modules['exit_status'], name, {status})\n"
        );
        for (ending, tests) in [("1 / 0", &reads), ("def f(a):\n    return 1 / 0", &called), ("def f(a:", &called)] {
            let program = format!("{forge}{ending}");
            for verdict in [strict(&program, tests), graded(&program, tests)] {
                assert_eq!(verdict.reward, Some(0.0), "{program}\n{:?} {}", verdict.outcome, verdict.detail);
            }
        }
    }
}

#[test]
fn a_program_that_breaks_the_parsing_of_arguments_fails() {
    let tests = functional("f", &[("1", "1")]);
    let program = "import sys\ndef broken(text):\n    raise ValueError\n\
        sys.modules['grader']._loads = sys.modules['process']._loads = broken\ndef f(a):\n    return 2";
    assert_eq!(strict(program, &tests).outcome, ProgramOutcome::WrongAnswer);
    let verdict = graded(program, &tests);
    assert_eq!((verdict.outcome, verdict.reward), (ProgramOutcome::RuntimeError, Some(0.0)));
}

#[test]
fn a_returned_value_is_not_shown_as_output() {
    let program = "def f(a):\n    print('debug')\n    return 2";
    let tests = functional("f", &[("1", "1")]);
    for verdict in [strict(program, &tests), graded(program, &tests)] {
        assert!(["", "debug\n"].contains(&verdict.stdout_excerpt.as_str()), "{:?}", verdict.stdout_excerpt);
    }
}

#[test]
fn an_argument_may_have_as_many_digits_as_the_grader_accepts() {
    let tests = functional("f", &[(&"7".repeat(49_000), "7777")]);
    let program = "def f(a):\n    return a % 10**4";
    for verdict in [strict(program, &tests), graded(program, &tests)] {
        assert!(verdict.passed(), "{:?} {}", verdict.outcome, verdict.detail);
    }
}

#[test]
fn a_program_that_works_until_the_wall_clock_limit_has_used_up_its_time() {
    let tests = stdin(&[("", "")]);
    let mut endless = task("while True: pass", &tests);
    endless.limits = ProgramLimits { cpu: Duration::from_secs(60), wall: Duration::from_millis(600), ..endless.limits };
    // If the machine is too busy to give it half a processor, there is no verdict, and the test tries again.
    let outcome =
        (0..200).map(|_| judge(endless.clone()).outcome).find(|outcome| *outcome == ProgramOutcome::TimeLimit);
    assert_eq!(outcome, Some(ProgramOutcome::TimeLimit));
}

#[test]
fn a_message_of_a_program_takes_no_more_memory_on_the_host_than_its_output_limit() {
    let returned = functional("f", &[("1", "[1, 2]")]);
    let written = stdin(&[("", "1 2"), ("", "1 2")]);
    assert!(strict("print(1, 2)", &written).passed());
    let before = peak();
    for (name, program, outcome) in [
        ("one list", "def f(a):\n    return [None] * (60 << 20)", ProgramOutcome::OutputLimit),
        ("as much as may be sent", "def f(a):\n    return [None] * (15 << 20)", ProgramOutcome::WrongAnswer),
        ("nested lists", "def f(a):\n    return [[None]] * (2 << 20)", ProgramOutcome::WrongAnswer),
    ] {
        for mode in [Mode::Strict, Mode::LiveCodeBench] {
            let verdict = with_default_limits(program, &returned, mode);
            assert_eq!(verdict.outcome, outcome, "{name} {mode:?} {}", verdict.detail);
        }
    }
    let numbers = with_default_limits("import sys\nsys.stdout.write('1 ' * (8 << 20))", &written, Mode::Strict);
    assert_eq!(numbers.outcome, ProgramOutcome::WrongAnswer);
    let errors = "import sys\nsys.modules['exit_status'].message = lambda error: b'\\xff' * (100 << 20)\n1 / 0";
    let fraction = ProgramTask { reward: RewardRule::PassedFraction, ..task(errors, &written) };
    let verdict = judge(fraction);
    assert_eq!(verdict.outcome, ProgramOutcome::RuntimeError);
    assert!(verdict.detail.len() < 20_000, "{}", verdict.detail.len());
    let grown = peak() - before;
    // The guests' own memory and one copy of their messages.
    assert!(grown < 1200 << 20, "{} MiB", grown >> 20);
}
