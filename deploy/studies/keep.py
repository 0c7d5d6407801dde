"""Adds the finished runs of a comparison to git's index: settings, metrics and evaluations, and no weights, checkpoints or answers.

    python3 deploy/studies/keep.py FOLDER           # adds them
    python3 deploy/studies/keep.py --free FOLDER    # instead removes weights and checkpoints of finished runs, 2 GB each for SmolLM2

`evenkeel compare` takes a run as finished by these files alone, so that a comparison goes on in another checkout where it was left.
Runs that are not finished are left out: nothing could resume them without their checkpoints. The home directory is written as `~` in what is
kept.
"""

import argparse
import json
import shutil
import subprocess
from pathlib import Path

OF_A_RUN = ["config.toml", "run.json", "data.json", "inputs.json", "metrics.jsonl", "evaluation.jsonl", "warm_start.jsonl", "summary.json"]
HEAVY = ["checkpoints", "weights"]
OF_THE_COMPARISON = ["plan.json", "compare.md", "compare.json", "compare.html", "compare.csv"]


def is_finished(run):
    try:
        return json.loads((run / "summary.json").read_text())["state"] == "completed"
    except (OSError, ValueError, KeyError):
        return False


def without_home(file):
    """Whose machine it was is nobody's business, and says nothing about a run."""
    text = file.read_text()
    short = text.replace(str(Path.home()) + "/", "~/")
    if short != text:
        file.write_text(short)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the folder of a comparison")
    parser.add_argument("--free", action="store_true", help="remove weights and checkpoints of finished runs")
    options = parser.parse_args()
    folder = options.folder
    if not (folder / "plan.json").is_file():
        parser.error(f"{folder} has no plan.json, which every comparison has")
    runs = sorted(path.parent for path in folder.glob("*/*/config.toml"))
    finished = [run for run in runs if is_finished(run)]
    if options.free:
        heavy = [run / name for run in finished for name in HEAVY if (run / name).is_dir()]
        for path in heavy:
            shutil.rmtree(path)
        print(f"{len(finished)} of {len(runs)} runs are finished; {len(heavy)} folders removed")
        return
    files = [run / name for run in finished for name in OF_A_RUN] + [folder / name for name in OF_THE_COMPARISON]
    files = [file for file in files if file.is_file()]
    for file in files:
        without_home(file)
    files = [str(file) for file in files]
    subprocess.run(["git", "add", "--force", "--", *files], check=True)
    size = sum(Path(file).stat().st_size for file in files)
    print(f"{len(finished)} of {len(runs)} runs are finished; {len(files)} files, {size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
