#!/usr/bin/env python3
"""Peers' own public tests of verdicts, judged by `evenkeel verify math` and by Math-Verify, side by side.

    python3 bench/verdicts/peers.py [--list] [--no-peer] [--evenkeel PATH] FOLDER...

Each FOLDER is a checkout or an unpacked source distribution of a peer (Math-Verify, lighteval, NeMo-Skills, TRL, verl, rllm, SkyRL). Their
test files are parsed and never run: labelled rows (gold answer, answer, expected verdict) are the literals of parametrised tests, of calls
with a gold answer and an answer that are asserted, and of lists of completions and solutions with asserted rewards. Nothing of them is kept.
For each file it prints the rows, how many verdicts are as expected, how many answers are rewarded wrongly and how many are refused wrongly,
for both verifiers. --list prints every row that Evenkeel does not judge as expected. MATH_VERIFY_PYTHON is a Python with math-verify; without
it, or with --no-peer, Evenkeel is judged alone. --evenkeel names a program, in place of building it.
"""
import argparse
import ast
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

PEER = ROOT / "bench/math/peer.py"
# Names of the columns of parametrised tests, and of variables.
GOLD = {"gold", "ground_truth", "ground_truths", "reference", "solution", "solutions", "target", "label", "gt"}
ANSWER = {"pred", "prediction", "output", "completion", "completions", "model_response", "response", "answer", "solution_str"}
EXPECTED = {"expected", "result", "is_correct", "expected_result", "expected_reward", "score"}
# Functions that compare a gold answer with an answer, in this order or in the other.
COMPARES = {"math_equal": "pair", "compare_strings": "gold first", "verify": "gold first", "grade_answer_sympy": "answer first",
            "grade_answer_mathd": "answer first", "is_equiv": "pair"}


def literal(node):
    """The value of a literal; None for anything else. Division of numbers is understood, as in `5 / 2`."""
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        pass
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        above, below = literal(node.left), literal(node.right)
        if isinstance(above, (int, float)) and isinstance(below, (int, float)) and below:
            return above / below
    if isinstance(node, (ast.Tuple, ast.List)):
        return [literal(item) for item in node.elts]
    return None


def cells(node):
    """The cells of a row of a parametrised test, with those that are no literals as None."""
    if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "param":
        return [literal(argument) for argument in node.args]
    if isinstance(node, (ast.Tuple, ast.List)):
        return [literal(item) for item in node.elts]
    return [literal(node)]


def verdict(value):
    """Whether an expectation is a reward; None where it is neither."""
    if isinstance(value, bool):
        return value
    if isinstance(value, (int, float)):
        return value > 0
    return None


