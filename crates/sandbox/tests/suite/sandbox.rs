//! The guest: the interpreter, its library, recursion, time, and its limitations.

use std::time::{Duration, Instant};

use crate::support::{answers, functional, graded, judge, stdin, strict, task};
use evenkeel_sandbox::{Mode, ProgramLimits, ProgramOutcome, ProgramSubmission, ProgramTask, RewardRule};

/// Requires that the program prints exactly this.
fn prints(program: &str, output: &str) {
    answers(program, "", output);
}

fn outcome(program: &str) -> ProgramOutcome {
    strict(program, &stdin(&[("", "never printed")])).outcome
}

#[test]
fn pure_python_recursion_reaches_fifty_thousand_levels() {
    prints(
        "import sys\nsys.setrecursionlimit(10**6)\ndef f(n):\n    return n and 1 + f(n - 1)\nprint(f(50000))",
        "50000",
    );
}

#[test]
fn recursion_through_c_reaches_fifty_thousand_levels() {
    let cached = "import sys\nfrom functools import lru_cache\nsys.setrecursionlimit(10**6)\n@lru_cache(None)\n\
        def f(n):\n    return n and 1 + f(n - 1)\nprint(f(50000))";
    prints(cached, "50000");
    let init = "import sys\nsys.setrecursionlimit(10**6)\n\
        class A:\n    def __init__(self, n):\n        self.next = n and A(n - 1)\nA(50000)\nprint('ok')";
    prints(init, "ok");
}

#[test]
fn endless_recursion_raises_a_recursion_error() {
    prints("def f():\n    f()\ntry:\n    f()\nexcept RecursionError:\n    print('caught')", "caught");
    let through_c = "import sys\nfrom functools import lru_cache\nsys.setrecursionlimit(10**9)\n@lru_cache(None)\n\
        def f(n):\n    return f(n + 1)\ntry:\n    f(0)\nexcept RecursionError:\n    print('caught')";
    prints(through_c, "caught");
    let uncaught = through_c.replace("try:\n    f(0)\nexcept RecursionError:\n    print('caught')", "f(0)");
    assert_ne!(uncaught, through_c);
    let verdict = strict(&uncaught, &stdin(&[("", "")]));
    assert_eq!(verdict.outcome, ProgramOutcome::RuntimeError, "{}", verdict.detail);
    assert!(verdict.detail.contains("RecursionError"), "{}", verdict.detail);
}

#[test]
fn sys_maxsize_is_that_of_64_bits() {
    prints("import sys\nprint(sys.maxsize, min(sys.maxsize, 10**18))", "9223372036854775807 1000000000000000000");
}

#[test]
fn limitations_of_32_bits_are_named() {
    for program in
        ["print(len(range(10**10)))", "from itertools import islice, count\nprint(next(islice(count(), 10**10, None)))"]
    {
        let verdict = strict(program, &stdin(&[("", "10000000000")]));
        assert_eq!(verdict.outcome, ProgramOutcome::RuntimeError);
        assert!(verdict.detail.contains("32-bit"), "{}", verdict.detail);
    }
    prints("r = range(10**18)\nprint(10**17 in r, r[10**17])", "True 100000000000000000");
    prints("print(hash(2**40) == 2**40, hash(5))", "False 5");
    prints("from array import array\nprint(array('l').itemsize, array('q').itemsize)", "4 8");
}

#[test]
fn a_missing_module_is_named() {
    let verdict = strict("import numpy", &stdin(&[("", "")]));
    assert!(verdict.detail.contains("numpy is not in the sandbox"), "{}", verdict.detail);
}

