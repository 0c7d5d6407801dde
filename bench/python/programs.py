#!/usr/bin/env python3
"""Programs by evenkeel_rlvr.code.Pool beside the pool in Rust, the HTTP front of a reward service, and verl's prime_code: one run, one machine.

    python3 bench/python/programs.py

Run it with a Python that has evenkeel-rlvr (`.ci/python.sh` leaves one in target/python/test-default); with verl's reward functions in it, or in a
folder that PYTHONPATH names, they are measured too. Programs of the project are taken from target/release: `evenkeel-bench code` is the pool in Rust
(cargo build --release -p evenkeel-bench), `evenkeel` the service. What is missing is left out.

Everything runs as many programs at a time as there are processors, in turns; the best turn of each counts, by the clock, so that other load on the
machine makes the ratios less sure. The limits: 0.9 of the pool in Rust, 0.7 of the pool's trivial runs over HTTP.
"""

import functools
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from evenkeel_rlvr.code import CodeItem, Pool

try:
    from verl.utils.reward_score.prime_code import compute_score as prime_code
except ImportError:
    prime_code = None

ROOT = Path(__file__).resolve().parents[2]
RELEASE = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
TURNS = 3
print = functools.partial(print, flush=True)
TRIVIAL = "print(input())"
#: Reads numbers, works a little, and prints several lines.
WORKING = """import sys
numbers = list(map(int, sys.stdin.read().split()))
best, total = 0, 0
for number in numbers:
    total = max(total + number, number)
    best = max(best, total)
print(best)
print(sum(numbers), sorted(numbers)[len(numbers) // 2])
"""
INPUTS = [" ".join(str((i * 7919 + k * 104729) % 2003 - 1001) for i in range(200)) for k in range(10)]


def run_natively(program, text):
    return subprocess.run([sys.executable, "-I", "-c", program], input=text, capture_output=True, text=True, check=True).stdout


def fenced(program):
    return f"```python\n{program}\n```"


def best(runs):
    """The most of each name over the turns."""
    return {name: max(run[name] for run in runs) for name in runs[0]}


def by_pool(pool, groups):
    """Tests per second of each group, all of whose tests are run."""
    rates = {}
    for name, programs in groups.items():
        items = [
            CodeItem(fenced(one["program"]), {"inputs": one["inputs"], "outputs": [""] * len(one["inputs"])}, partial=True, cpu_s=60) for one in programs
        ]
        began = time.perf_counter()
        verdicts = pool.verify_batch(items)
        took = time.perf_counter() - began
        ran = sum(verdict.code.run_tests for verdict in verdicts)
        assert ran == sum(len(one["inputs"]) for one in programs), "every test runs"
        rates[name] = ran / took
    return rates


def by_rust(program, groups):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({"groups": groups, "kernels": {}}, file)
        file.flush()
        found = json.loads(subprocess.run([program, "code", file.name], check=True, stdout=subprocess.PIPE, text=True).stdout)
    return {name: group["tests"] / group["wall_s"] for name, group in found["groups"].items()}


class Front:
    """A reward service with its HTTP front."""

    def __init__(self, program):
        command = [program, "serve", "reward", "--http", "127.0.0.1:0", "--set", "server.listen=127.0.0.1:0", "--set", "code.sandbox=at_start"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        for line in self.process.stderr:
            found = re.search(r"run_code.*address=127\.0\.0\.1:(\d+)", line)
            if found:
                self.port = int(found.group(1))
                # A full pipe would stop it.
                threading.Thread(target=self.process.stderr.read, daemon=True).start()
                return
        raise RuntimeError("the service has no HTTP front")

    def rate(self, count, clients):
        """Trivial runs per second by this many connections."""
        body = json.dumps({"code": TRIVIAL, "language": "python", "stdin": "1"}).encode()
        head = f"POST /run_code HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        request = head.encode() + body

        def work(_):
            # As little as a client can do: it shares the processors with the service.
            with socket.create_connection(("127.0.0.1", self.port)) as connection:
                for _ in range(count // clients):
                    connection.sendall(request)
                    answer = connection.recv(1 << 16)
                    start = answer.index(b"\r\n\r\n") + 4
                    length = int(re.search(rb"content-length: (\d+)", answer, re.IGNORECASE).group(1))
                    while len(answer) < start + length:
                        answer += connection.recv(1 << 16)
                    assert b'"stdout":"1\\n"' in answer, answer

        began = time.perf_counter()
        with ThreadPoolExecutor(clients) as threads:
            list(threads.map(work, range(clients)))
        return count // clients * clients / (time.perf_counter() - began)


def by_prime_code(completion, tests, times):
    began = time.perf_counter()
    for _ in range(times):
        score, _ = prime_code(completion, json.dumps(tests), continuous=True)
    return (time.perf_counter() - began) / times, float(score)


def main():
    cores = len(os.sched_getaffinity(0))
    groups = {
        "trivial, one test each": [{"program": TRIVIAL, "inputs": ["1"]}] * 2000,
        "ten tests each": [{"program": WORKING, "inputs": INPUTS}] * 100,
    }
    held = []
    with Pool(cores) as pool:
        by_pool(pool, {name: programs[:20] for name, programs in groups.items()})
        rust = RELEASE / "evenkeel-bench"
        ours, theirs, fronts, trivial = [], [], [], []
        front = Front(RELEASE / "evenkeel") if (RELEASE / "evenkeel").exists() else None
        try:
            for _ in range(TURNS):
                ours.append(by_pool(pool, groups))
                if rust.exists():
                    theirs.append(by_rust(rust, groups))
                if front is not None:
                    fronts.append(front.rate(2000, 2 * cores))
        finally:
            if front is not None:
                front.process.terminate()
                front.process.wait()
        ours = best(ours)
        for name, rate in ours.items():
            print(f"{name}: {rate:.0f} tests a second by {cores} workers")
            if theirs:
                ratio = rate / best(theirs)[name]
                print(f"    {ratio:.2f} of the pool in Rust")
                held.append(ratio >= 0.9)
        if fronts:
            ratio = max(fronts) / ours["trivial, one test each"]
            print(f"HTTP front: {max(fronts):.0f} trivial runs a second, {ratio:.2f} of the pool, the client's time included")
            held.append(ratio >= 0.7)
        if prime_code is not None:
            right = {"inputs": INPUTS, "outputs": [run_natively(WORKING, text) for text in INPUTS]}
            wrong = {"inputs": INPUTS, "outputs": [*right["outputs"][:-1], "1"]}
            for name, tests, expected in (("right", right, 1.0), ("wrong", wrong, 0.9)):
                peer, score = by_prime_code(fenced(WORKING), tests, 5)
                assert score == expected, score
                pairs = 40
                began = time.perf_counter()
                verdicts = pool.verify_batch([CodeItem(fenced(WORKING), tests, partial=True)] * pairs)
                took = (time.perf_counter() - began) / pairs
                assert all(verdict.reward == expected for verdict in verdicts)
                began = time.perf_counter()
                for _ in range(pairs):
                    pool.verify(fenced(WORKING), tests, partial=True)
                alone = (time.perf_counter() - began) / pairs
                print(
                    f"prime_code, {name} programs of ten tests: {peer * 1e3:.0f} ms, the pool {took * 1e3:.1f} ms ({peer / took:.0f} times), "
                    f"one program at a time {alone * 1e3:.1f} ms ({peer / alone:.0f} times)"
                )
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
