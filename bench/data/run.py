#!/usr/bin/env python3
"""A data set of 1.79 million rows beside datasets and transformers, on two cores, in one run: python3 bench/data/run.py [--no-peer]

Makes the set from data/parquet/dapo-math.parquet (make.py) in the folder that EVENKEEL_OUTSIDE_DATA names (default: ../shared beside the
project): 17,398 prompts in verl's columns, each 103 times over. Then `evenkeel data check --json` and peer.py, which does the same with
datasets and transformers in an environment that is made here, take turns:

- rows: the whole set read, merged and checked, and its prompts rendered and encoded, from the start of the process to its end;
- prompts: the same with a file that has every prompt once, which is mostly rendering and encoding.

Both must agree on every token id. Limits: 30 s and 1 GiB for the rows, 5 s for the prompts. Exits with 1 where one does not hold.
"""

import argparse
import hashlib
import json
import os
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import ROOT, build  # noqa: E402

HERE = Path(__file__).resolve().parent
SHARED = Path(os.environ.get("EVENKEEL_OUTSIDE_DATA", ROOT.parent / "shared"))
SMALL = SHARED / "data/parquet/dapo-math.parquet"
MODEL = SHARED / "data/chat/qwen3"
PACKAGES = ["datasets", "transformers", "pyarrow", "jinja2"]
LIMITS = {"rows": (30.0, 1 << 30), "prompts": (5.0, 1 << 30)}
PROMPTS, ROWS = 17_398, 1_791_700


def environment(folder):
    """A Python with what the peer and the maker of the data need."""
    python = folder / "bin/python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
    return python


def measure(command, output):
    """Runs a command. Returns the seconds that it took, and the most memory that it had at once."""
    began = time.perf_counter()
    with open(output, "wb") as stdout:
        process = subprocess.Popen(command, stdout=stdout)
        _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    if status:
        sys.exit(f"{command} ended with status {status}")
    return seconds, usage.ru_maxrss * 1024


def ours(binary, file, folder):
    output = folder / "lines.jsonl"
    seconds, memory = measure([binary, "data", "check", "--model", MODEL, "--json", file], output)
    digest, prompts = hashlib.sha256(), 0
    for line in output.open():
        row = json.loads(line)
        if "summary" in row:
            (summary,) = row["summary"].values()
            break
        ids, prompts = row["token_ids"], prompts + 1
        digest.update(struct.pack(f"<{len(ids)}I", *ids))
    assert prompts == summary["prompts"], (prompts, summary)
    return {"seconds": seconds, "memory": memory, "digest": digest.hexdigest(), **summary}


def peer(python, file, folder):
    output = folder / "peer.json"
    seconds, memory = measure([python, HERE / "peer.py", MODEL, file], output)
    return {"seconds": seconds, "memory": memory, **json.loads(output.read_text())}


def shown(name, found):
    print(f"  {name:9} {found['seconds']:7.2f} s  {found['memory'] / 2**20:6.0f} MiB  {found['prompts']} prompts, {found['duplicates']} duplicates")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--no-peer", action="store_true", help="Evenkeel alone")
    parser.add_argument("--binary", help="an evenkeel that is built already")
    parser.add_argument("--environment", type=Path, default=ROOT / "target/bench-data", help="where the Python environment is kept")
    options = parser.parse_args()
    if not SMALL.exists():
        sys.exit(f"{SMALL} does not exist; EVENKEEL_OUTSIDE_DATA names the folder with data/parquet and data/chat")
    binary = options.binary or build("evenkeel")
    python = environment(options.environment)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        for name, rows in [("rows", ROWS), ("prompts", PROMPTS)]:
            file = folder / f"{name}.parquet"
            subprocess.run([python, HERE / "make.py", SMALL, file, "--rows", str(rows), "--prompts", str(PROMPTS)], check=True)
            print(f"{name}: {rows} rows, {file.stat().st_size / 1e6:.0f} MB")
            found = ours(binary, file, folder)
            shown("evenkeel", found)
            seconds, memory = LIMITS[name]
            if found["seconds"] > seconds or found["memory"] > memory:
                print(f"  over the limit of {seconds:.0f} s and {memory >> 20} MiB")
                failed = True
            if options.no_peer:
                continue
            other = peer(python, file, folder)
            shown("datasets", other)
            print(f"            of which {other['read_s']:.2f} s reading and merging, {other['render_s']:.2f} s rendering and encoding")
            print(f"  {other['seconds'] / found['seconds']:.1f} times as fast, {other['memory'] / found['memory']:.1f} times less memory")
            if found["digest"] != other["digest"]:
                print("  token ids differ")
                failed = True
    sys.exit(failed)


if __name__ == "__main__":
    main()
