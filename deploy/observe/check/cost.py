#!/usr/bin/env python3
"""What metrics and traces cost: the CPU time of a scrape of each service, as a share of a core where it is scraped every five seconds, and
the CPU time of the same training with metrics and traces and without, in alternation. Traces go to an address where nobody takes them. The
training is a toy: a sample costs a millisecond, and everything that is counted of it weighs accordingly.

    python3 deploy/observe/check/cost.py --rounds 5
"""

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

from stack import SERVICES, Processes, Stack, free_ports

SCRAPES = 500
INTERVAL = 5
ROOT = Path(__file__).resolve().parents[3]


def cpu_seconds(process):
    """Of a process and its children that have ended."""
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(int(ticks) for ticks in fields[11:15]) / os.sysconf("SC_CLK_TCK")


def scrapes(stack, processes):
    """CPU seconds of one scrape of each service."""
    pids = {name: process.pid for name, process, _ in processes.started}
    found = {}
    for name in SERVICES:
        before = cpu_seconds(pids[name])
        for _ in range(SCRAPES):
            stack.scrape(name)
        found[name] = (cpu_seconds(pids[name]) - before) / SCRAPES
    return found


def run(program, observed):
    processes = Processes()
    with tempfile.TemporaryDirectory(prefix="evenkeel-observe-") as folder:
        folder = Path(folder)
        try:
            traces = f"http://127.0.0.1:{free_ports(1)[0]}" if observed else None
            stack = Stack(program, folder, processes, observed, traces)
            services = [process.pid for _, process, _ in processes.started]
            while stack.state() != "completed":
                processes.check()
                time.sleep(0.2)
            spent = sum(map(cpu_seconds, services))
            return spent, scrapes(stack, processes) if observed else {}
        finally:
            processes.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, default=ROOT / "target/release/evenkeel", help="the binary")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    ratios = []
    for number in range(options.rounds):
        # Whichever is first may find a colder machine.
        order = (False, True) if number % 2 else (True, False)
        found = {observed: run(options.program.resolve(), observed) for observed in order}
        (with_both, of_scrapes), (without, _) = found[True], found[False]
        ratios.append(with_both / without)
        for name, seconds in of_scrapes.items():
            print(f"a scrape of {name}: {1000 * seconds:.2f} ms, {100 * seconds / INTERVAL:.3f} % of a core")
        print(f"training without: {without:.2f} s, with: {with_both:.2f} s, {100 * (ratios[-1] - 1):+.2f} %", flush=True)
    print(f"median {100 * (statistics.median(ratios) - 1):+.2f} %")


if __name__ == "__main__":
    main()
