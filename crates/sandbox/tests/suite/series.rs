//! Programs with many tests, which continue from a snapshot after their definitions: every test behaves as if it were
//! the only one.

use std::sync::Arc;
use std::time::Duration;

use crate::support::{functional, judge, stdin, task};
use evenkeel_sandbox::rows::{Test, TestKind, Tests};
use evenkeel_sandbox::{ProgramLimits, ProgramOutcome, ProgramVerdict};

/// Enough tests for a series.
const MANY: usize = 24;

/// [`MANY`] copies of one test.
fn repeated(tests: &Tests, index: usize) -> Arc<Tests> {
    let tests_of = |count| Tests::new(vec![tests.tests()[index].clone(); count], tests.function().map(str::to_owned));
    Arc::new(tests_of(MANY).expect("the tests are well formed"))
}

/// The parts of a verdict that describe what a program did.
fn summary(verdict: &ProgramVerdict) -> (ProgramOutcome, Option<usize>, usize, &str, &str, &str) {
    let ProgramVerdict { outcome, failing_test, passed_tests, detail, stdout_excerpt, stderr_excerpt, .. } = verdict;
    (*outcome, *failing_test, *passed_tests, detail, stdout_excerpt, stderr_excerpt)
}

/// Runs a program on each input alone and on all together, and requires the same results.
fn same_as_alone(program: &str, inputs: &[&str], function: Option<&str>) {
    let kind = if function.is_some() { TestKind::Functional } else { TestKind::Stdin };
    let test = |input: &&str| Test::new(kind, *input, "\"what nothing answers\"");
    let task_with = |inputs: &[&str]| {
        let tests = Tests::new(inputs.iter().map(test).collect(), function.map(str::to_owned));
        task(program, &Arc::new(tests.expect("the tests are well formed")))
    };
    for (index, input) in inputs.iter().enumerate() {
        let alone = judge(task_with(&[input]));
        // Every test fails here, and the first failure ends the program: each input comes first once.
        let mut others = vec![*input; MANY];
        others[1..].copy_from_slice(&inputs.iter().cycle().skip(index + 1).take(MANY - 1).copied().collect::<Vec<_>>());
        let together = judge(task_with(&others));
        assert_eq!(summary(&together), summary(&alone), "{program}\n{input}");
    }
}

#[test]
fn changes_of_a_test_do_not_survive_into_the_next() {
    let program = r#"import sys, os, math, random, builtins, collections, heapq
from functools import lru_cache
SEEN, TABLE = [], {}
COUNT = 0

class Node:
    made = 0
    def __init__(self):
        Node.made += 1

def remember(x, kept=[]):
    kept.append(x)
    return len(kept)

def found():
    return (
        len(SEEN), len(TABLE), COUNT, Node.made, remember(1), random.random(), sys.getrecursionlimit(), "extra" in sys.modules,
        hasattr(builtins, "left"), hasattr(math, "left"), sorted(os.environ), len(collections.OrderedDict.__doc__ or ""),
        sys.stdin.read(), hash("text"), os.urandom(4).hex(), id(SEEN), float(str(0.1)), sys.intern("left") is sys.intern("left"),
    )

first = found()
print(*first)
SEEN.append(1)
TABLE[1] = bytes(1 << 20)
COUNT += 1
Node()
remember(2)
random.seed(7)
sys.setrecursionlimit(5000)
sys.modules["extra"] = math
builtins.left = math.left = heapq
os.environ["left"] = "1"
builtins.print = None
sys.stdout.write("")
del sys.modules["random"]
"#;
    let verdict = judge(task(program, &repeated(&stdin(&[("a", "")]), 0)));
    let expected = verdict.stdout_excerpt.clone();
    assert_eq!(verdict.outcome, ProgramOutcome::WrongAnswer, "{}", verdict.stderr_excerpt);
    assert!(expected.starts_with("0 0 0 0 1 "), "{expected}");
    // All other tests must print what the first one printed.
    let verdict = judge(task(program, &repeated(&stdin(&[("a", &expected)]), 0)));
    assert!(verdict.passed(), "{:?} {} {}", verdict.outcome, verdict.detail, verdict.stdout_excerpt);
    assert_eq!(verdict.passed_tests, MANY);
}

