"""Adds the finished runs of a comparison to git's index: settings, metrics and evaluations, and no weights, checkpoints or answers.

    python3 deploy/studies/keep.py FOLDER

`evenkeel compare` takes a run as finished by these files alone, so that a comparison goes on in another checkout where it was left.
Runs that are not finished are left out: nothing could resume them without their checkpoints.
"""

import json
import subprocess
import sys
from pathlib import Path

OF_A_RUN = ["config.toml", "run.json", "data.json", "inputs.json", "metrics.jsonl", "evaluation.jsonl", "warm_start.jsonl", "summary.json"]
OF_THE_COMPARISON = ["plan.json", "compare.md", "compare.json", "compare.html", "compare.csv"]


def is_finished(run):
    try:
        return json.loads((run / "summary.json").read_text())["state"] == "completed"
    except (OSError, ValueError, KeyError):
        return False


def main():
    if len(sys.argv) != 2 or not (Path(sys.argv[1]) / "plan.json").is_file():
        sys.exit("usage: keep.py FOLDER, the folder of a comparison")
    folder = Path(sys.argv[1])
    runs = sorted(path.parent for path in folder.glob("*/*/config.toml"))
    finished = [run for run in runs if is_finished(run)]
    files = [run / name for run in finished for name in OF_A_RUN] + [folder / name for name in OF_THE_COMPARISON]
    files = [str(file) for file in files if file.is_file()]
    subprocess.run(["git", "add", "--force", "--", *files], check=True)
    size = sum(Path(file).stat().st_size for file in files)
    print(f"{len(finished)} of {len(runs)} runs are finished; {len(files)} files, {size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
