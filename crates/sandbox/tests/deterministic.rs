//! The calibration of counted instructions as a measure of time.
#![allow(clippy::print_stderr)]

mod support;

use std::time::Duration;

use evenkeel_sandbox::ProgramLimits;
use support::{judge, stdin, task};

/// Typical workloads: calls, loops, dictionaries, heaps, strings, sorting in C, many small objects, large integers.
const PROGRAMS: [(&str, &str); 8] = [
    ("calls", "def f(n):\n    return n if n < 2 else f(n - 1) + f(n - 2)\nf(22)"),
    (
        "table",
        "n = 250\nd = [[0] * n for _ in range(n)]\n\
        for i in range(1, n):\n    for j in range(1, n):\n        d[i][j] = max(d[i - 1][j], d[i][j - 1]) + ((i * j) % \
        7 == 0)",
    ),
    ("dict", "d = {}\nfor i in range(100000):\n    d[i * 7919 % 100003] = d.get(i * 31 % 100003, 0) + 1"),
    (
        "heap",
        "import heapq\nh = []\nfor i in range(30000):\n    heapq.heappush(h, i * 7919 % 100003)\n\
        while h: heapq.heappop(h)",
    ),
    ("text", "s = [str(i) for i in range(60000)]\nt = ' '.join(s)\nsum(map(int, t.split()))"),
    ("sort", "x = [(i * 7919) % 1000003 for i in range(100000)]\nx.sort()\nsorted(x, key=lambda v: -v)"),
    ("objects", "seen = set()\nfor i in range(300):\n    for j in range(300):\n        seen.add((i, j))"),
    ("integers", "x = 1\nfor i in range(1, 3000):\n    x *= i\nx % (10**9 + 7)"),
];

/// The charged CPU time of a program: the minimum of several runs.
fn cpu(program: &str, deterministic: bool) -> Duration {
    let times = (0..3).map(|_| {
        let mut task = task(program, &stdin(&[("", "")]));
        task.limits = ProgramLimits { cpu: Duration::from_secs(60), deterministic, ..task.limits };
        let verdict = judge(task);
        assert!(verdict.passed(), "{program}: {:?} {}", verdict.outcome, verdict.detail);
        verdict.cpu
    });
    times.min().expect("there are several runs")
}

#[test]
fn a_counted_second_is_about_a_second_of_a_current_machine() {
    let mut product = 1.0;
    for (name, program) in PROGRAMS {
        let counted = cpu(program, true);
        let timed = cpu(program, false);
        let ratio = counted.as_secs_f64() / timed.as_secs_f64();
        eprintln!("{name}: {counted:?} counted, {timed:?} timed, {ratio:.2}");
        product *= ratio;
    }
    let mean = product.powf(1.0 / PROGRAMS.len() as f64);
    eprintln!("in the geometric mean {mean:.2}");
    // Machines differ.
    assert!((1.0 / 8.0..4.0).contains(&mean), "a counted second is {mean:.2} seconds");
}
