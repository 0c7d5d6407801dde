#!/usr/bin/env python3
"""Kills at random moments of a run, compared with the undisturbed run: python3 bench/resume/run.py [--kills 30] [--recipe RECIPE] [--set KEY=VALUE ...]

Trains once undisturbed. Then starts the same run again and again with --resume in one run directory and kills it with SIGKILL at a random
moment, until it was killed so often; the last start runs to its end. Every line of metrics, of evaluations and of the warm start must equal
that of the undisturbed run, but for what measures time (`timing_s/`, `perf/`) and counts repetitions (`rollout/begun_again`,
`rollout/verified_again`), and the published weights must be the same bytes. A run that finishes before all kills are spent begins again in
a new directory. Exits with 1 where something differs.

The moments are uniform over the time that the undisturbed run took, from a fixed seed (--seed).
"""

import argparse
import hashlib
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FILES = ["metrics.jsonl", "evaluation.jsonl", "warm_start.jsonl"]
# What differs between two runs of the same seed by nature.
OF_TIME = ("timing_s/", "perf/")
OF_REPETITION = ("rollout/begun_again", "rollout/verified_again")


def build():
    command = ["cargo", "build", "--release", "--workspace", "--bin", "evenkeel", "--message-format", "json-render-diagnostics"]
    lines = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    artifacts = (json.loads(line) for line in lines)
    return next(a["executable"] for a in artifacts if a.get("executable") and a["target"]["name"] == "evenkeel")


def start(binary, options, folder, resume):
    command = [binary, "train"]
    command += ["--resume", folder] if resume else [*options, "--out", folder]
    log = (folder.parent / f"{folder.name}.log").open("ab")
    return subprocess.Popen([str(word) for word in command], stdout=log, stderr=log)


def train(binary, options, folder, resume=False):
    began = time.monotonic()
    status = start(binary, options, folder, resume).wait()
    if status:
        sys.exit(f"the run ended with status {status}:\n{(folder.parent / f'{folder.name}.log').read_text(errors='replace')[-2000:]}")
    return time.monotonic() - began


def lines(folder):
    """The lines of each file, without what differs by nature."""
    found = {}
    for name in FILES:
        path = folder / name
        rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        found[name] = [{key: value for key, value in row.items() if not key.startswith(OF_TIME) and key not in OF_REPETITION} for row in rows]
    return found


def weights(folder):
    """Digest of the newest published weights."""
    newest = max((folder / "weights").iterdir(), key=lambda path: int(path.name.rpartition("-")[2]) if path.is_dir() else -1)
    digest = hashlib.sha256()
    for path in sorted(newest.rglob("*.safetensors")):
        digest.update(path.read_bytes())
    return newest.name, digest.hexdigest()


def differences(one, other):
    for name in FILES:
        if len(one[name]) != len(other[name]):
            yield f"{name}: {len(one[name])} lines, killed {len(other[name])}"
        for number, (left, right) in enumerate(zip(one[name], other[name])):
            for key in sorted(left.keys() | right.keys()):
                if left.get(key) != right.get(key):
                    yield f"{name}:{number + 1}: {key} is {left.get(key)}, killed {right.get(key)}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, help="evenkeel, instead of a build")
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--recipe", action="append", default=[])
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    arguments = parser.parse_args()
    binary = arguments.binary or build()
    recipes = arguments.recipe or [ROOT / "services/evenkeel/tests/suite/small.toml"]
    options = [word for recipe in recipes for word in ("--recipe", recipe)] + [word for one in arguments.set for word in ("--set", one)]
    moments, kills, completed, found = random.Random(arguments.seed), 0, 0, []
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        seconds = train(binary, options, folder / "undisturbed")
        expected, expected_weights = lines(folder / "undisturbed"), weights(folder / "undisturbed")
        print(f"undisturbed: {seconds:.1f} s, {len(expected['metrics.jsonl'])} steps", flush=True)
        while kills < arguments.kills:
            killed = folder / f"killed-{completed}"
            while kills < arguments.kills:
                # Before the directory holds a run there is nothing to resume.
                process = start(binary, options, killed, (killed / "run.json").exists())
                try:
                    status = process.wait(moments.uniform(0.0, seconds))
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
                    kills += 1
                    steps = len(lines(killed)["metrics.jsonl"]) if killed.exists() else 0
                    print(f"kill {kills}: {steps} steps are written", flush=True)
                    continue
                if status:
                    sys.exit(f"the run ended with status {status}:\n{(folder / f'{killed.name}.log').read_text(errors='replace')[-2000:]}")
                break
            train(binary, options, killed, resume=(killed / "run.json").exists())
            completed += 1
            found += differences(expected, lines(killed))
            if weights(killed) != expected_weights:
                found.append(f"weights: {expected_weights}, killed {weights(killed)}")
    for line in found[:20]:
        print(line)
    print(f"{kills} kills in {completed} runs, {len(found)} differences")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
