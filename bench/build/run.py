#!/usr/bin/env python3
"""What the build of `cargo run --release` costs from nothing, beside an earlier commit: CPU minutes, minutes, megabytes of the program.

    python3 bench/build/run.py [--before COMMIT]

Both trees are built one after the other into temporary folders, with the crates that cargo has downloaded. The default to compare with is the
tree before the crates were divided as docs/architecture.md says. Features came in between: the last lines name the crates that the earlier tree
did not compile, and the minutes that they take. Needs ten quiet minutes a tree and 10 GB of disk. It has no limit; `.ci/run` does.
"""

import argparse
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BEFORE = "1232a98~1"


def children_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def units(target):
    """Seconds for each crate and version, from cargo's own report of its timings."""
    report = max((target / "cargo-timings").glob("cargo-timing-*.html"), key=lambda path: path.stat().st_mtime)
    data = json.loads(re.search(r"const UNIT_DATA = (\[.*?\]);", report.read_text(), re.S)[1])
    seconds = {}
    for unit in data:
        seconds[unit["name"]] = seconds.get(unit["name"], 0.0) + unit["duration"]
    return seconds


def build(commit, folder):
    tree, target = folder / "tree", folder / "target"
    subprocess.run(["git", "-C", ROOT, "worktree", "add", "--quiet", "--detach", tree, commit], check=True)
    try:
        environment = {**os.environ, "CARGO_TARGET_DIR": str(target)}
        environment.pop("RUSTFLAGS", None)
        subprocess.run(["cargo", "fetch", "--locked", "--quiet"], cwd=tree, env=environment, check=True)
        cpu, began = children_seconds(), time.monotonic()
        subprocess.run(["cargo", "build", "--release", "--locked", "--quiet", "--timings", "--bin", "evenkeel"], cwd=tree, env=environment, check=True)
        cpu, wall = children_seconds() - cpu, time.monotonic() - began
        program = target / "release" / "evenkeel"
        stripped = folder / "stripped"
        subprocess.run(["strip", "-o", stripped, program], check=True)
        sizes = program.stat().st_size / 1e6, stripped.stat().st_size / 1e6
        return (cpu / 60, wall / 60, *sizes), units(target)
    finally:
        subprocess.run(["git", "-C", ROOT, "worktree", "remove", "--force", tree], check=True)
        shutil.rmtree(folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", default=BEFORE, help="the commit to compare with (default: %(default)s)")
    options = parser.parse_args()
    costs, crates = {}, {}
    for name, commit in [("before", options.before), ("now", "HEAD")]:
        costs[name], crates[name] = build(commit, Path(tempfile.mkdtemp(prefix=f"build-{name}-")))
        cpu, wall, size, stripped = costs[name]
        print(f"{name:<7} {cpu:5.1f} CPU minutes {wall:5.1f} minutes {size:6.1f} MB {stripped:6.1f} MB stripped", flush=True)
    print("ratio   " + " ".join(f"{now / before:.2f}" for now, before in zip(costs["now"], costs["before"])))
    later = {name: seconds for name, seconds in crates["now"].items() if name not in crates["before"]}
    foreign = {name: seconds for name, seconds in later.items() if not name.startswith("evenkeel")}
    largest = sorted(foreign.items(), key=lambda entry: -entry[1])[:12]
    print(f"dependencies that were not compiled before: {sum(foreign.values()) / 60:.1f} minutes of one core, most of all")
    print("  " + ", ".join(f"{name} {seconds:.0f} s" for name, seconds in largest))
    return 0


if __name__ == "__main__":
    sys.exit(main())
