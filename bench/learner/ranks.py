#!/usr/bin/env python3
"""Two ranks of one thread beside one process of two threads, on this machine, in one run: the time of a supervised step, in which nothing but the
learner works.

    python3 bench/learner/ranks.py [--rounds 3] [--program target/release/evenkeel] [--set KEY=VALUE ...]

Both train the fresh model of the recipe `arithmetic` on the same examples, and take turns, so that a machine that slows down slows both; the ratio
of the medians is what counts. The losses of all steps must be equal to the bit. It fails below nine tenths of the speed of one process.
"""
import argparse
import json
import os
import pathlib
import secrets
import socket
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
STEPS = 40
# The first ones find nothing in a cache.
WARM = 5
LIMIT = 0.9


def trained(program, folder, ranks, settings):
    """The seconds and the losses of the steps."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    token = folder.parent / "token"
    token.write_text(secrets.token_hex(32))
    more = [f"warm_start.steps={STEPS}", "warm_start.examples_per_step=128", "run.steps=0", "evaluation.problems=0",
            f"learner.compute.threads={2 // ranks}", *([f"learner.ranks.count={ranks}", f"learner.ranks.token_file={token}"] if ranks > 1 else []), *settings]
    command = [program, "train", "--recipe", "arithmetic", "--out", str(folder), *(part for setting in more for part in ("--set", setting))]
    processes = []
    for rank in range(ranks):
        environment = os.environ | {"RANK": str(rank), "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        with (folder.parent / f"{folder.name}-{rank}.log").open("w") as log:
            processes.append(subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log))
    for rank, process in enumerate(processes):
        if process.wait():
            raise SystemExit((folder.parent / f"{folder.name}-{rank}.log").read_text())
    lines = [json.loads(line) for line in (folder / "warm_start.jsonl").read_text().splitlines()]
    loss = next(name for name in lines[0] if name.endswith("loss"))
    return [line["timing_s/step"] for line in lines[WARM:]], [line[loss] for line in lines]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--program", default=str(ROOT / "target" / "release" / "evenkeel"))
    parser.add_argument("--set", action="append", default=[])
    given = parser.parse_args()
    seconds, losses = {1: [], 2: []}, []
    with tempfile.TemporaryDirectory() as name:
        for number in range(given.rounds):
            for ranks in (1, 2):
                took, loss = trained(given.program, pathlib.Path(name) / f"{number}-{ranks}", ranks, given.set)
                seconds[ranks] += took
                losses.append(loss)
                print(f"round {number + 1}: {ranks} process(es), {statistics.median(took):.3f} s a step", flush=True)
    if any(loss != losses[0] for loss in losses):
        raise SystemExit("the losses differ")
    one, two = (statistics.median(seconds[ranks]) for ranks in (1, 2))
    print(f"one process with two threads {one:.3f} s, two ranks with one each {two:.3f} s: {one / two:.2f} of its speed (limit {LIMIT}), equal losses")
    return 0 if one / two >= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
