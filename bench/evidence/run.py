#!/usr/bin/env python3
"""Honest real steps of a run, and what the proof of weights makes of them: python3 bench/evidence/run.py [--steps 1000] [--recipe RECIPE] [--set KEY=VALUE ...]

Trains and reads the metrics: whether the run was accused, the engine's noise, the movement of the weights, the highest evidence for a fault,
and each suspicion's share of its predicted gap over the run (0 for the right weights). This is what the noise of the simulations
(`cargo run --release -p evenkeel-statistics --example evidence`) is to be compared with. Exits with 1 where an honest run was accused.

--binary: an `evenkeel` that is built already. --out keeps the run directory.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import build  # noqa: E402


def number(value):
    return "-" if value is None else f"{value:.2e}" if abs(value) < 0.001 else f"{value:.4f}"


def over_the_run(lines, name):
    """First, median, last and largest value of a metric."""
    found = [line[name] for line in lines if line.get(name) is not None]
    if not found:
        return ["-"] * 4
    return [number(value) for value in (found[0], statistics.median(found), found[-1], max(found))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--recipe", default="arithmetic")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--binary")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    binary = options.binary or build("evenkeel")
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.out or Path(temporary) / "run"
        settings = [f"run.steps={options.steps}", "evaluation.before=false", "evaluation.after=false", "evaluation.every=0", *options.set]
        command = [binary, "train", "--recipe", options.recipe, "--out", str(folder)]
        command += [word for setting in settings for word in ("--set", setting)]
        ended = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        path = folder / "metrics.jsonl"
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    lines = [line for line in lines if line.get("kind") == "train"]
    proofs = [line for line in lines if "proof/engines" in line]
    tokens = sum(int(line.get("proof/tokens", 0)) for line in proofs)
    print(f"{options.recipe}: {len(lines)} steps, {len(proofs)} proofs, {tokens} tokens, exit status {ended.returncode}\n")
    print("| metric | first | median | last | largest |\n|---|---|---|---|---|")
    names = ["proof/noise", "proof/mean_gap", "proof/max_gap", "proof/movement", "proof/evidence"]
    shares = sorted({name for line in proofs for name in line if name.startswith("proof/stale_share/")})
    for name in [*names, *shares, "proof/excluded", "timing_s/proof"]:
        print(f"| `{name}` | {' | '.join(over_the_run(proofs, name))} |")
    print("\n" + "\n".join(ended.stderr.splitlines()[-3:]))
    sys.exit(1 if ended.returncode or len(lines) < options.steps else 0)


if __name__ == "__main__":
    main()