#[test]
fn limitations_of_the_sandbox_are_distinguished_from_mistakes_in_both_modes() {
    let lacks = ["import numpy", "import bz2", "len(range(10**10))"];
    assert!(strict("from zoneinfo import ZoneInfo\nZoneInfo('Europe/Paris')", &stdin(&[("", "")])).unsupported);
    for program in lacks {
        let program = &format!("{program}\nprint(1)");
        for verdict in [strict(program, &stdin(&[("", "")])), graded(program, &stdin(&[("", "")]))] {
            assert!(verdict.unsupported && verdict.detail.contains("[sandbox: "), "{program}: {}", verdict.detail);
            assert_eq!((verdict.outcome, verdict.reward), (ProgramOutcome::RuntimeError, Some(0.0)), "{program}");
        }
    }
    for program in ["import my_own_helpers", "1 / 0", "print(1)"] {
        assert!(!strict(program, &stdin(&[("", "")])).unsupported, "{program}");
    }
}

#[test]
fn counts_and_positions_may_be_larger_than_any_length() {
    for (program, output) in [
        (
            "print('a b c'.split(' ', 10**10), 'a b c'.rsplit(None, 10**18), b'a b'.split(b' ', 10**10))",
            "['a', 'b', 'c'] ['a', 'b', 'c'] [b'a', b'b']",
        ),
        ("print('aaa'.replace('a', 'b', 10**10))", "bbb"),
        ("x = [1]\nx.insert(10**10, 2)\nx.insert(-10**10, 0)\nprint(x)", "[0, 1, 2]"),
        ("try:\n    [1].pop(10**10)\nexcept IndexError as error:\n    print(error)", "pop index out of range"),
        (
            "import itertools\nprint(next(itertools.repeat(5, 10**12)), \
            list(itertools.islice(itertools.repeat(object=1, times=10**12), 2)))",
            "5 [1, 1]",
        ),
        ("from collections import Counter\nprint(next(Counter(a=10**12).elements()))", "a"),
        ("from collections import deque\nx = deque([1, 2], 10**10)\nx.insert(10**10, 3)\nprint(list(x))", "[1, 2, 3]"),
        (
            "import re\nprint(re.sub('a', 'b', 'aa', count=10**10), re.compile('a').search('ba', 0, 10**10).start())",
            "bb 1",
        ),
        ("import sys\nprint(repr(sys.stdin.readline(10**10)))", "'x'"),
        ("import os\nprint(os.read(0, 10**10))", "b'x'"),
        (
            "import random\nr = range(10**12)\nrandom.seed(1)\n\
            print(random.choice(r), random.sample(r, 3), random.choices(r, k=2))",
            "623347347957 [884107995871, 71999863748, 129944532028] [495435087091, 449491064788]",
        ),
    ] {
        answers(program, "x", output);
    }
    // Functions that need the number itself use it, or raise.
    answers(
        "import itertools\nprint(next(enumerate('a', 10**12)), next(itertools.count(10**12)))",
        "",
        "(1000000000000, 'a') 1000000000000",
    );
    assert_eq!(outcome("import bisect\nprint(bisect.bisect_left(range(10**18), 5))"), ProgramOutcome::RuntimeError);
}

#[test]
fn integers_of_ctypes_wrap_around() {
    for (program, output) in [
        (
            "import ctypes\nprint(ctypes.c_int32(2**31).value, ctypes.c_uint8(-1).value, ctypes.c_int64(2**63).value)",
            "-2147483648 255 -9223372036854775808",
        ),
        (
            "from ctypes import *\nx = c_int(5)\nx.value += 2**32\n\
            print(x, x.value, sizeof(c_long), sizeof(c_int * 4))",
            "c_int(5) 5 8 16",
        ),
        (
            "import ctypes\nx = (ctypes.c_int * 3)(1, 2)\nx[2] = 2**31\n\
            print(list(x), len(x), ctypes.c_float(0.1).value)",
            "[1, 2, -2147483648] 3 0.10000000149011612",
        ),
        (
            "import ctypes\ntry:\n    ctypes.c_int('1')\nexcept TypeError as error:\n    print(error)",
            "an integer is required (got type str)",
        ),
    ] {
        answers(program, "", output);
    }
    let foreign = strict("import ctypes\nctypes.CDLL('libc.so.6')", &stdin(&[("", "")]));
    assert!(foreign.unsupported, "{}", foreign.detail);
}

