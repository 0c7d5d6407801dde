#!/usr/bin/env python3
"""Labelled completions of programs, judged by `evenkeel verify code`: agreement by kind, wrong rewards apart.

    python3 bench/verdicts/code.py [FILE.jsonl ...] [--mode livecodebench] [--deterministic] [--all]

A row has `question` (`tests`: pairs of input and output; `func_name`), `input` (a completion), `expected` (`pass` or `fail`) and `kind`.
Without a file: data/code/reports.jsonl and reports-2.jsonl in the folder that EVENKEEL_OUTSIDE_DATA names (default: ../shared beside the
project), and crates/sandbox/tests/golden/completions.jsonl, variants of their kinds. EVENKEEL names the program; without it, it is built.
"""
import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import ROOT, build  # noqa: E402

DATA = Path(os.environ.get("EVENKEEL_OUTSIDE_DATA", ROOT.parent / "shared")) / "data/code"
REPORTS = [DATA / "reports.jsonl", DATA / "reports-2.jsonl"]
VARIANTS = ROOT / "crates/sandbox/tests/golden/completions.jsonl"


def row(labelled):
    """A labelled row as `evenkeel verify code` reads it."""
    question = labelled["question"]
    name = question.get("func_name")
    kind = "functional" if name else "stdin"
    tests = [{"input": given, "output": output, "testtype": kind} for given, output in question["tests"]]
    columns = {
        "question_id": labelled["id"],
        "public_test_cases": json.dumps(tests),
        "private_test_cases": "[]",
        "metadata": json.dumps({"func_name": name} if name else {}),
    }
    return {"question": columns, "completion": labelled["input"], "passed": labelled["expected"] == "pass"}


def judge(program, labelled, options):
    """The verdict rows, in the order of the labelled ones. A question without tests is refused, and rewards nothing."""
    judged = [one for one in labelled if one["question"]["tests"]]
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder) / "rows.jsonl", Path(folder) / "verdicts.jsonl"
        given.write_text("".join(json.dumps(row(one)) + "\n" for one in judged))
        command = [program, "verify", "code", "--input", given, "--output", found, *options]
        subprocess.run(command, check=True)
        verdicts = [json.loads(line) for line in found.open()]
    assert len(verdicts) == len(judged), "a verdict for every row"
    following = iter(verdicts)
    refused = {"passed": False, "outcome": "refused: no tests"}
    return [next(following) if one["question"]["tests"] else refused for one in labelled]


def report(name, labelled, verdicts, show_all):
    kinds = collections.defaultdict(lambda: [0, 0])
    differing = []
    for one, verdict in zip(labelled, verdicts):
        agrees = verdict["passed"] == (one["expected"] == "pass")
        kinds[one["kind"]][0] += agrees
        kinds[one["kind"]][1] += 1
        if not agrees:
            differing.append((one, verdict))
    wrong = [pair for pair in differing if pair[1]["passed"]]
    missed = [pair for pair in differing if not pair[1]["passed"]]
    print(f"{name}: {len(labelled) - len(differing)} of {len(labelled)} as expected, "
          f"{len(wrong)} wrongly rewarded, {len(missed)} missed")
    for kind, (agreed, total) in sorted(kinds.items()):
        if show_all or agreed < total:
            print(f"  {agreed:3} of {total:3}  {kind}")
    for title, pairs in (("wrongly rewarded", wrong), ("missed", missed)):
        for one, verdict in pairs:
            reason = verdict.get("reason", verdict["outcome"])
            print(f"  {title}: {one['id']} ({one['kind']}): {reason} {verdict.get('detail', '')}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--mode")
    parser.add_argument("--deterministic", action="store_true")
    parser.add_argument("--all", action="store_true", help="print kinds without a difference, too")
    arguments = parser.parse_args()
    options = (["--mode", arguments.mode] if arguments.mode else []) + ["--deterministic"] * arguments.deterministic
    program = os.environ.get("EVENKEEL") or build("evenkeel")
    for path in arguments.files or [*REPORTS, VARIANTS]:
        if not path.exists():
            print(f"left out: {path} does not exist")
            continue
        labelled = [json.loads(line) for line in path.open() if line.strip()]
        report(path.name, labelled, judge(program, labelled, options), arguments.all)


if __name__ == "__main__":
    main()
