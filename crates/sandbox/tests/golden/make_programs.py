"""Programs with verdicts for the tests of the sandbox: small problems with right and wrong solutions, programs that raise exceptions, do not
compile, never end or exhaust the memory.

Each verdict is declared below and verified by running the program in this Python, with a process per test. Verdicts that are not tried
natively (memory, endless output) are only declared.

    python3 make_programs.py > programs.jsonl
"""

import json
import subprocess
import sys

SECONDS = 3

# (name, function or None for standard input and output, tests, {verdict: programs})
PROBLEMS = [
    ("sum of a line", None, [("3\n1 2 3\n", "6\n"), ("1\n-5\n", "-5\n"), ("4\n10 20 30 40\n", "100\n")], {
        "pass": [
            "input()\nprint(sum(map(int, input().split())))",
            "import sys\nnumbers = sys.stdin.read().split()\nprint(sum(int(n) for n in numbers[1:]))",
            "n, *numbers = open(0).read().split()\nprint(sum(map(int, numbers)))",
        ],
        "wrong_answer": [
            "input()\nprint(sum(map(abs, map(int, input().split()))))",
            "input()\nprint('sum:', sum(map(int, input().split())))",
            "print(6)",
            "pass",
        ],
        "runtime_error": ["print(sum(map(int, input().split('; '))) / 0)", "raise SystemExit(1)", "print(undefined)"],
        "compile_error": ["input()\nprint(sum(map(int, input().split()))", "if True:\nprint(1)"],
    }),
    ("fibonacci modulo a prime", None, [("0\n", "0\n"), ("10\n", "55\n"), ("90\n", "532862916\n")], {
        "pass": [
            "a, b = 0, 1\nfor _ in range(int(input())):\n    a, b = b, a + b\nprint(a % 998244353)",
            "from functools import lru_cache\n@lru_cache(None)\ndef f(n):\n    return n if n < 2 else (f(n - 1) + f(n - 2)) % 998244353\nprint(f(int(input())))",
        ],
        "wrong_answer": [
            "a, b = 0, 1\nfor _ in range(int(input())):\n    a, b = b, a + b\nprint(a)",
            "phi = (1 + 5 ** .5) / 2\nprint(round(phi ** int(input()) / 5 ** .5) % 998244353)",
        ],
        "time_limit": ["def f(n):\n    return n if n < 2 else f(n - 1) + f(n - 2)\nprint(f(int(input())) % 998244353)"],
    }),
    ("brackets", None, [("([]{})\n", "YES\n"), ("([)]\n", "NO\n"), ("((\n", "NO\n"), (")(\n", "NO\n")], {
        "pass": [
            "pairs = {')': '(', ']': '[', '}': '{'}\nstack = []\nok = True\nfor c in input().strip():\n    if c in pairs:\n        ok = ok and bool(stack) and stack.pop() == pairs[c]\n    else:\n        stack.append(c)\nprint('YES' if ok and not stack else 'NO')",
            "s = input().strip()\nwhile any(p in s for p in ('()', '[]', '{}')):\n    for p in ('()', '[]', '{}'):\n        s = s.replace(p, '')\nprint('NO' if s else 'YES')",
        ],
        "wrong_answer": [
            "s = input()\nprint('YES' if all(s.count(a) == s.count(b) for a, b in ('()', '[]', '{}')) else 'NO')",
            "s = input()\nprint('Yes' if s else 'No')",
        ],
        "runtime_error": ["stack = []\nfor c in input().strip():\n    if c in '([{':\n        stack.append(c)\n    else:\n        stack.pop()\n        stack.pop()\nprint('YES')"],
    }),
    ("mean with two decimals", None, [("2\n1 2\n", "1.50\n"), ("3\n1 1 1\n", "1.00\n")], {
        "pass": [
            "n = int(input())\nprint(f'{sum(map(int, input().split())) / n:.2f}')",
            "n = int(input())\nprint(sum(map(int, input().split())) / n)",
        ],
        "wrong_answer": ["n = int(input())\nprint(sum(map(int, input().split())) // n)"],
    }),
    ("grid", None, [("2 3\n", "...\n...\n"), ("1 1\n", ".\n")], {
        "pass": ["h, w = map(int, input().split())\nfor _ in range(h):\n    print('.' * w)", "h, w = map(int, input().split())\nprint('\\n'.join(['.' * w + '  '] * h) + '\\n\\n')"],
        "wrong_answer": ["h, w = map(int, input().split())\nfor _ in range(w):\n    print('.' * h)", "h, w = map(int, input().split())\nprint('.' * w * h)"],
    }),
    ("endless", None, [("", "ready\n")], {
        "pass": ["print('ready')", "import sys\nsys.stdout.write('ready')", "print('ready')\nraise SystemExit(0)"],
        "time_limit": ["while True:\n    pass", "print('ready')\nx = 0\nwhile x >= 0:\n    x += 1", "import re\nre.match('(a+)+$', 'a' * 64 + 'b')\nprint('ready')"],
        "memory_limit": ["held = []\nwhile True:\n    held.append(bytearray(1 << 24))", "print(len(bytes(1 << 30)))"],
        "output_limit": ["while True:\n    print('ready' * 1000)"],
        "runtime_error": ["def f():\n    return f()\nf()"],
    }),
    ("two sum", "two_sum", [("[2, 7, 11, 15]\n9", "[0, 1]"), ("[3, 2, 4]\n6", "[1, 2]"), ("[-1, -1]\n-2", "[0, 1]")], {
        "pass": [
            "class Solution:\n    def two_sum(self, nums, target):\n        seen = {}\n        for i, n in enumerate(nums):\n            if target - n in seen:\n                return [seen[target - n], i]\n            seen[n] = i",
            "from itertools import combinations\ndef two_sum(nums, target):\n    return next([i, j] for i, j in combinations(range(len(nums)), 2) if nums[i] + nums[j] == target)",
        ],
        "wrong_answer": [
            "class Solution:\n    def two_sum(self, nums, target):\n        return [nums.index(n) for n in nums if target - n in nums][:2]",
            "def two_sum(nums, target):\n    return None",
        ],
        "runtime_error": ["def two_sum(nums, target):\n    return nums[target]", "def two_sum(nums):\n    return [0, 1]"],
    }),
    ("longest run", "longest", [('"aabbb"', "3"), ('""', "0"), ('"abc"', "1")], {
        "pass": [
            "from itertools import groupby\nclass Solution:\n    def longest(self, s: str) -> int:\n        return max((len(list(run)) for _, run in groupby(s)), default=0)",
            "def longest(s):\n    best = run = 0\n    for i, c in enumerate(s):\n        run = run + 1 if i and s[i - 1] == c else 1\n        best = max(best, run)\n    return best",
        ],
        "wrong_answer": ["def longest(s):\n    return max(map(s.count, s), default=0) - 1", "def longest(s):\n    return str(3)"],
        "runtime_error": ["from itertools import groupby\ndef longest(s):\n    return max(len(list(run)) for _, run in groupby(s))"],
    }),
    ("matrix", "transpose", [("[[1, 2], [3, 4]]", "[[1, 3], [2, 4]]"), ("[[1, 2, 3]]", "[[1], [2], [3]]")], {
        "pass": ["def transpose(m):\n    return [list(row) for row in zip(*m)]", "def transpose(m):\n    return [[row[i] for row in m] for i in range(len(m[0]))]"],
        "wrong_answer": ["def transpose(m):\n    return m[::-1]"],
        "time_limit": ["def transpose(m):\n    while m:\n        m.append(m.pop())"],
    }),
]