#[test]
fn standard_input_can_be_mapped() {
    let program = "import mmap, sys\nwith mmap.mmap(sys.stdin.fileno(), 0, access=mmap.ACCESS_READ) as m:\n    \
        print(m.readline(), m.find(b'3'), m[0:1], len(m), m.read())\nx = mmap.mmap(-1, 4)\nx[1:3] = b'ab'\nprint(x[:])";
    answers(program, "1 2\n3 4\n", "b'1 2\\n' 4 b'1' 8 b'3 4\\n'\nb'\\x00ab\\x00'");
}

#[test]
fn an_executor_runs_what_is_submitted() {
    let program = "from concurrent.futures import ThreadPoolExecutor, as_completed\n\
        with ThreadPoolExecutor(max_workers=4) as pool:\n    print(list(pool.map(abs, [-1, 2])))\n    tasks = \
        [pool.submit(pow, 2, n) for n in range(3)]\n    print(sorted(task.result() for task in \
        as_completed(tasks)))\n    print(type(pool.submit(int, 'x').exception()).__name__)";
    answers(program, "", "[1, 2]\n[1, 2, 4]\nValueError");
}

#[test]
fn the_standard_library_is_available() {
    let modules = "string re datetime collections heapq bisect copy math random statistics itertools functools \
        operator io sys json typing array ast base64 calendar cmath colorsys configparser contextlib csv dataclasses \
        decimal difflib email enum fractions graphlib hashlib hmac html html.parser imaplib inspect ipaddress keyword \
        logging numbers optparse os pickle platform plistlib pprint queue reprlib sched secrets shelve shlex signal \
        struct tempfile textwrap threading time timeit token tokenize traceback types unittest urllib.parse uuid \
        warnings weakref xml.etree.ElementTree zipfile zlib zoneinfo asyncio concurrent.futures fileinput cProfile";
    let program = "import importlib\nmissing = []\n\
        for name in input().split():\n    try:\n        importlib.import_module(name)\n    except ImportError as \
        error:\n        missing.append((name, str(error)))\nprint(missing)";
    let verdict = strict(program, &stdin(&[(modules, "[]")]));
    assert!(verdict.passed(), "{} {}", verdict.detail, verdict.stdout_excerpt);
    prints(
        "import hashlib\nprint(hashlib.sha256(b'a').hexdigest()[:8], hashlib.md5(b'a').hexdigest()[:8])",
        "ca978112 0cc175b9",
    );
}

#[test]
fn string_hashes_and_random_numbers_are_the_same_in_every_run() {
    let program = "import random, os\nprint(hash('abc'), list({'a', 'b', 'c', 'd'}), random.random(), os.urandom(4))";
    let seen = |_| strict(program, &stdin(&[("", "something else")])).stdout_excerpt;
    let runs: Vec<String> = (0..3).map(seen).collect();
    assert!(runs.iter().all(|run| *run == runs[0] && !run.is_empty()), "{runs:?}");
    // Equal in every build of the guest on Linux on x86-64, which replaces the sources of entropy.
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    assert!(runs[0].starts_with("-1999893998 "), "{}", runs[0]);
    prints("import random\nrandom.seed(1)\nprint(random.random())", "0.13436424411240122");
}

#[test]
fn the_random_module_starts_with_seed_0() {
    prints("import random\nfirst = random.random()\nrandom.seed(0)\nprint(random.random() == first)", "True");
    // What CPython returns everywhere for this seed.
    prints("import random\nrandom.seed(1)\nprint(random.random(), random.seed.__name__)", "0.13436424411240122 seed");
    prints("import random, sys\nprint(hasattr(random, '__getattr__'), hasattr(sys, 'tracebacklimit'))", "False False");
}

