//! Idioms of contest programs that a process supports and a sandbox easily breaks.

mod support;

use std::time::{Duration, Instant};

use evenkeel_sandbox::{ProgramLimits, ProgramOutcome};
use support::{answers, judge, stdin, task};

#[test]
fn a_single_call_may_write_any_amount() {
    let lines = "12345678\n".repeat(400_000);
    answers("import os\nprint(os.write(2, b'x' * 3_000_000))", "", "3000000");
    answers("import os\nos.write(1, b'12345678\\n' * 400_000)", "", &lines);
}

#[test]
fn standard_input_reports_its_length_like_a_file() {
    let input = "7 8\n".repeat(50_000);
    let lines = "import io, os\nread = io.BytesIO(os.read(0, os.fstat(0).st_size)).readline\n\
        print(sum(map(int, read().split())))";
    answers(lines, &input, "15");
    answers("import os\nprint(len(os.read(0, os.fstat(0).st_size)))", &input, "200000");
    answers("import os\nprint(os.fstat(0).st_size, os.fstat(1).st_size)", "", "0 0");
}

#[test]
fn carriage_returns_are_preserved() {
    answers("print([input(), input()])", "a\r\nb\rc\n", "['a\\r', 'b\\rc']");
    answers("import sys\nprint(sum(map(int, sys.stdin.read().split())))", "1\r\n2\r\n", "3");
}

#[test]
fn open_files_are_flushed_wherever_a_program_stores_them() {
    answers("class Out:\n    file = open(1, 'w', closefd=False)\nOut.file.write('x')", "", "x");
    answers("files = {'out': open('/dev/stdout', 'w')}\nfiles['out'].write('x')", "", "x");
    answers("out = open(1, 'w', closefd=False)\nout.write('b')\nprint('a')", "", "a\nb");
    answers("files = [open(1, 'w')]\nfiles[0].write('x')\nfiles[0].close()", "", "x");
}

#[test]
fn the_process_clock_starts_at_zero() {
    answers("import time\nprint(0 <= time.process_time() < 1, 0 <= time.thread_time_ns() < 10**9)", "", "True True");
    answers(
        "import time\nn = 0\nwhile time.process_time() < 0.2:\n    n += 1\nprint(n > 0, time.perf_counter() < 1)",
        "",
        "True True",
    );
}

#[test]
fn a_cache_may_have_the_size_of_the_largest_index() {
    let program = "import sys\nfrom functools import lru_cache\n@lru_cache(maxsize=sys.maxsize)\n\
        def f(n):\n    return n if n < 2 else f(n - 1) + f(n - 2)\nprint(f(90))";
    answers(program, "", "2880067194370816120");
    answers(
        "from functools import lru_cache\n@lru_cache\ndef f(n):\n    return n\nprint(f(1), f.cache_parameters())",
        "",
        "1 {'maxsize': 128, 'typed': False}",
    );
}

#[test]
fn a_program_may_raise_its_stack_limit() {
    let program = "import resource, sys\nhard = resource.getrlimit(resource.RLIMIT_STACK)[1]\n\
        resource.setrlimit(resource.RLIMIT_STACK, (hard, hard))\n\
        print(resource.getrusage(resource.RUSAGE_SELF).ru_utime >= 0)";
    answers(program, "", "True");
}

#[test]
fn copying_memory_ends_at_a_time_limit_with_counted_instructions() {
    let mut copies = task("x = bytearray(64 << 20)\nwhile True:\n    y = bytes(x)", &stdin(&[("", "")]));
    copies.limits = ProgramLimits { cpu: Duration::from_millis(300), deterministic: true, ..copies.limits };
    // Warm-up: the form that counts instructions is loaded on first use.
    judge(copies.clone());
    let began = Instant::now();
    assert_eq!(judge(copies).outcome, ProgramOutcome::TimeLimit);
    assert!(began.elapsed() < Duration::from_secs(200), "{:?}", began.elapsed());
}

#[test]
fn sleep_and_work_share_a_limit_with_counted_instructions() {
    let program = "import time\ntime.sleep(0.5)\nfor _ in range(4 * 10**6):\n    pass\nprint(1)";
    let outcome = |ms| {
        let mut task = task(program, &stdin(&[("", "1")]));
        task.limits = ProgramLimits { cpu: Duration::from_millis(ms), deterministic: true, ..task.limits };
        judge(task)
    };
    let passed = outcome(5000);
    assert!(passed.passed(), "{}", passed.detail);
    // Enough for either, but not for both.
    let work = u64::try_from(passed.cpu.as_millis()).expect("short");
    assert_eq!(outcome(work.max(500) + work.min(500) / 2).outcome, ProgramOutcome::TimeLimit);
}
