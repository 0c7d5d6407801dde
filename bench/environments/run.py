"""Turns a second and core of the environment `python`: programs of models in interpreters that last over the turns of an episode.

    python3 bench/environments/run.py [--seconds 10]

Every core has a worker process with 32 open episodes of eight short programs each (`bench/src/turns.rs`); instructions are counted. Beside
it, one core alone: a native `python3 -I` for every turn that runs all turns before it again, which is what stateless tools do.
"""

import argparse
import json
import re
import resource
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import ROOT, build  # noqa: E402

TARGET = 300


def processor_time():
    """Seconds that processes took which have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def native(seconds):
    """Turns a second of processor time with one process for each."""
    source = (ROOT / "bench/src/turns.rs").read_text()
    table = source[source.index("const TURNS"):source.index("];")]
    cells = [json.loads(f'"{text}"') for text in re.findall(r'\(\s*"((?:[^"\\]|\\.)*)",\s*"', table)]
    turns, began, before = 0, time.perf_counter(), processor_time()
    while time.perf_counter() - began < seconds:
        for count in range(1, len(cells) + 1):
            subprocess.run([sys.executable, "-I", "-c", "\n".join(cells[:count])], check=True, stdout=subprocess.DEVNULL)
            turns += 1
    return turns / (processor_time() - before)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=10)
    options = parser.parse_args()
    program = build("evenkeel-bench")
    before = processor_time()
    ours = json.loads(subprocess.run([program, "turns", str(options.seconds)], check=True, stdout=subprocess.PIPE, text=True).stdout)
    # With its worker processes: what a core would do that had nothing else.
    rate = ours["turns"] / (processor_time() - before)
    beside = native(options.seconds / 2)
    print(f"{ours['cores']} cores, {ours['open']} open episodes, {ours['turns']} turns of {ours['episodes']} episodes")
    print(f"  {rate:.0f} turns a second of processor time, {ours['turns_per_s_core']:.0f} a second and core beside whatever else ran")
    print(f"  ({beside:.0f} a second of processor time with a native process for each turn: {rate / beside:.1f} times)")
    waiting = ours["open"] / ours["cores"]
    print(f"  with {waiting:.0f} waiting for each core a first turn took {ours['first_ms']:.0f} ms, a later one {ours['later_ms']:.0f} ms (medians)")
    if rate < TARGET:
        sys.exit(f"fewer than {TARGET} turns a second of processor time")


if __name__ == "__main__":
    main()
