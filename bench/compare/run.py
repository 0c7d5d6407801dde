#!/usr/bin/env python3
"""Kills and jobs of a comparison: python3 bench/compare/run.py [--kills 10] [--seeds 2] [--no-time] [--set KEY=VALUE ...]

Two questions about `evenkeel compare`, with two rules:

kills   On a recipe of seconds. The comparison is done once undisturbed, with two jobs. Then the same command is started again and again in another folder and killed with
        SIGKILL at a random moment, until it was killed that often; the last call runs to its end. `compare.json` must be the same bytes.
time    The recipe `arithmetic`, cut to 16 steps, with two jobs of one thread each, and with one job of two threads. They compute other bits, so that
        only their time is compared; the goal is 0.9 or less. CPU seconds are printed as well: on a machine that does other things too they say what wall time cannot.

The moments are uniform over the time of the undisturbed comparison, from a fixed seed (--seed). Exits with 1 where compare.json differs, and with
--strict also where the time is above the goal.
"""

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import ROOT, build  # noqa: E402

GOAL = 0.9
RULES = "learner.objective.aggregation=token,balanced"
SECONDS = ROOT / "cli/tests/suite/small.toml"
# In a recipe of seconds a step is mostly the disk's work, which more threads or jobs do not change.
TIMED = ("arithmetic", ("run.steps=16", "warm_start.steps=200"))


def command(arguments, folder, jobs, threads, recipe=SECONDS, settings=()):
    words = [arguments.binary, "compare", *(arguments.recipe or [recipe]), "--vary", RULES, "--seeds", arguments.seeds]
    words += ["--jobs", jobs, "--threads", threads, "--out", folder]
    words += [word for one in (*settings, *arguments.set) for word in ("--set", one)]
    return [str(word) for word in words]


def start(arguments, folder, jobs, threads, *of):
    log = folder.with_suffix(".log").open("ab")
    return subprocess.Popen(command(arguments, folder, jobs, threads, *of), stdout=log, stderr=log, stdin=subprocess.DEVNULL)


def compare(arguments, folder, jobs, threads, *of):
    """Wall and CPU seconds of a comparison."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    status = start(arguments, folder, jobs, threads, *of).wait()
    if status:
        sys.exit(f"the comparison ended with status {status}:\n{folder.with_suffix('.log').read_text(errors='replace')[-2000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.monotonic() - began, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def kills(arguments, folder):
    """Whether compare.json is the same after all kills."""
    whole, killed = folder / "whole", folder / "killed"
    seconds, _ = compare(arguments, whole, 2, 1)
    print(f"undisturbed: {seconds:.1f} s", flush=True)
    moments, done, calls = random.Random(arguments.seed), 0, 0
    while done < arguments.kills:
        calls += 1
        process = start(arguments, killed, 2, 1)
        moment = moments.uniform(0.0, seconds)
        try:
            status = process.wait(moment)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            done += 1
            ended = sum(1 for path in killed.glob("**/summary.json") if json.loads(path.read_text())["state"] == "completed")
            print(f"kill {done} after {moment:.1f} s: {ended} runs and warm starts are done", flush=True)
            continue
        if status:
            sys.exit(f"the comparison ended with status {status}:\n{killed.with_suffix('.log').read_text(errors='replace')[-2000:]}")
        # It came to its end: the next kills are those of another folder.
        if (killed / "compare.json").read_bytes() != (whole / "compare.json").read_bytes():
            return False
        killed = folder / f"killed-{calls}"
    compare(arguments, killed, 2, 1)
    return (killed / "compare.json").read_bytes() == (whole / "compare.json").read_bytes()


def timed(arguments, folder):
    """The share that two jobs of one thread take of the time of one job of two."""
    two, two_cpu = compare(arguments, folder / "two-jobs", 2, 1, *TIMED)
    one, one_cpu = compare(arguments, folder / "one-job", 1, 2, *TIMED)
    print(f"two jobs of one thread: {two:.1f} s, {two_cpu:.1f} s of CPU ({two_cpu / two:.2f} cores)")
    print(f"one job of two threads: {one:.1f} s, {one_cpu:.1f} s of CPU ({one_cpu / one:.2f} cores)")
    print(f"share: {two / one:.2f} of the time (goal {GOAL}), {two_cpu / one_cpu:.2f} of the CPU")
    return two / one


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, help="evenkeel, instead of a build")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--recipe", action="append", default=[], help="instead of those of the two parts")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--no-time", action="store_true", help="kills alone")
    parser.add_argument("--strict", action="store_true", help="exit with 1 where the time is above the goal")
    arguments = parser.parse_args()
    arguments.binary = arguments.binary or build("evenkeel")
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        if arguments.kills:
            same = kills(arguments, folder)
            print(f"{arguments.kills} kills: compare.json is {'the same' if same else 'another one'}", flush=True)
            failed |= not same
        if not arguments.no_time:
            failed |= timed(arguments, folder) > GOAL and arguments.strict
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
