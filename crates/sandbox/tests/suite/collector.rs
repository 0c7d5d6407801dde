//! Garbage collection: its cost and its completeness.

use std::time::Duration;

use crate::support::{answers, judge, stdin, task};
use evenkeel_sandbox::{ProgramLimits, ProgramVerdict};

/// Runs a program with counted instructions, which are the same on every machine.
fn counted(program: &str) -> ProgramVerdict {
    let mut task = task(program, &stdin(&[("", "done")]));
    task.limits = ProgramLimits { cpu: Duration::from_secs(600), deterministic: true, ..task.limits };
    let verdict = judge(task);
    assert!(verdict.passed(), "{program}: {:?} {}", verdict.outcome, verdict.detail);
    verdict
}

/// Requires that the program passes with this much memory.
fn fits(program: &str, mebibytes: u64) {
    let mut task = task(program, &stdin(&[("", "done")]));
    task.limits = ProgramLimits { cpu: Duration::from_secs(60), memory_bytes: mebibytes << 20, ..task.limits };
    let verdict = judge(task);
    assert!(verdict.passed(), "{program}: {:?} {}", verdict.outcome, verdict.detail);
}

#[test]
fn the_cost_of_collections_is_proportional_to_the_objects_of_a_program() {
    for keeps in [
        "seen = set()\nfor i in range(N):\n    seen.add((i, -i))\nprint('done')",
        "x = [[i] for i in range(N)]\nprint('done')",
        "class A:\n    def __init__(self, n): self.n = n\nx = {i: A(i) for i in range(N)}\nprint('done')",
    ] {
        let cpu_time = |objects: u32| counted(&keeps.replace('N', &objects.to_string())).cpu;
        let few = cpu_time(60_000);
        let many = cpu_time(480_000);
        assert!(many < 12 * few, "{keeps}: {few:?}, eight times as many {many:?}");
    }
}

#[test]
fn cyclic_garbage_is_collected_while_the_program_runs() {
    fits("for _ in range(2 * 10**6):\n    x = []\n    x.append(x)\nprint('done')", 24);
    // Typical of programs: a recursive closure refers to everything in its scope.
    fits(
        "def solve():\n    graph = [[i] for i in range(2000)]\n    def visit(i):\n        return graph and visit\n    \
        return visit\nfor _ in range(500):\n    solve()\nprint('done')",
        24,
    );
}

#[test]
fn old_objects_are_collected_once_they_are_garbage() {
    let program = "class Node:\n    def __init__(self, up):\n        self.up, self.down = up, []\n        if up: \
        up.down.append(self)\ndef tree(n):\n    nodes = [Node(None)]\n    for i in range(1, n):\n        \
        nodes.append(Node(nodes[i // 2]))\n    return nodes[0]\nfor _ in range(15):\n    tree(60000)\nprint('done')";
    fits(program, 96);
}

#[test]
fn the_gc_module_works() {
    answers("import gc\nprint(gc.isenabled(), gc.get_threshold()[0], gc.callbacks)", "", "True 2000 []");
    let none = "import gc\ngone = []\nclass A:\n    def __init__(self): self.me = self\n    def __del__(self): \
        gone.append(1)\n";
    answers(
        &format!("{none}gc.disable()\nfor _ in range(10**5): A()\nprint(len(gone))\ngc.collect()\nprint(len(gone))"),
        "",
        "0\n100000",
    );
    answers(&format!("{none}gc.set_threshold(50000)\nfor _ in range(20000): A()\nprint(len(gone))"), "", "0");
    answers(&format!("{none}for _ in range(10**5): A()\nprint(len(gone) > 90000)"), "", "True");
    // Initial objects do not count: the first 2,000 of the program's own suffice.
    answers(&format!("{none}for _ in range(2500): A()\nprint(len(gone) > 1000)"), "", "True");
}
