#!/usr/bin/env python3
"""Answers judged beside Math-Verify, on this machine, in one run.

    python3 bench/math/run.py [--no-peer]

Both sides judge the same pairs, one core each, one after the other: gold answers of MATH-500 against themselves, against simple variants
and against their neighbours, and the labelled pairs. Evenkeel alone also judges the other benchmarks and the generations. The data is read from
data/math in the folder that EVENKEEL_OUTSIDE_DATA names (default: ../shared beside the project); missing files are left out. MATH_VERIFY_PYTHON is a Python with
math-verify (default: python3).
"""
import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import ROOT, build  # noqa: E402

HERE = Path(__file__).resolve().parent
DATA = Path(os.environ.get("EVENKEEL_OUTSIDE_DATA", ROOT.parent / "shared")) / "data/math"
PYTHON = shlex.split(os.environ.get("MATH_VERIFY_PYTHON", "python3"))
SECONDS = os.environ.get("SECONDS_PER_GROUP", "2")
GOLDS = {
    "math500": lambda row: row["answer"],
    "aime24": lambda row: row["reward_model"]["ground_truth"],
    "aime25": lambda row: row["reward_model"]["ground_truth"],
    "amc23": lambda row: row["answer"],
    "gsm8k": lambda row: row["answer"].rsplit("#### ", 1)[1],
    "olympiadbench": lambda row: row["final_answer"],
    "minerva": lambda row: row["reward_model"]["ground_truth"],
}


def rows(name):
    path = DATA / f"{name}.jsonl"
    if not path.exists():
        print(f"left out: {path} does not exist")
        return []
    return [json.loads(line) for line in path.open() if line.strip()]


def golds(name):
    for row in rows(name):
        gold = GOLDS[name](row)
        yield str(gold[0] if isinstance(gold, list) else gold).strip()


def variants(gold):
    """Other spellings of an integer or a fraction of two, and numbers beside it."""
    if re.fullmatch(r"-?\d+", gold):
        n = int(gold)
        return [f"{n}.0", f"x={n}", f"\\frac{{{2 * n}}}{{2}}"], [str(n + 1)]
    fraction = re.fullmatch(r"\\d?frac\{(-?\d+)\}\{(\d+)\}", gold)
    if fraction:
        a, b = map(int, fraction.groups())
        return [f"\\dfrac{{{a}}}{{{b}}}", f"{a}/{b}", f"\\frac{{{3 * a}}}{{{3 * b}}}"], [f"\\frac{{{a + 1}}}{{{b}}}"]
    return [], []


def benchmark_pairs():
    for name in GOLDS:
        known = list(golds(name))
        for gold, neighbour in zip(known, known[1:] + known[:1]):
            plain = bool(re.fullmatch(r"[-\d.,]+", gold) or variants(gold)[0])
            kind = "plain" if plain else "symbolic"
            yield {"set": name, "kind": kind, "gold": gold, "answer": gold, "expected": True}
            same, other = variants(gold)
            for answer in same:
                yield {"set": name, "kind": kind, "gold": gold, "answer": answer, "expected": True}
            for answer in other:
                yield {"set": name, "kind": kind, "gold": gold, "answer": answer, "expected": False}
            if gold != neighbour:
                yield {"set": name, "kind": kind, "gold": gold, "answer": neighbour, "expected": None}


def labelled_pairs():
    for row in rows("triples"):
        completion = row["form"] == "completion"
        marked = any(mark in row["pred"] for mark in ("boxed", "\\fbox", "####"))
        yield {
            "set": "triples", "kind": "policy" if row["basis"] == "policy" else "forced", "gold": row["gold"], "answer": row["pred"],
            "completion": completion, "profile": "unmarked" if completion and not marked else "default", "expected": row["expected"],
            "id": row["id"],
        }
    for row in rows("generations"):
        verdicts = [row[f"{grader}_verdict"] for grader in ("qwen", "mathverify", "opencompass")]
        agree = len(set(verdicts)) == 1
        # Where one of the graders differs, it is the one that takes no `10{,}000`.
        yield {"set": "generations", "kind": "agreed" if agree else "disputed", "gold": row["gold"], "answer": row["pred"],
               "expected": verdicts[0] if agree else True}


def judge(command, pairs):
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        for pair in pairs:
            file.write(json.dumps({k: v for k, v in pair.items() if k not in ("expected", "id")}) + "\n")
        file.flush()
        out = subprocess.run([*command, file.name, SECONDS], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    *verdicts, report = map(json.loads, out.stdout.splitlines())
    return verdicts, report


def count(pairs, verdicts):
    """Rows as expected, wrongly rewarded and wrongly refused, of each group."""
    groups = {}
    for pair, verdict in zip(pairs, verdicts):
        group = groups.setdefault(f"{pair['set']} {pair['kind']}", {"rows": 0, "right": 0, "rewarded": [], "refused": [], "undecided": 0})
        if pair["expected"] is None:
            continue
        equal = verdict["outcome"] == "equal"
        group["rows"] += 1
        group["right"] += equal == pair["expected"]
        group["undecided"] += verdict["outcome"] == "undecided"
        if equal != pair["expected"]:
            group["rewarded" if equal else "refused"].append(pair.get("id", f"{pair['gold']} | {pair['answer']}"))
    return groups


def show(title, ours, peer):
    print(f"\n{title}\n\n| group | checks | Evenkeel /s | median µs | p99 µs | slowest µs | Math-Verify /s | ratio |\n|---|---|---|---|---|---|---|---|")
    for name, group in ours.items():
        other = peer.get(name)
        rate = f"{other['per_second']:.0f} | {group['per_second'] / other['per_second']:.0f}" if other else "- | -"
        print(f"| {name} | {group['checks']} | {group['per_second']:.0f} | {group['median_us']:.1f} | {group['p99_us']:.1f} "
              f"| {group['slowest_us']:.1f} | {rate} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-peer", action="store_true", help="measure Evenkeel alone")
    with_peer = not parser.parse_args().no_peer
    binary = build("evenkeel-bench")
    benchmarks, labelled = list(benchmark_pairs()), list(labelled_pairs())
    compared = [pair for pair in benchmarks if pair["set"] == "math500"]
    verdicts, ours = judge([binary, "math"], benchmarks + labelled)
    peer_verdicts, peer = judge([*PYTHON, HERE / "peer.py"], compared + [row for row in labelled if row["set"] == "triples"]) if with_peer else ([], {})
    show("Speed, one core each", ours, peer)
    every = [(pair, verdict) for pair, verdict in zip(benchmarks + labelled, verdicts)]
    print("\nAgreement\n\n| group | rows | as expected | wrongly rewarded | wrongly refused | undecided |\n|---|---|---|---|---|---|")
    lists = []
    for name, group in count(*zip(*every)).items():
        print(f"| {name} | {group['rows']} | {group['right']} | {len(group['rewarded'])} | {len(group['refused'])} | {group['undecided']} |")
        if group["rewarded"] or group["refused"]:
            lists.append(f"{name}: wrongly rewarded {group['rewarded']}, wrongly refused {group['refused']}")
    print("\n" + "\n".join(lists))
    if with_peer:
        print("\nMath-Verify on the same pairs\n\n| group | rows | as expected | wrongly rewarded | wrongly refused |\n|---|---|---|---|---|")
        pairs = compared + [row for row in labelled if row["set"] == "triples"]
        for name, group in count(pairs, peer_verdicts).items():
            print(f"| {name} | {group['rows']} | {group['right']} | {len(group['rewarded'])} | {len(group['refused'])} |")


if __name__ == "__main__":
    main()
