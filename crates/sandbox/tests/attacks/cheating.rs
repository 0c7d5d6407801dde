//! Attacks on the verdict.

pub(crate) const PROGRAMS: &[(&str, &str)] = &[
    ("ends well before it answers", "import sys\nsys.exit(0)"),
    ("ends at once", "import os\nos._exit(0)"),
    ("raises the end of the process", "raise SystemExit(0)"),
    ("raises something that is not an exception of a program", "raise KeyboardInterrupt"),
    ("raises the end of a generator", "raise GeneratorExit"),
    ("raises a class named like the limit", "class TimeoutException(Exception): pass\nraise TimeoutException"),
    ("skips the tests", "import unittest\nraise unittest.SkipTest('x')"),
    (
        "walks the frames",
        "import sys\nf = sys._getframe()\n\
        while f:\n    for name in ('gt_out', 'expected', 'outputs', 'output', 'tests'):\n        if name in \
        f.f_locals: print(f.f_locals[name])\n    f = f.f_back",
    ),
    (
        "walks the heap",
        "import gc\nfor x in gc.get_objects():\n    if type(x) in (str, dict, list) and '846105' in str(x): print(x)",
    ),
    (
        "walks the modules",
        "import sys\nfor m in list(sys.modules.values()):\n    for n, v in list(vars(m).items()):\n        if n in \
        ('expected', 'gt_out'): print(v)",
    ),
    ("inspects the harness", "import sys\nh = sys.modules.get('guest') or sys.modules.get('process')\nprint(vars(h))"),
    (
        "replaces the harness",
        "import sys\nfor name in ('process', 'guest', 'values', 'exit_status', 'grader'):\n    m = \
        sys.modules.get(name)\n    if m:\n        for n in list(vars(m)):\n            try: setattr(m, n, lambda *a: \
        (0, b''))\n            except Exception: pass",
    ),
    (
        "forges an exit status",
        "import sys\nm = sys.modules['process']\nm.exit_status.RAISED = m.exit_status.EXITED = 0\n1 / 0",
    ),
    ("forges an unknown exit status", "import sys\nm = sys.modules['process']\nm.exit_status.RAISED = 12345\n1 / 0"),
    ("forges the exported functions", "import wit_world\nwit_world.WitWorld.process = lambda *a: (0, b'')"),
    ("says that it passed", "print('PASS')\nprint('{\"passed\": true}')\nprint('verdict: correct', 1.0)"),
    ("prints every answer", "for i in range(100000): print(i)"),
    ("prints all candidates on one line", "print(*range(100000))"),
    (
        "patches the comparison",
        "import builtins, json, decimal\nbuiltins.isinstance = lambda *a: True\n\
        builtins.all = builtins.any = lambda *a: True\njson.loads = lambda *a: 0\ndecimal.Decimal = int\nprint(0)",
    ),
    ("prints not a number", "print('nan')"),
    ("prints a signalling one", "print('sNaN')"),
    ("prints infinity", "print('inf')"),
    ("prints bytes that are not text", "import os\nos.write(1, b'\\xff\\xfe\\x00')"),
    ("prints what looks empty", "print('\\u200b\\ufeff\\x1b[2J\\r')"),
    ("prints zero bytes", "print('\\0' * 1000)"),
    ("prints lone surrogates", "import sys\nsys.stdout.reconfigure(errors='surrogatepass')\nprint('\\ud800')"),
    (
        "writes after the end",
        "import atexit, threading\natexit.register(print, 'late')\n\
        threading.Thread(target=print, args=('x',), daemon=True).start()",
    ),
    (
        "keeps the inputs of other tests",
        "import sys, builtins\nseen = getattr(builtins, 'seen', [])\nseen.append(sys.stdin.read())\n\
        builtins.seen = seen\nprint(*seen)",
    ),
    (
        "turns the clock back",
        "import time\ntime.time = time.monotonic = time.perf_counter = lambda: 0\ntime.sleep = lambda s: None\n\
        while True: pass",
    ),
    ("sends a memory error", "raise MemoryError"),
    ("sends a recursion error", "raise RecursionError"),
    ("loses its standard input", "import sys\nsys.stdin.close()\nprint(input())"),
];