def text(value):
    """An answer as text; None where it is none."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, (int, float, str)):
        return str(value)
    if isinstance(value, list) and len(value) == 1:
        return text(value[0])
    if isinstance(value, dict):
        return text(value.get("content"))
    return None


def asserted(function):
    """What a test asserts of its result: True, False, or None where it is neither or both."""
    found = set()
    for node in ast.walk(function):
        if not isinstance(node, ast.Assert):
            continue
        test = node.test
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            found.add(False)
        elif isinstance(test, ast.Compare) and isinstance(test.ops[0], (ast.Is, ast.Eq)):
            found.add(verdict(literal(test.comparators[0])))
        elif isinstance(test, (ast.Name, ast.Call, ast.Attribute)):
            found.add(True)
    return found.pop() if len(found) == 1 else None


def parametrised(function):
    """Rows of `@pytest.mark.parametrize(names, rows)`."""
    for decorator in function.decorator_list:
        if not isinstance(decorator, ast.Call) or getattr(decorator.func, "attr", "") != "parametrize" or len(decorator.args) < 2:
            continue
        names = literal(decorator.args[0])
        names = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names or [])
        rows = decorator.args[1]
        if not isinstance(rows, (ast.List, ast.Tuple)):
            continue
        places = {kind: next((at for at, name in enumerate(names) if name in known), None)
                  for kind, known in (("gold", GOLD), ("answer", ANSWER), ("expected", EXPECTED))}
        body = {getattr(call.func, "id", getattr(call.func, "attr", "")) for call in ast.walk(function) if isinstance(call, ast.Call)}
        for node in rows.elts:
            row = cells(node)
            if places["gold"] is not None and places["answer"] is not None and len(row) == len(names):
                expected = verdict(row[places["expected"]]) if places["expected"] is not None else asserted(function)
                yield row[places["gold"]], row[places["answer"]], expected
            elif len(names) == 1 and len(row) in (2, 3) and body & set(COMPARES):
                # A column of pairs.
                yield row[0], row[1], verdict(row[2]) if len(row) == 3 else asserted(function)


def calls(function):
    """Rows of calls that are asserted: `assert math_equal("1/2", "0.5")`."""
    for node in ast.walk(function):
        if not isinstance(node, ast.Assert):
            continue
        test, expected = node.test, True
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            test, expected = test.operand, False
        if isinstance(test, ast.Compare) and len(test.comparators) == 1:
            expected = verdict(literal(test.comparators[0]))
            test = test.left
        if not isinstance(test, ast.Call):
            continue
        order = COMPARES.get(getattr(test.func, "id", getattr(test.func, "attr", "")))
        values = [literal(argument) for argument in test.args[:2]]
        if order and len(values) == 2:
            gold, answer = values if order != "answer first" else reversed(values)
            yield gold, answer, expected


def rewarded(function):
    """Rows of a test with a completion, or several, a gold answer for each, and asserted rewards."""
    values = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            values.setdefault(node.targets[0].id, literal(node.value))
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
            for key, value in zip(node.value.keys, node.value.values):
                if key is not None and literal(key) in GOLD:
                    values.setdefault(literal(key), literal(value))
    answers = next((values[name] for name in values if name in ANSWER and values[name]), None)
    golds = next((values[name] for name in values if name in GOLD and values[name]), None)
    if answers is None or golds is None:
        return
    if isinstance(answers, str):
        yield golds, answers, asserted(function)
        return
    rewards = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assert) and isinstance(node.test, ast.Compare) and isinstance(node.test.left, ast.Subscript):
            at, reward = literal(node.test.left.slice), literal(node.test.comparators[0])
            if isinstance(at, int):
                rewards[at] = verdict(reward)
    if isinstance(golds, list) and isinstance(answers, list):
        for at, (gold, answer) in enumerate(zip(golds, answers)):
            yield gold, answer, rewards.get(at)


def is_completion(answer):
    """Whether an answer is a whole output: it has a marker, or prose outside of formulas."""
    if re.search(r"boxed|####|</?think>|answer", answer, re.I):
        return True
    prose = re.sub(r"\$[^$]*\$|\\\(.*?\\\)|\\\[.*?\\\]|\\[a-zA-Z]+\s*(\{[^{}]*\})?", " ", answer, flags=re.S)
    return len(re.findall(r"[A-Za-z]{2,}", prose)) > 2 or len(re.findall(r"[\u4e00-\u9fff]", prose)) > 4


def rows_of(file):
    """The labelled rows of a test file."""
    try:
        tree = ast.parse(file.read_text())
    except (SyntaxError, UnicodeDecodeError, ValueError):
        return
    seen = set()
    for function in (node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))):
        for source in (parametrised, calls, rewarded):
            for gold, answer, expected in source(function):
                answer = text(answer)
                golds = [one for one in map(text, gold if isinstance(gold, list) else [gold]) if one]
                row = (tuple(golds), answer, expected)
                if golds and answer and expected is not None and row not in seen:
                    seen.add(row)
                    yield {"gold": golds, "answer": answer, "expected": expected, "completion": is_completion(answer)}


def evenkeel(program, rows):
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        for row in rows:
            # Peers find an answer without a marker as well; a number at the end of a solution may be a gold answer.
            answer = {"completion" if row["completion"] else "prediction": row["answer"]}
            profile = "unmarked" if row["completion"] else "default"
            file.write(json.dumps({"gold": row["gold"], "profile": profile, **answer}) + "\n")
        file.flush()
        command = [*program, "verify", "math", "--input", file.name]
        out = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return [json.loads(line) for line in out.stdout.splitlines()]


def math_verify(python, rows):
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        for row in rows:
            for gold in row["gold"]:
                # Formulas of both sides are delimited already, or get their dollars from the script.
                bare = gold.strip().strip("$")
                answer = row["answer"] if row["completion"] or "$" in row["answer"] else f"${row['answer']}$"
                file.write(json.dumps({"set": "a", "kind": "b", "gold": bare, "answer": answer, "completion": True}) + "\n")
        file.flush()
        out = subprocess.run([*python, str(PEER), file.name, "0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    verdicts = iter([json.loads(line).get("outcome") == "equal" for line in out.stdout.splitlines()])
    return [any([next(verdicts) for _ in row["gold"]]) for row in rows]


def counts(rows, verdicts):
    """As expected, rewarded wrongly, refused wrongly."""
    pairs = [(row["expected"], equal) for row, equal in zip(rows, verdicts, strict=True)]
    return [sum(a == b for a, b in pairs), sum(b and not a for a, b in pairs), sum(a and not b for a, b in pairs)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--evenkeel", metavar="PATH")
    arguments = parser.parse_args()
    python = shlex.split(os.environ.get("MATH_VERIFY_PYTHON", ""))
    program = shlex.split(arguments.evenkeel) if arguments.evenkeel else [build("evenkeel")]
    peer = bool(python) and not arguments.no_peer
    print("rows, as expected, rewarded wrongly, refused wrongly" + (" | Math-Verify: the same" if peer else ""))
    totals = [[0, 0, 0], [0, 0, 0]]
    count = 0
    for folder in arguments.folders:
        files = sorted(path for path in folder.rglob("*.py") if "test" in path.name)
        for file in files:
            rows = list(rows_of(file))
            if not rows:
                continue
            verdicts = evenkeel(program, rows)
            equal = [verdict["outcome"] == "equal" for verdict in verdicts]
            found = [counts(rows, equal), *([counts(rows, math_verify(python, rows))] if peer else [])]
            count += len(rows)
            for sums, one in zip(totals, found):
                sums[:] = map(sum, zip(sums, one))
            name = f"{folder.name} {file.relative_to(folder)}"
            print(f"{name:70} {len(rows):4} " + " | ".join("{:4} {:4} {:4}".format(*one) for one in found))
            for row, ours, got in zip(rows, verdicts, equal, strict=True):
                if arguments.list and got != row["expected"]:
                    kind = "rewarded wrongly" if got else "refused wrongly"
                    print(f"    {kind}: {row['gold']} | {row['answer'][-160:]!r} | {ours['reason']}")
    print(f"{'all':70} {count:4} " + " | ".join("{:4} {:4} {:4}".format(*one) for one in totals[: 2 if peer else 1]))


if __name__ == "__main__":
    main()