#[test]
fn initial_objects_are_immortal_and_those_of_a_program_are_not() {
    let program = "import sys, collections, heapq\nclass A: pass\n\
        print(sys._is_immortal(collections.OrderedDict), sys._is_immortal(heapq.heappush), sys._is_immortal(A), \
        sys._is_immortal([]))";
    prints(program, "True True False False");
}

#[test]
fn a_thread_runs_where_it_is_started() {
    prints(
        "import threading, sys\nthreading.stack_size(1 << 27)\nsys.setrecursionlimit(10**6)\n\
        def f(n):\n    return n and 1 + f(n - 1)\nt = threading.Thread(target=lambda: print(f(100000)))\nt.start()\n\
        t.join()\nprint(t.is_alive())",
        "100000\nFalse",
    );
    prints("import _thread\n_thread.start_new_thread(print, ('x',))", "x");
}

#[test]
fn sleeping_takes_no_real_time_but_counts_as_time() {
    prints("import time\na = time.time()\ntime.sleep(2)\nprint(1.9 < time.time() - a < 2.5)", "True");
    let began = Instant::now();
    assert_eq!(outcome("import time\ntime.sleep(3600)"), ProgramOutcome::TimeLimit);
    assert!(began.elapsed() < Duration::from_secs(60), "much less than it slept");
}

#[test]
fn exit_functions_run_and_files_are_flushed_at_the_end() {
    prints("import atexit\natexit.register(print, 'bye')\nprint('hi')", "hi\nbye");
    prints("out = open(1, 'w')\nout.write('x')", "x");
    prints("class A:\n    def __del__(self):\n        print('gone')\na = A()", "gone");
    prints("import sys\nsys.stdout.write('no newline')", "no newline");
}

#[test]
fn all_ways_to_read_and_write_work() {
    for program in [
        "print(input())",
        "import sys\nprint(sys.stdin.buffer.readline().decode())",
        "import sys\nfor line in sys.stdin: print(line)",
        "print(open(0).read())",
        "print(open('/dev/stdin').read())",
        "import os\nos.write(1, os.read(0, 100))",
        "import sys\nsys.stdout.buffer.write(sys.stdin.buffer.read())",
        "import fileinput\nprint(next(iter(fileinput.input())))",
        "import io, os\nprint(io.BytesIO(os.read(0, os.fstat(0).st_size or 100)).readline().decode())",
    ] {
        let verdict = strict(program, &stdin(&[("6\n", "6")]));
        assert!(verdict.passed(), "{program}: {} {}", verdict.detail, verdict.stderr_excerpt);
    }
}

#[test]
fn exit_codes_and_exceptions_are_distinguished() {
    let tests = stdin(&[("", "6")]);
    assert!(strict("print(6)\nexit()", &tests).passed());
    assert!(strict("import sys\nprint(6)\nsys.exit(0)", &tests).passed());
    let failed = strict("import sys\nprint(6)\nsys.exit(3)", &tests);
    assert_eq!((failed.outcome, failed.detail.as_str()), (ProgramOutcome::RuntimeError, "exited with status 3"));
    let raised = strict("print(6)\n1 / 0", &tests);
    assert_eq!(
        (raised.outcome, raised.detail.as_str()),
        (ProgramOutcome::RuntimeError, "ZeroDivisionError: division by zero")
    );
    assert!(raised.stderr_excerpt.contains("main.py\", line 2"), "{}", raised.stderr_excerpt);
    // Output that was not flushed is lost, as in a process.
    assert_eq!(strict("import os\nprint(6)\nos._exit(0)", &tests).outcome, ProgramOutcome::WrongAnswer);
    assert_eq!(strict("def f(:", &tests).outcome, ProgramOutcome::CompileError);
}