#[test]
fn changes_of_a_call_do_not_survive_into_the_next() {
    let program = "import json, random\nkept = []\ncalls = 0\n\
        class Solution:\n    known = {}\n    def f(self, x):\n        global calls\n        calls += 1\n        \
        kept.append(x)\n        self.known[x] = 1\n        json.loads = json._default_decoder = None\n        answer = \
        [calls, len(kept), len(self.known), random.randint(1, 10**9)]\n        random.seed(x)\n        return answer";
    let cases: Vec<(String, String)> =
        (0..MANY).map(|index| (index.to_string(), "[1, 1, 1, 906691060]".to_owned())).collect();
    let cases: Vec<(&str, &str)> = cases.iter().map(|(input, output)| (input.as_str(), output.as_str())).collect();
    let verdict = judge(task(program, &functional("f", &cases)));
    assert!(verdict.passed(), "{:?} {} {}", verdict.outcome, verdict.detail, verdict.stderr_excerpt);
}

#[test]
fn an_abnormal_end_of_a_test_does_not_affect_the_others() {
    let program = r#"import sys, os
KEPT = []

def deep(n):
    return n and deep(n - 1)

word = input()
KEPT.append(word)
if word == "abort":
    os.abort()
elif word == "exit":
    os._exit(0)
elif word == "endless":
    while True:
        pass
elif word == "greedy":
    KEPT.append(bytes(100 << 20))
elif word == "limit":
    KEPT.extend([0] * (1 << 28))
elif word == "deep":
    sys.setrecursionlimit(10**6)
    deep(100000)
elif word == "close":
    os.close(1)
    os.close(0)
elif word == "wordy":
    print("x" * (17 << 20))
elif word == "sleep":
    import time
    for _ in range(2000):
        time.sleep(0.0001)
elif word == "raise":
    raise SystemExit(3)
print(len(KEPT))
"#;
    let bad = ["abort", "exit", "endless", "greedy", "limit", "deep", "close", "wordy", "sleep", "raise"];
    let cases: Vec<(&str, &str)> =
        (0..60).map(|at| if at % 3 == 1 { (bad[at / 3 % bad.len()], "1") } else { ("good", "1") }).collect();
    let mut all = task(program, &stdin(&cases));
    all.run_all_tests = true;
    all.limits = ProgramLimits { cpu: Duration::from_secs(2), memory_bytes: 256 << 20, ..all.limits };
    let single = |word: &str| {
        let mut one = task(program, &stdin(&[(word, "1")]));
        one.limits = all.limits;
        judge(one).passed()
    };
    let expected =
        cases.iter().filter(|(word, _)| *word == "good").count() + 2 * bad.iter().filter(|word| single(word)).count();
    let verdict = judge(all);
    assert_eq!(verdict.run_tests, cases.len(), "{:?} {}", verdict.outcome, verdict.detail);
    assert_eq!(verdict.passed_tests, expected, "{:?} {}", verdict.outcome, verdict.detail);
}

#[test]
fn a_program_with_many_tests_behaves_as_with_one() {
    let inputs = ["3", "0", "-1", "word", "", "7 8", "1000000"];
    for program in [
        "import sys\ninput = sys.stdin.readline\nsys.setrecursionlimit(10**6)\nMOD = 10**9 + 7\n\
        def f(n, m=MOD):\n    return n and f(n - 1)\nn = int(input())\nprint(f(max(0, min(n, 5000))), 10 // n)",
        "'''text'''\nfrom __future__ import annotations\nimport heapq as h\n\
        class A:\n    'doc'\n    x = 1\n    def __init__(self, y: B = None): self.y = y\n    @property\n    def \
        z(self): return self.y\nprint(__doc__, A.__doc__, A.__init__.__annotations__, A(input()).z, __name__, \
        __file__, sorted(globals()))",
        "print('before')\nx: int = 3\ny: str\nprint(__annotate__(1), input())",
        "def f():\n    raise ValueError(input())\n\nclass E(Exception): pass\n\ntry:\n    f()\n\
        except ValueError as error:\n    raise E('caught') from error",
        "import sys\nfrom nowhere import nothing\nprint(1)",
        "from math import nothing\nprint(1)",
        "import math\nx = math.nothing\nprint(input())",
        "class A:\n    __slots__ = ('a',)\n    a = 1\nprint(input())",
        "import sys\nsys = 3\nsys.setrecursionlimit(5)",
        "import sys\nsys.setrecursionlimit(3)\nprint(input())",
        "import sys\nsys.setrecursionlimit(120)\ndef f(n):\n    return n and f(n - 1)\nfor n in range(200):\n    f(n)",
        "import warnings\nprint('a' is 'a')\n",
        "import traceback\ndef f():\n    traceback.print_stack()\nf()\nprint(input())",
        "import sys\ndef f(): return sys._getframe(1).f_code.co_names\nprint(f())",
        "import time\nstart = time.time()\nprint(start < 1735689601, input())",
        "import atexit\natexit.register(print, 'end')\nclass A:\n    def __del__(self): print('gone')\na = A()\n\
        print(input())",
        "x = 'a' * 5\ndef g(): yield from x\nimport this\nprint(*g(), input())",
        "import random, os\nprint(random.random(), os.urandom(3), hash('a'), input())",
        "import sys\nprint(sys.argv, sys.stdin.fileno(), sys.stdin.readlines(), list(sys.stdin))",
        "print(input())\nprint(input())",
        "from typing import *\nimport bisect\nf = lambda a, b=3: a + b\nlimits = [(1, -2), 3.5, None, 'x', {}]\n\
        print(f(1), limits, int(input()))",
        "def f(:\n  pass",
        "if True:\n    def f(): pass\nelse:\n    x: int = 1\nprint(input(), sorted(globals()))",
        "import os\nprint(os.read(0, 10), os.fstat(0).st_size)",
        "exit(int(input()))",
    ] {
        same_as_alone(program, &inputs, None);
    }
}