CALL = """
import json, sys
called = globals()[{name!r}] if {name!r} in globals() else getattr(Solution(), {name!r})
arguments, expected = [json.loads(line) for line in {input!r}.split("\\n")], json.loads({output!r})
sys.exit(0 if called(*arguments) == expected else 3)
"""


def run(program, function, test):
    """The verdict of one test in a native process."""
    given, expected = test
    source = program + (CALL.format(name=function, input=given, output=expected) if function else "")
    try:
        done = subprocess.run([sys.executable, "-c", source], input=given, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return "time_limit"
    if function and done.returncode == 3:
        return "wrong_answer"
    if done.returncode != 0:
        return "runtime_error"
    if function:
        return "pass"
    same = [line.split() for line in done.stdout.strip().split("\n")] == [line.split() for line in expected.strip().split("\n")]
    return "pass" if same or as_numbers(done.stdout) == as_numbers(expected) is not None else "wrong_answer"


def as_numbers(text):
    try:
        return [float(token) for token in text.split()]
    except ValueError:
        return None


def verdict(program, function, tests):
    """The first verdict that is no pass, and the test that it comes from."""
    try:
        compile(program, "program", "exec")
    except SyntaxError:
        return "compile_error", None
    for number, test in enumerate(tests):
        found = run(program, function, test)
        if found != "pass":
            return found, number
    return "pass", None


def main():
    for name, function, tests, programs in PROBLEMS:
        for expected, sources in programs.items():
            for source in sources:
                failing = None
                if expected not in ("memory_limit", "output_limit"):
                    found, failing = verdict(source, function, tests)
                    assert found == expected, f"{name}: {found} where {expected} is declared:\n{source}"
                row = {"problem": name, "function": function, "tests": tests, "program": source, "outcome": expected, "failing_test": failing}
                print(json.dumps(row, separators=(",", ":")))


if __name__ == "__main__":
    main()
