"""Compares the speed of the code verifier with two native ways to run tests, in one run on one machine.

    python3 bench/code/run.py [--data ../shared/data/code] [--programs 300] [--python python3.14]

(a) Evenkeel: the pool of the sandbox with worker processes.
(b) A `python3 -I` process per test.
(c) The reference grader's way, reimplemented from its description: per program a multiprocessing Manager and a forked process that runs
    all of its tests, with captured output.

All of them run the same programs on the same inputs, as many at a time as there are cores, without judging the output. The short tests are
the right programs of cases.jsonl that read standard input. The heavy ones are the inputs of codecontests.jsonl, for which there are no
programs; a program that reads, sorts and counts all tokens is used instead. Kernels are compute-bound, or create and keep many objects; the
ratio is that of CPU times to the Python given by `--python`. The guest is CPython 3.14.
"""

import argparse
import base64
import io
import json
import multiprocessing
import os
import pickle
import resource
import subprocess
import sys
import tempfile
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import ROOT, build  # noqa: E402

CORES = os.cpu_count() or 1

# Programs whose tests take longer natively are not counted as short.
SHORT_CPU_S = 0.2

# Targets, relative to a native process with a trivial program: 1.5 ms (median) and 3 ms (p99) where that takes 13.5 ms.
OVERHEAD_LIMITS = {"p50": 1.5 / 13.5, "p99": 3 / 13.5}

READER = """import sys
from collections import Counter
tokens = sys.stdin.read().split()
count = Counter(tokens)
print(len(tokens), count.most_common(3), sorted(tokens)[:10])
"""

KERNELS = {
    "calls": "def f(n):\n    return n if n < 2 else f(n - 1) + f(n - 2)\nprint(f(25))",
    "sieve": "n = 10**6\ns = bytearray([1]) * (n + 1)\nfor i in range(2, 1001):\n    if s[i]:\n        s[i * i :: i] = bytes(len(range(i * i, n + 1, i)))\nprint(sum(s))",
    "table": "n = 500\nd = [[0] * n for _ in range(n)]\nfor i in range(1, n):\n    for j in range(1, n):\n        d[i][j] = max(d[i - 1][j], d[i][j - 1]) + ((i * j) % 7 == 0)\nprint(d[-1][-1])",
    "dict": "d = {}\nfor i in range(300000):\n    d[i * 7919 % 100003] = d.get(i * 31 % 100003, 0) + 1\nprint(len(d))",
    "sort": "x = [(i * 7919) % 1000003 for i in range(200000)]\nx.sort()\nprint(sorted(x, key=lambda v: -v)[0])",
    "integers": "x = 1\nfor i in range(1, 3000):\n    x *= i\nprint(x % (10**9 + 7))",
    "heap": "import heapq\nh = []\nfor i in range(100000):\n    heapq.heappush(h, i * 7919 % 100003)\nprint(sum(heapq.heappop(h) for _ in range(100000)))",
    "text": "s = [str(i) for i in range(200000)]\nt = ' '.join(s)\nprint(len(t), sum(map(int, t.split())))",
    "floats": "x = 0.0\nfor i in range(1, 500000):\n    x += 1.0 / (i * i)\nprint(x)",
}

# What makes collections of garbage expensive: many objects that stay, and cycles that do not.
ALLOCATION = {
    "grid": """from collections import deque
n, m = 1000, 1500
seen = {(0, 0)}
queue = deque(seen)
while queue:
    x, y = queue.popleft()
    for c in ((x + 1, y), (x - 1, y), (x, y + 1), (x, y - 1)):
        if 0 <= c[0] < n and 0 <= c[1] < m and c not in seen:
            seen.add(c)
            queue.append(c)
print(len(seen))""",
    "visited": "seen = set()\nfor i in range(1000):\n    for j in range(1000):\n        seen.add((i, j))\nprint(len(seen))",
    "tuples": "x = [(i, i + 1) for i in range(6 * 10**6)]\nprint(len(x))",
    "graph": """n = 500000
edges = [[] for _ in range(n)]
for i in range(1, n):
    edges[i // 2].append((i, 1))
    edges[i].append((i // 2, 1))
depth, stack = [None] * n, [0]
depth[0] = 0
while stack:
    u = stack.pop()
    for v, weight in edges[u]:
        if depth[v] is None:
            depth[v] = depth[u] + weight
            stack.append(v)
print(max(depth))""",
    "trie": """class Node:
    def __init__(self):
        self.children, self.word = {}, False
root, x = Node(), 1
for _ in range(60000):
    node = root
    for _ in range(10):
        x = (x * 1103515245 + 12345) % 2**31
        key = x >> 16 & 3
        if key not in node.children:
            node.children[key] = Node()
        node = node.children[key]
    node.word = True
print(len(root.children))""",
    "cycles": """class Node:
    def __init__(self, up):
        self.up, self.down = up, []
for _ in range(200):
    root = Node(None)
    for _ in range(2000):
        root.down.append(Node(root))
print(len(root.down))""",
}
# What no allocation kernel may exceed, and the mean of all kernels.
KERNEL_LIMIT, MEAN_LIMIT = 4.0, 2.2


