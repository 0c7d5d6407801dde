#!/usr/bin/env python3
"""Verifications a second for 1, 2 and 4 reward workers in containers, beside the same rows judged in one process, and the CPU time of each in
all containers together, client and workers.

    pip install grpcio grpcio-reflection
    docker compose build && python3 bench/scale/run.py [--workers 1,2,4] [--answers 100000] [--programs 400]

Everything runs from the image, limited to the cores of this machine; where workers, client and dispatcher share two cores, more workers
cannot be faster, and the CPU time shows what they cost instead. Each worker judges a few rows before the clock starts. CPU time is the
kernel's count for all containers of this machine, where Docker keeps them in one group: let no other run meanwhile. CPU of gRPC alone is
measured by `cargo run --release -p evenkeel-bench -- scale`.
"""
import argparse, json, pathlib, re, sys, time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "deploy/tests"))
from stack import Stack, check, command  # noqa: E402

PROGRAM = "import sys\nn = int(sys.stdin.read())\nprint(sum(i * i for i in range(n)))"


def answers(count):
    """Half of them right: fractions, powers and sums as models write them."""
    for n in range(count):
        gold = f"\\frac{{{n + 1}}}{{7}}+2^{{{n % 5}}}"
        yield {"id": str(n), "gold": gold, "completion": f"Let us see. The answer is $\\boxed{{2^{{{n % 5}}}+\\frac{{{n + 1 + n % 2}}}{{7}}}}$."}


def programs(count):
    for n in range(count):
        tests = [{"input": str(k), "output": str(sum(i * i for i in range(k))), "testtype": "stdin"} for k in range(n % 7, n % 7 + 4)]
        question = {"question_id": f"q{n}", "public_test_cases": json.dumps(tests), "private_test_cases": "[]", "metadata": "{}"}
        yield {"question": question, "programs": [{"label": "one", "program": PROGRAM}]}


def write(folder, name, rows):
    rows = list(rows)
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return len(rows)


# With control groups of version 2 and of version 1.
GROUPS = [(pathlib.Path("/sys/fs/cgroup/docker/cpu.stat"), lambda text: int(text.split()[1]) / 1e6),
          (pathlib.Path("/sys/fs/cgroup/cpuacct/docker/cpuacct.usage"), lambda text: int(text) / 1e9)]


def cpu_seconds():
    """CPU time of all containers so far, those that are gone as well. NaN where the kernel does not say."""
    return next((read(path.read_text()) for path, read in GROUPS if path.exists()), float("nan"))


def seconds(stack, kind, file, endpoint=None):
    """How long `evenkeel verify` takes over a file, from a container in the network of the workers, and the CPU time of it all."""
    network = f"{stack.name}_services" if endpoint else "none"
    verify = ["verify", kind, "--input", f"/rows/{file}", "--output", "/tmp/verdicts", *(["--endpoint", endpoint] if endpoint else [])]
    began, before = time.monotonic(), cpu_seconds()
    said = command(["docker", "run", "--rm", "--network", network, "--tmpfs", "/tmp:mode=1777", "-v", f"{stack.folder}:/rows:ro", "evenkeel", *verify])
    took = time.monotonic() - began, cpu_seconds() - before
    check(not re.search(r"[1-9]\d* invalid", said), said)
    return took


def rate(count, idle, whole):
    """Items a second, and milliseconds of CPU for each. What a container and an almost empty run cost is taken off."""
    (idle, idle_cpu), (whole, whole_cpu) = idle, whole
    return f"{count / (whole - idle):.0f} ({1000 * (whole_cpu - idle_cpu) / count:.2f} ms)"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", default="1,2,4")
    parser.add_argument("--answers", type=int, default=100000)
    parser.add_argument("--programs", type=int, default=400)
    options = parser.parse_args()
    workers = [int(number) for number in options.workers.split(",")]
    with Stack("bench") as stack:
        cases = [("math", write(stack.folder, "answers", answers(options.answers)), "answers"),
                 ("code", write(stack.folder, "programs", programs(options.programs)), "programs")]
        write(stack.folder, "few-answers", answers(8))
        write(stack.folder, "few-programs", programs(16))
        rates = {}
        for kind, count, file in cases:
            idle = seconds(stack, kind, f"few-{file}")
            rates[kind, "in one process"] = rate(count, idle, seconds(stack, kind, file))
        for number in workers:
            stack.up("--scale", f"reward={number}", "--no-deps", "reward")
            time.sleep(3)
            for kind, count, file in cases:
                for _ in range(2):
                    idle = seconds(stack, kind, f"few-{file}", "dns://reward:50052")
                rates[kind, f"{number} workers"] = rate(count, idle, seconds(stack, kind, file, "dns://reward:50052"))
        columns = ["in one process", *(f"{number} workers" for number in workers)]
        print("".join(f"{column:>20}" for column in ["a second (CPU each)", *columns]))
        for kind, _, file in cases:
            print("".join(f"{value:>20}" for value in [file, *(rates[kind, column] for column in columns)]))


if __name__ == "__main__":
    main()
