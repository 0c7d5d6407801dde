#!/usr/bin/env python3
"""What `--probe-gradients` costs: python3 bench/probe/run.py [RECIPE ...] [--steps 40] [--every 20]

Each recipe (arithmetic and trails/wrong-longer) is trained with a probe at every second step, so that steps with and without one take turns in one run.
The CPU seconds of the process are read whenever a step is written: on a busy machine, too, they say what wall time cannot. Printed are the means with
their standard errors, their ratio, and what that makes of a run with a probe at larger intervals (--every). Evaluation, checkpoints and page are off.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import build, cpu_seconds  # noqa: E402

RECIPES = ["arithmetic", "trails/wrong-longer"]
PAUSE = 0.01


def steps_of(binary, recipe, steps, folder):
    """CPU seconds of each step but the first, whose beginning no line marks."""
    settings = {
        "run.steps": steps,
        "learner.probe_gradients.every": 2,
        "evaluation.every": 0,
        "evaluation.before": "false",
        "evaluation.after": "false",
        "checkpoint.every": 1_000_000,
        "page.listen": "off",
    }
    command = [str(binary), "train", "--recipe", recipe, "--out", str(folder)]
    command += [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    log, metrics = folder.with_suffix(".log"), folder / "metrics.jsonl"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, stdin=subprocess.DEVNULL)
    at = {}
    while process.poll() is None:
        done = metrics.read_bytes().count(b"\n") if metrics.exists() else 0
        if done and done not in at:
            at[done] = cpu_seconds(process)
        time.sleep(PAUSE)
    if process.returncode:
        sys.exit(f"{recipe} ended with status {process.returncode}:\n{log.read_text(errors='replace')[-2000:]}")
    # After `done` lines step `done - 1` has ended.
    return {done - 1: at[done] - at[done - 1] for done in at if done - 1 in at}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipes", nargs="*", default=RECIPES, metavar="RECIPE")
    parser.add_argument("--binary", type=Path, help="evenkeel, instead of a build")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--every", type=int, default=20)
    arguments = parser.parse_args()
    arguments.binary = arguments.binary or build("evenkeel")
    with tempfile.TemporaryDirectory() as folder:
        for index, recipe in enumerate(arguments.recipes):
            steps = steps_of(arguments.binary, recipe, arguments.steps, Path(folder) / str(index))
            probed, plain = ([value for step, value in steps.items() if step % 2 == odd] for odd in (0, 1))
            if min(len(probed), len(plain)) < 2:
                sys.exit(f"{recipe}: too few steps to tell")
            ratio = statistics.mean(probed) / statistics.mean(plain)
            shown = [f"{statistics.mean(of):.2f} ± {statistics.stdev(of) / len(of) ** 0.5:.2f} s" for of in (probed, plain)]
            print(f"{recipe}: {shown[0]} of CPU with a probe ({len(probed)} steps), {shown[1]} without ({len(plain)} steps)")
            print(f"  ratio {ratio:.2f}; a probe every {arguments.every} steps takes {100 * (ratio - 1) / arguments.every:.1f} % of CPU more", flush=True)


if __name__ == "__main__":
    main()
