//! Honest programs with the outcome that each has, and hostile ones.

use evenkeel_proto::v1::code_task::TestsSource;
use evenkeel_proto::v1::verify_item::{Answer, Task};
use evenkeel_proto::v1::{CodeLimits, CodeTask, CodeTest, CodeTestKind, CodeTests, Outcome, VerifyItem};

/// A program that reads standard input, its tests and what comes out.
struct Honest {
    source: &'static str,
    tests: &'static [(&'static str, &'static str)],
    outcome: Outcome,
    memory_bytes: Option<u64>,
}

const fn honest(source: &'static str, tests: &'static [(&'static str, &'static str)], outcome: Outcome) -> Honest {
    Honest { source, tests, outcome, memory_bytes: None }
}

const HONEST: [Honest; 12] = [
    honest("print(2 * int(input()))", &[("21", "42"), ("0", "0"), ("-4", "-8")], Outcome::Correct),
    honest("print(int(input()) + 1)", &[("1", "2"), ("5", "7")], Outcome::WrongAnswer),
    honest("print(1 // int(input()))", &[("1", "1"), ("0", "0")], Outcome::RuntimeError),
    honest("print(1", &[("", "1")], Outcome::CompileError),
    honest(
        "n = int(input())\ns = bytearray([1]) * (n + 1)\ns[0] = s[1] = 0\n\
        for i in range(2, int(n ** 0.5) + 1):\n    if s[i]:\n        for j in range(i * i, n + 1, i):\n            \
        s[j] = 0\nprint(sum(s))",
        &[("10", "4"), ("100000", "9592"), ("400000", "33860")],
        Outcome::Correct,
    ),
    honest(
        "n = int(input())\nd = [[0] * n for _ in range(n)]\n\
        for i in range(1, n):\n    for j in range(1, n):\n        d[i][j] = max(d[i - 1][j], d[i][j - 1]) + ((i * j) % \
        7 == 0)\nprint(d[-1][-1])",
        &[("3", "0"), ("300", "586")],
        Outcome::Correct,
    ),
    honest(
        "from collections import deque\nn, m = map(int, input().split())\nseen = {(0, 0)}\nqueue = deque(seen)\n\
        while queue:\n    x, y = queue.popleft()\n    for c in ((x + 1, y), (x - 1, y), (x, y + 1), (x, y - \
        1)):\n        if 0 <= c[0] < n and 0 <= c[1] < m and c not in seen:\n            seen.add(c)\n            \
        queue.append(c)\nprint(len(seen))",
        &[("1 1", "1"), ("20 30", "600"), ("200 300", "60000")],
        Outcome::Correct,
    ),
    honest(
        "def f(n):\n    return n if n < 2 else f(n - 1) + f(n - 2)\nprint(f(int(input())))",
        &[("10", "55"), ("20", "6765")],
        Outcome::Correct,
    ),
    honest(
        "x = 1\nfor i in range(1, int(input())):\n    x *= i\nprint(x % (10**9 + 7))",
        &[("5", "24"), ("1000", "756641425")],
        Outcome::Correct,
    ),
    honest(
        "import sys\nsys.setrecursionlimit(10**6)\ndef f(n):\n    return 0 if n == 0 else 1 + f(n - 1)\n\
        print(f(int(input())))",
        &[("10", "10"), ("5000", "5000")],
        Outcome::Correct,
    ),
    Honest {
        source: "x = bytearray(100 << 20)\nprint(len(x))",
        tests: &[("", "104857600")],
        outcome: Outcome::MemoryLimit,
        memory_bytes: Some(64 << 20),
    },
    honest(
        "print(*sorted(map(int, input().split())))",
        &[("3 1 2", "1 2 3"), ("5 4 3 2 1 0", "0 1 2 3 4 5")],
        Outcome::Correct,
    ),
];

/// Different problems.
pub(crate) const PROBLEMS: usize = HONEST.len();

/// A problem's item without an id, and the outcome that it has.
pub(crate) fn item(problem: usize) -> (VerifyItem, Outcome) {
    let Honest { source, tests, outcome, memory_bytes } = &HONEST[problem];
    let limits = CodeLimits { memory_bytes: *memory_bytes, ..CodeLimits::default() };
    (program(source, tests, limits), *outcome)
}

/// A program that keeps a place of the sandbox busy for about two seconds of CPU time.
pub(crate) fn warm_up() -> VerifyItem {
    let limits = CodeLimits { cpu_ms: Some(2_000), ..CodeLimits::default() };
    program("x = bytearray(64 << 20)\nwhile True:\n    pass", &[("", "")], limits)
}

/// A program against tests on standard input.
pub(crate) fn program(source: &str, tests: &[(&str, &str)], limits: CodeLimits) -> VerifyItem {
    let test = |&(input, output): &(&str, &str)| CodeTest {
        kind: CodeTestKind::Stdin.into(),
        input: input.to_owned(),
        output: output.to_owned(),
    };
    let tests = CodeTests { tests: tests.iter().map(test).collect(), function_name: String::new() };
    let task = CodeTask { tests_source: Some(TestsSource::Tests(tests)), limits: Some(limits), ..CodeTask::default() };
    VerifyItem {
        answer: Some(Answer::Extracted(source.to_owned())),
        task: Some(Task::Code(task)),
        ..VerifyItem::default()
    }
}

/// Programs that try to use up what there is. None solves its test.
pub(crate) const HOSTILE: [&str; 16] = [
    "while True:\n    pass",
    "import os\nwhile True:\n    os.fork()",
    "import threading\nwhile True:\n    threading.Thread(target=lambda: 0).start()",
    "x = []\nwhile True:\n    x.append(bytearray(1 << 20))",
    "x = [0]\nwhile True:\n    x += x",
    "while True:\n    print('x' * 10**6)",
    "import sys\nwhile True:\n    sys.stderr.write('\\x1b[31m' * 10**5)",
    "print(10 ** 10 ** 10)",
    "x = 3\nwhile True:\n    x *= x",
    "def f():\n    return f()\nimport sys\nsys.setrecursionlimit(10**9)\nf()",
    "x = []\nfor _ in range(10**6):\n    x = [x]\nprint(repr(x))",
    "import re\nre.match('(a+)+$', 'a' * 40 + 'b')",
    "open('/etc/passwd').read()\nopen('/proc/self/mem', 'wb')",
    "import socket\nsocket.socket().connect(('127.0.0.1', 1))",
    "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)",
    "exec('(' * 10**5 + ')' * 10**5)",
];