pub(crate) const FUNCTIONS: &[(&str, &str)] = &[
    (
        "returns what equals everything",
        "class E:\n    def __eq__(self, other): return True\n    def __ne__(self, other): return False\n\
        def solve(a, b): return E()",
    ),
    (
        "returns a list that equals everything",
        "class E(list):\n    def __eq__(self, other): return True\ndef solve(a, b): return E()",
    ),
    (
        "returns an integer that equals everything",
        "class E(int):\n    def __eq__(self, other): return True\n    __hash__ = int.__hash__\n\
        def solve(a, b): return E(1)",
    ),
    (
        "returns a float that equals everything",
        "class E(float):\n    def __eq__(self, other): return True\ndef solve(a, b): return E(1)",
    ),
    (
        "returns a text that equals everything",
        "class E(str):\n    def __eq__(self, other): return True\ndef solve(a, b): return E('1')",
    ),
    (
        "returns what fakes its class",
        "class E:\n    __class__ = int\n    def __eq__(self, other): return True\n    def __index__(self): return 1\n\
        def solve(a, b): return E()",
    ),
    (
        "returns a class that fakes its bases",
        "class M(type):\n    def mro(cls): return [cls, object]\n    def __instancecheck__(cls, x): return True\n\
        class E(metaclass=M):\n    def __eq__(self, other): return True\ndef solve(a, b): return E()",
    ),
    (
        "returns an endless list",
        "class E(list):\n    def __iter__(self):\n        while True: yield 1\n    def __len__(self): return 1\n\
        def solve(a, b): return E()",
    ),
    ("returns an endless generator", "def solve(a, b):\n    while True: yield 1"),
    ("returns itself in itself", "def solve(a, b):\n    x = []\n    x.append(x)\n    return x"),
    ("returns something deep", "def solve(a, b):\n    x = 1\n    for _ in range(10**5): x = [x]\n    return x"),
    ("returns something huge", "def solve(a, b): return [0] * 10**7"),
    (
        "returns what runs code when it is pickled",
        "class E:\n    def __reduce__(self): return (print, ('x',))\ndef solve(a, b): return E()",
    ),
    ("returns not a number", "def solve(a, b): return float('nan')"),
    (
        "replaces the encoder",
        "import sys\nm = sys.modules['values']\nm.encode = m.dumps = lambda *a: b'T'\ndef solve(a, b): return 0",
    ),
    (
        "returns a value for the host to misread",
        "import sys\nsys.modules['process']._encode = lambda v: b'[\\xff\\xff\\xff\\x7f'\n\
        sys.modules['grader']._encode = lambda v: b'l\\xff\\xff\\xff\\x7f'\ndef solve(a, b): return 0",
    ),
    (
        "returns a forged answer",
        "import sys\nsys.modules['process'].call = lambda *a: (0, b'N')\ndef solve(a, b): return 0",
    ),
    (
        "reads the frames",
        "import sys\ndef solve(a, b):\n    f = sys._getframe()\n    while f:\n        if 'gt_out' in f.f_locals: \
        return f.f_locals['gt_out']\n        f = f.f_back",
    ),
    ("ends the process in the call", "import sys\ndef solve(a, b): sys.exit(0)"),
    ("ends the process while it is loaded", "import os\nos._exit(0)\ndef solve(a, b): return 0"),
    ("is not a function", "solve = 5"),
    ("is a property that loops", "class Solution:\n    @property\n    def solve(self):\n        while True: pass"),
    ("changes its arguments", "def solve(a, b):\n    a.clear()\n    return None"),
    (
        "counts the tests",
        "class Solution:\n    n = 0\n    def solve(self, a, b):\n        Solution.n += 1\n        return Solution.n",
    ),
];
