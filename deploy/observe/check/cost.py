#!/usr/bin/env python3
"""CPU time of the same training with and without metrics (scraped every second) and traces, in alternation. Traces go to an address where
nobody takes them: what they cost besides is the collector's.

    python3 deploy/observe/check/cost.py --rounds 5
"""

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

from stack import Processes, Prometheus, Stack, free_ports

ROOT = Path(__file__).resolve().parents[3]


def cpu_seconds(process):
    """Of a process and its children that have ended."""
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(int(ticks) for ticks in fields[11:15]) / os.sysconf("SC_CLK_TCK")


def run(program, observed):
    processes = Processes()
    with tempfile.TemporaryDirectory(prefix="evenkeel-observe-") as folder:
        folder = Path(folder)
        try:
            traces = f"http://127.0.0.1:{free_ports(1)[0]}" if observed else None
            stack = Stack(program, folder, processes, observed, traces)
            services = [process.pid for _, process, _ in processes.started]
            if observed:
                Prometheus(stack.targets, folder, processes)
            while stack.state() != "completed":
                processes.check()
                time.sleep(0.2)
            return sum(map(cpu_seconds, services))
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
        ratios.append(found[True] / found[False])
        print(f"without: {found[False]:.2f} s, with: {found[True]:.2f} s, {100 * (ratios[-1] - 1):+.2f} %", flush=True)
    print(f"median {100 * (statistics.median(ratios) - 1):+.2f} %")


if __name__ == "__main__":
    main()
