#!/usr/bin/env python3
"""Verdicts on answers as people write them, beside Math-Verify's, by kind.

    python3 bench/verdicts/run.py [--no-peer] [--list] [--kind TEXT] [FILE...]

Judges data/math/reports.jsonl and reports-2.jsonl (cases made after public reports about verifiers, and around kinds that failed) and
data/math/triples.jsonl (labelled pairs) in the folder that EVENKEEL_OUTSIDE_DATA names (default: ../shared beside the project), or the
FILEs that are given, and prints for each kind how many
verdicts are as expected, how many answers are rewarded wrongly and how many are refused wrongly. Rows are JSON objects with `gold`, `input`
or `pred`, `expected` (true or "equal"), and optionally `form`, `profile`, `prompt`, `kind`, `id`. MATH_VERIFY_PYTHON is a Python with
math-verify; without it, or with --no-peer, Evenkeel is judged alone. EVENKEEL names a program, in place of building it. --list prints
every row that is not as expected.
"""
import argparse
import collections
import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import ROOT, build  # noqa: E402

DATA = Path(os.environ.get("EVENKEEL_OUTSIDE_DATA", ROOT.parent / "shared")) / "data/math"
SETS = ["reports.jsonl", "reports-2.jsonl", "triples.jsonl"]
PEER = ROOT / "bench/math/peer.py"


def rows(path):
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip():
            continue
        row = json.loads(line)
        answer = row["input"] if "input" in row else row["pred"]
        completion = row.get("form") == "completion"
        marked = any(mark in answer for mark in ("boxed", "\\fbox", "####"))
        # The labelled pairs expect an answer without a marker to be found; the reports name their profile.
        profile = row.get("profile") or ("unmarked" if completion and not marked else "default")
        yield {
            "set": path.stem, "kind": row.get("kind") or row.get("basis") or "all", "gold": row["gold"], "answer": answer,
            "completion": completion, "profile": profile, "prompt": row.get("prompt"),
            "expected": row["expected"] in (True, "equal"), "id": row.get("id", f"line {number}"),
        }


def judge(program, pairs):
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        for pair in pairs:
            answer = {"completion" if pair["completion"] else "prediction": pair["answer"]}
            prompt = {"prompt": pair["prompt"]} if pair["prompt"] else {}
            file.write(json.dumps({"gold": pair["gold"], "profile": pair["profile"], **prompt, **answer}) + "\n")
        file.flush()
        command = [program, "verify", "math", "--input", file.name]
        out = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return [json.loads(line) for line in out.stdout.splitlines()]


def judge_by_peer(command, pairs):
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        for pair in pairs:
            file.write(json.dumps({key: value for key, value in pair.items() if key not in ("expected", "id")}) + "\n")
        file.flush()
        out = subprocess.run([*command, file.name, "0"], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return [json.loads(line) for line in out.stdout.splitlines()][: len(pairs)]


def count(pairs, verdicts):
    """By kind: rows, as expected, rewarded wrongly, refused wrongly."""
    kinds = collections.defaultdict(lambda: [0, 0, 0, 0])
    for pair, verdict in zip(pairs, verdicts, strict=True):
        equal = verdict["outcome"] == "equal"
        found = kinds[pair["kind"]]
        found[0] += 1
        found[1 if equal == pair["expected"] else 2 if equal else 3] += 1
    return kinds


def table(name, pairs, ours, peers):
    mine, theirs = count(pairs, ours), count(pairs, peers) if peers else {}
    width = max(map(len, mine))
    print(f"\n{name}: rows, as expected, rewarded wrongly, refused wrongly" + (" | Math-Verify: the same" if peers else ""))
    total = [[0] * 4, [0] * 4]
    for kind in sorted(mine):
        cells = [mine[kind], *([theirs[kind]] if peers else [])]
        for sums, cell in zip(total, cells):
            sums[:] = map(sum, zip(sums, cell))
        print(f"{kind:{width}}  " + " | ".join("{:4} {:4} {:4} {:4}".format(*cell) for cell in cells))
    print(f"{'all':{width}}  " + " | ".join("{:4} {:4} {:4} {:4}".format(*cell) for cell in total[: 2 if peers else 1]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-peer", action="store_true", help="judge with Evenkeel alone")
    parser.add_argument("--list", action="store_true", help="print every row that is not as expected")
    parser.add_argument("--kind", help="only kinds that contain this text")
    parser.add_argument("files", nargs="*", type=Path, help="JSON lines instead of the three files")
    options = parser.parse_args()
    peer = None if options.no_peer else os.environ.get("MATH_VERIFY_PYTHON")
    program = os.environ.get("EVENKEEL") or build("evenkeel")
    wrong = 0
    for path in options.files or [DATA / name for name in SETS]:
        if not path.exists():
            print(f"left out: {path} does not exist")
            continue
        pairs = [row for row in rows(path) if not options.kind or options.kind in row["kind"]]
        if not pairs:
            continue
        ours = judge(program, pairs)
        table(path.stem, pairs, ours, judge_by_peer([*shlex.split(peer), PEER], pairs) if peer else None)
        differing = [(pair, v) for pair, v in zip(pairs, ours) if (v["outcome"] == "equal") != pair["expected"]]
        rewarded = [pair["id"] for pair, _ in differing if not pair["expected"]]
        print(f"rewarded wrongly: {', '.join(rewarded) or 'none'}")
        wrong += len(rewarded)
        if options.list:
            for pair, verdict in differing:
                want = "equal" if pair["expected"] else "not equal"
                print(f"{pair['id']} [{pair['kind']}, {pair['profile']}] {want} expected, {verdict['reason']}: gold {pair['gold']!r}, "
                      f"answer {pair['answer']!r}, read {verdict['extracted']!r} as {verdict['canonical']!r}")
    return wrong


if __name__ == "__main__":
    main()