#[test]
fn running_out_of_memory_is_reported_and_so_is_the_peak() {
    let tests = stdin(&[("", "")]);
    let mut hungry = task("x = bytearray(200 << 20)", &tests);
    hungry.limits.memory_bytes = 64 << 20;
    assert_eq!(judge(hungry.clone()).outcome, ProgramOutcome::MemoryLimit);
    hungry.limits.memory_bytes = 512 << 20;
    let verdict = judge(hungry);
    assert!(verdict.passed());
    assert!((200 << 20..256 << 20).contains(&verdict.peak_memory_bytes), "{}", verdict.peak_memory_bytes);
}

#[test]
fn the_native_stack_and_the_output_count_as_memory() {
    let recursive = "import sys\nfrom functools import lru_cache\nsys.setrecursionlimit(10**6)\n@lru_cache(None)\n\
        def f(n):\n    return n and 1 + f(n - 1)\nfor _ in range(5):\n    f.cache_clear()\n    f(60000)\nprint('done')";
    let judged_with = |program: &str, mebibytes: u64| {
        let mut task = task(program, &stdin(&[("", "done")]));
        task.limits = ProgramLimits { memory_bytes: mebibytes << 20, output_bytes: 64 << 20, ..task.limits };
        judge(task)
    };
    let verdict = judged_with(recursive, 64);
    assert_eq!(verdict.outcome, ProgramOutcome::MemoryLimit, "{}", verdict.detail);
    let verdict = judged_with(recursive, 1024);
    assert!(verdict.passed(), "{}", verdict.detail);
    assert!(verdict.peak_memory_bytes > 100 << 20, "{}", verdict.peak_memory_bytes);
    let writes = "import os\nx = bytes(1 << 20)\nfor _ in range(40):\n    os.write(1, x)\n    os.write(2, x)";
    assert_eq!(judged_with(writes, 32).outcome, ProgramOutcome::MemoryLimit);
    assert_eq!(judged_with(writes, 256).outcome, ProgramOutcome::OutputLimit);
}

#[test]
fn a_refused_allocation_is_an_error_that_a_program_can_catch() {
    for mebibytes in [65, 66, 68, 70, 72, 80, 200, 2000] {
        let program = format!("try:\n    bytearray({mebibytes} << 20)\nexcept MemoryError:\n    print('caught')");
        let mut task = task(&program, &stdin(&[("", "caught")]));
        task.limits.memory_bytes = 64 << 20;
        let verdict = judge(task);
        assert!(verdict.passed(), "{mebibytes} MiB: {:?} {}", verdict.outcome, verdict.detail);
    }
}

#[test]
fn functional_answers_are_compared_by_value() {
    let tests = functional("f", &[("[1, 2]", "[1, 2]"), ("[3]", "[3]")]);
    assert!(
        strict("class Solution:\n    def f(self, a: List[int]) -> List[int]:\n        return tuple(a)", &tests)
            .passed()
    );
    assert!(strict("from __future__ import annotations\ndef f(a):\n    return a", &tests).passed());
    assert!(
        strict("from collections import UserList, deque\nclass L(list): pass\ndef f(a):\n    return L(a)", &tests)
            .passed()
    );
    let wrong = strict("def f(a):\n    return [1, 2]", &tests);
    assert_eq!((wrong.outcome, wrong.failing_test, wrong.passed_tests), (ProgramOutcome::WrongAnswer, Some(1), 1));
    assert_eq!(strict("def g(a):\n    return a", &tests).outcome, ProgramOutcome::RuntimeError);
    let generator = strict("def f(a):\n    yield from a", &tests);
    assert!(generator.detail.contains("generator"), "{}", generator.detail);
}

#[test]
fn state_does_not_survive_between_tests_in_the_strict_mode() {
    let program = "import math\nmath.count = getattr(math, 'count', 0) + 1\nprint(math.count)";
    let tests = stdin(&[("", "1"), ("", "1"), ("", "1")]);
    assert!(strict(program, &tests).passed());
    assert_eq!(graded(program, &tests).grader.expect("the grader's list").results, [1, -2]);
}