def rows(path: Path) -> list:
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


def inputs(question: dict) -> list[str]:
    tests = json.loads(question["public_test_cases"])
    private = question["private_test_cases"]
    try:
        tests += json.loads(private)
    except ValueError:  # the data of this project, not of strangers
        tests += json.loads(pickle.loads(zlib.decompress(base64.b64decode(private))))
    return [test["input"] for test in tests]


def load(data: Path, programs: int) -> dict:
    short = []
    for row in rows(data / "cases.jsonl"):
        if json.loads(row["question"]["metadata"] or "{}").get("func_name"):
            continue
        for program in row["programs"]:
            if program["passed"] and len(short) < programs:
                code = program["completion"].split("```python\n")[-1].rsplit("```", 1)[0]
                short.append({"program": code, "inputs": inputs(row["question"])})
    groups = {"short": [], "long": []}
    for row in short:
        groups["short" if native_cpu(row) <= SHORT_CPU_S else "long"].append(row)
    heavy = [{"program": READER, "inputs": inputs(row["question"])} for row in rows(data / "codecontests.jsonl")]
    groups["heavy"] = heavy
    return {"groups": {name: rows for name, rows in groups.items() if rows}, "kernels": KERNELS | ALLOCATION}


def native_cpu(row: dict) -> float:
    """CPU seconds of one native process for each of a program's tests, its start included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for text in row["inputs"]:
        subprocess.run([sys.executable, "-I", "-c", row["program"]], input=text.encode(), capture_output=True, timeout=60)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / len(row["inputs"])


def process_per_test(programs: list) -> float:
    def run(job):
        ended = subprocess.run([sys.executable, "-I", job[0]], input=job[1].encode(), capture_output=True, timeout=60)
        if ended.returncode:
            raise RuntimeError(f"a program of the bench failed: {ended.stderr.decode()[-300:]}")

    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(CORES) as pool:
        jobs = []
        for index, row in enumerate(programs):
            path = f"{folder}/{index}.py"
            Path(path).write_text(row["program"])
            jobs += [(path, text) for text in row["inputs"]]
        began = time.perf_counter()
        list(pool.map(run, jobs))
        return time.perf_counter() - began


def _all_tests(row: dict, result) -> None:
    streams = sys.stdin, sys.stdout
    code = compile(row["program"], "main.py", "exec")
    for text in row["inputs"]:
        sys.stdin, sys.stdout = io.StringIO(text), io.StringIO()
        error = None
        try:
            exec(code, {"__name__": "__main__"})
        except SystemExit:
            pass
        except BaseException as raised:
            error = repr(raised)
        captured = sys.stdout.getvalue()
        sys.stdin, sys.stdout = streams
        result.append((captured, error))


def _graders_way(row: dict) -> None:
    manager = multiprocessing.Manager()
    # Named here, so that it is not deleted while the child appends.
    outputs = manager.list()
    process = multiprocessing.Process(target=_all_tests, args=(row, outputs))
    process.start()
    process.join(600)
    ran = list(outputs)
    manager.shutdown()
    errors = [error for _, error in ran if error]
    # What was captured is the proof that a test ran to its end.
    if len(ran) != len(row["inputs"]) or errors:
        raise RuntimeError(f"{len(ran)} of {len(row['inputs'])} tests ran in the grader's way, {errors[:1]}")


def graders_way(programs: list) -> float:
    multiprocessing.set_start_method("fork", force=True)
    with ThreadPoolExecutor(CORES) as pool:
        began = time.perf_counter()
        list(pool.map(_graders_way, programs))
        return time.perf_counter() - began


def native_start(runs: int = 200) -> float:
    """Milliseconds that a native process takes for the trivial program, at the median, with all cores busy."""

    def run(_) -> float:
        began = time.perf_counter()
        subprocess.run([sys.executable, "-I", "-c", "print(input())"], input=b"1\n", capture_output=True, timeout=60)
        return (time.perf_counter() - began) * 1e3

    with ThreadPoolExecutor(CORES) as pool:
        return sorted(pool.map(run, range(runs)))[runs // 2]


def native_kernel(python: str, program: str, rounds: int = 5) -> float:
    """CPU seconds of the program without the interpreter's start."""
    timed = "import resource as r, io, sys\nsys.stdout = io.StringIO()\na = r.getrusage(r.RUSAGE_SELF)\n"
    timed += f"exec(compile({program!r}, 'main.py', 'exec'), {{'__name__': '__main__'}})\nb = r.getrusage(r.RUSAGE_SELF)\n"
    timed += "print(b.ru_utime + b.ru_stime - a.ru_utime - a.ru_stime, file=sys.__stdout__)"
    return min(float(subprocess.run([python, "-I", "-c", timed], capture_output=True, text=True).stdout) for _ in range(rounds))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data" / "code")
    parser.add_argument("--programs", type=int, default=300)
    parser.add_argument("--python", default=sys.executable, help="what kernels are compared with")
    options = parser.parse_args()
    if not options.data.exists():
        sys.exit(f"{options.data} is not there")
    load_before = os.getloadavg()[0]
    binary = build("evenkeel-bench")
    work = load(options.data, options.programs)
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(work, file)
        file.flush()
        ours = json.loads(subprocess.run([binary, "code", file.name], check=True, stdout=subprocess.PIPE, text=True).stdout)
    print(f"load of the machine at the beginning: {load_before:.2f} on {CORES} cores; above 0.5 the numbers are unreliable", flush=True)
    result = {"load_at_start": load_before, "python": sys.version.split()[0], "cores": CORES, "evenkeel": ours, "groups": {}, "kernels": {}}
    for name, programs in work["groups"].items():
        tests = sum(len(row["inputs"]) for row in programs)
        per_core = lambda wall: tests / wall / CORES
        entry = {
            "programs": len(programs),
            "tests": tests,
            "a_evenkeel": ours["groups"][name]["tests_per_s_core"],
            "b_process": per_core(process_per_test(programs)),
            "c_grader": per_core(graders_way(programs)),
        }
        entry["a_to_b"], entry["a_to_c"] = entry["a_evenkeel"] / entry["b_process"], entry["a_evenkeel"] / entry["c_grader"]
        result["groups"][name] = entry
        print(name, {key: round(value, 2) for key, value in entry.items()}, flush=True)
    version = subprocess.run([options.python, "-c", "import sys; print(sys.version.split()[0])"], capture_output=True, text=True)
    result["kernels_python"] = version.stdout.strip()
    product = 1.0
    for name, program in work["kernels"].items():
        native = native_kernel(options.python, program)
        ratio = ours["kernels"][name] / native
        product *= ratio
        result["kernels"][name] = {"evenkeel_s": ours["kernels"][name], "native_s": native, "ratio": ratio}
        missed = " MISSED" if name in ALLOCATION and ratio > KERNEL_LIMIT else ""
        print(f"kernel {name}: {ratio:.2f} times native ({native * 1e3:.1f} ms){missed}", flush=True)
    mean = result["kernels_geometric_mean"] = product ** (1 / len(work["kernels"]))
    missed = "" if mean <= MEAN_LIMIT else ", MISSED"
    print(f"kernels: {mean:.2f} times CPython {result['kernels_python']} (limit {MEAN_LIMIT}{missed})")
    print("a test of a trivial program, ms:", {key: round(value, 3) for key, value in ours["overhead_ms"].items()})
    start = result["native_start_ms"] = native_start()
    for name, limit in OVERHEAD_LIMITS.items():
        part = ours["overhead_ms"][name] / start
        text = "ok" if part <= limit else "MISSED"
        print(f"  {name}: {part:.3f} of a native process, which takes {start:.1f} ms (limit {limit:.3f}: {text})")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