#[test]
fn a_function_with_many_tests_behaves_as_with_one() {
    let inputs = ["3", "0", "-1", "\"word\"", "[1, 2]", "  {\"a\": 1.5}  "];
    for program in [
        "from functools import cache\n@cache\ndef f(x): return [x, f.cache_info().currsize]",
        "class Solution:\n    def __init__(self): self.a = []\n    def f(self, x):\n        self.a.append(x)\n        \
        return 10 // x",
        "print('at the beginning')\ndef f(x): return x",
        "import time\nbegan = time.time()\ndef f(x): return began < time.time()",
        "import random\nvalue = random.random()\ndef f(x): return [value, random.random()]",
        "import os\nvalue = list(os.urandom(3))\ndef f(x): return [value, list(os.urandom(3))]",
        "x = 1 // 0\ndef f(x): return x",
        "table = [0] * 3000000\ndef f(x): return len(table)",
        "import sys\ntext = sys.stdin.read()\ndef f(x): return text",
        "def g(x): return x",
        "class Solution:\n    f = 3",
        "raise SystemExit(2)",
        "def f(x):\n    print(x)\n    raise KeyError(x)",
        "def f(x):\n    raise SystemExit(x)",
        "import sys\ndef f(x): return [__name__, sys.getrecursionlimit(), sorted(set(globals()) - \
        set(dir(__builtins__)))[:5]]",
    ] {
        same_as_alone(program, &inputs, Some("f"));
    }
}

#[test]
fn every_test_is_charged_for_the_definitions_whichever_ran_before() {
    let program = "total = 0\nfor x in range(200000):\n    total += x\ndef f(n):\n    return sum(range(n))";
    let cpu = |count: usize| {
        let cases = vec![("1000", "499500"); count];
        let mut task = task(program, &functional("f", &cases));
        task.limits = ProgramLimits { deterministic: true, ..task.limits };
        let verdict = judge(task);
        assert!(verdict.passed(), "{:?} {}", verdict.outcome, verdict.detail);
        verdict.cpu
    };
    let eight = cpu(8);
    let more = cpu(40);
    assert_eq!(more, eight * 5);
    let one = cpu(1);
    let ratio = one.as_secs_f64() / (eight.as_secs_f64() / 8.0);
    assert!((0.8..1.4).contains(&ratio), "{one:?} alone, {:?} among others", eight / 8);
}

#[test]
fn definitions_that_use_up_the_time_limit_leave_none_for_a_test() {
    let program = "total = 0\nfor x in range(10**6):\n    total += x\ndef f(n):\n    return n";
    let mut task = task(program, &functional("f", &[("1", "1"); MANY]));
    task.limits = ProgramLimits { deterministic: true, cpu: Duration::from_millis(5), ..task.limits };
    let verdict = judge(task);
    assert_eq!((verdict.outcome, verdict.failing_test), (ProgramOutcome::TimeLimit, Some(0)), "{}", verdict.detail);
}