#[test]
fn a_compiled_program_behaves_the_same_in_each_test() {
    let program = "import sys\nseen = []\ndef f(x=(1, 2)): return x\nn = int(input())\nif n == 3: f(1) / 0\n\
        print(f() is f.__defaults__[0], __name__, f.__code__.co_filename, len(seen), 'x' is sys.intern('x'))";
    let right = "True __main__ main.py 0 True";
    let tests = stdin(&[("1", right), ("2", right), ("4", right), ("3", "")]);
    let verdict = strict(program, &tests);
    assert_eq!(
        (verdict.outcome, verdict.failing_test),
        (ProgramOutcome::RuntimeError, Some(3)),
        "{}",
        verdict.stdout_excerpt
    );
    // The traceback contains source lines, and the warnings of the compiler are shown.
    assert!(verdict.stderr_excerpt.contains("if n == 3: f(1) / 0"), "{}", verdict.stderr_excerpt);
    assert!(verdict.stderr_excerpt.contains("SyntaxWarning: \"is\" with"), "{}", verdict.stderr_excerpt);
    let quiet = strict("def f():\n    return 1 / 0\nf()", &stdin(&[("", ""); 4]));
    assert!(quiet.stderr_excerpt.contains("line 2, in f\n    return 1 / 0"), "{}", quiet.stderr_excerpt);
    assert_eq!(strict("def f(:", &stdin(&[("", ""); 4])).outcome, ProgramOutcome::CompileError);
    let called = functional("f", &[("1", "2"), ("2", "3"), ("3", "4"), ("4", "0")]);
    let verdict = strict("class Solution:\n    def f(self, n: int) -> List[int]:\n        return n + 1", &called);
    assert_eq!((verdict.outcome, verdict.failing_test), (ProgramOutcome::WrongAnswer, Some(3)));
}

#[test]
fn the_fraction_of_passed_tests_can_be_the_reward() {
    let tests = stdin(&[("1", "1"), ("2", "x"), ("3", "3"), ("4", "x")]);
    let fraction = judge(ProgramTask { reward: RewardRule::PassedFraction, ..task("print(input())", &tests) });
    assert_eq!(
        (fraction.reward, fraction.passed_tests, fraction.run_tests, fraction.failing_test),
        (Some(0.5), 2, 4, Some(1))
    );
    let first = strict("print(input())", &tests);
    assert_eq!((first.reward, first.passed_tests, first.run_tests, first.failing_test), (Some(0.0), 1, 2, Some(1)));
}

#[test]
fn a_completion_without_a_program_is_no_code() {
    let tests = stdin(&[("", "")]);
    let verdict = judge(ProgramTask::new(ProgramSubmission::Completion("I do not know.".into()), tests.clone()));
    assert_eq!((verdict.outcome, verdict.reward), (ProgramOutcome::NoCode, Some(0.0)));
    let graded = judge(ProgramTask {
        mode: Mode::LiveCodeBench,
        ..ProgramTask::new(ProgramSubmission::Completion(String::new()), tests)
    });
    assert_eq!(graded.grader.expect("the grader's list").results, [-4]);
}

#[test]
fn counted_instructions_are_the_same_in_every_run() {
    let tests = stdin(&[("", "499999500000")]);
    let counted = |program: &str, cpu| {
        let mut task = task(program, &tests);
        task.limits = ProgramLimits { cpu, deterministic: true, ..task.limits };
        judge(task)
    };
    let program = "import time\ntime.sleep(0.5)\nprint(sum(range(10**6)))";
    let first = counted(program, Duration::from_secs(5));
    let second = counted(program, Duration::from_secs(5));
    assert!(first.passed(), "{:?} {}", first.outcome, first.detail);
    assert_eq!(first.cpu, second.cpu);
    assert_eq!(counted("while True: pass", Duration::from_millis(300)).outcome, ProgramOutcome::TimeLimit);
}
