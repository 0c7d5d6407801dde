#!/usr/bin/env python3
"""What the length exponent of `sides` does to a gradient: python3 bench/sides/run.py [--model FOLDER] [--groups 64] [--out FOLDER]

Trains `arithmetic` for a few steps, then samples 64 groups for each of 8 prompts with these weights: a run whose learning rate is 0. With `--model`
the model is a chat model in FOLDER, such as SmolLM2-135M-Instruct. Its 8 prompts are problems of the recipe smollm2, which also gives the suffix,
the temperature and the reward. `evenkeel-bench sides` computes the gradient of each group under `sides` with five exponents and under `sequence-sum`.
Printed is the table of docs/sides.md: the trace of the gradient's covariance over the squared norm of its mean, the same relative to exponent 1, and
the cosine of the mean to that under `sequence-sum`, with jackknife intervals of 95 %. Takes minutes on two cores.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import build  # noqa: E402

SUMS = [(12, 34), (27, 58), (90, 15), (48, 48), (73, 19), (66, 87), (31, 60), (85, 42)]
# As the recipe smollm2 asks them, at least one of each kind.
PROBLEMS = [
    ("What is 12 + 7?", 19),
    ("What is 14 - 5?", 9),
    ("What is 6 * 8?", 48),
    ("Anna has 12 shells and gets 7 more. How many shells does Anna have now?", 19),
    ("David has 9 eggs and gets 13 more. How many eggs does David have now?", 22),
    ("Ben has 15 coins and gives away 6. How many coins are left?", 9),
    ("Clara has 4 boxes with 9 books each. How many books are there in all?", 36),
    ("Which is the largest of the numbers 51, 87 and 34?", 87),
]


def call(*command):
    """Runs a command, whose output is shown only if it fails."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} ended with status {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return done.stdout


def settings(values):
    return [word for key, value in values.items() for word in ("--set", f"{key}={value}")]


def trained(binary, steps, folder):
    """A model in the middle of `arithmetic`: some answers are right, and lengths differ."""
    values = {"run.steps": steps, "evaluation.problems": 0, "page.listen": "off"}
    call(binary, "train", "arithmetic", "--out", folder / "trained", *settings(values))
    call(binary, "export", folder / "trained", "--to", folder / "model")
    return folder / "model"


def sampled(binary, model, is_chat, groups, size, folder):
    """A run that samples `groups` groups of every prompt and changes no weight."""
    problems = PROBLEMS if is_chat else [(f"{a}+{b}=\n", a + b) for a, b in SUMS]
    rows = [{"prompt": prompt, "answer": str(answer)} for prompt, answer in problems]
    (folder / "problems.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    recipe = f"""{'base = "smollm2"' if is_chat else ""}
[run]
steps = {groups}
rollouts = "all"
rollout_tokens = true
[model]
path = {json.dumps(str(model.resolve()))}
[data]
kind = "files"
files = [{json.dumps(str(folder / "problems.jsonl"))}]
[sampling]
prompts_per_step = {len(problems)}
group_size = {size}
{"" if is_chat else "max_tokens = 80"}
[learner.optimizer]
learning_rate = 0.0
warmup_updates = 0
[evaluation]
problems = 0
[checkpoint]
every = {groups}
[page]
listen = "off"
"""
    (folder / "sample.toml").write_text(recipe)
    call(binary, "train", folder / "sample.toml", "--out", folder / "sampled")
    return folder / "sampled"


def table(measured):
    def shown(estimate, digits):
        if estimate["value"] is None:
            return "–"
        margin = "" if estimate["margin"] is None else f" ± {estimate['margin']:.{digits}f}"
        return f"{estimate['value']:.{digits}f}{margin}"

    lines = ["| `length_exponent` | noise | relative to 1 | cosine to `sequence-sum` |", "|---|---|---|---|"]
    for row in measured["exponents"]:
        noise, relative, cosine = (shown(row[name], digits) for name, digits in (("noise", 1), ("noise_to_balanced", 3), ("cosine", 4)))
        lines.append(f"| {row['length_exponent']:g} | {noise} | {relative} | {cosine} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="a folder with a chat model, instead of training one")
    parser.add_argument("--binaries", type=Path, help="folder with evenkeel and evenkeel-bench, instead of a build")
    parser.add_argument("--steps", type=int, default=12, help="steps of the training")
    parser.add_argument("--groups", type=int, default=64, help="groups for each prompt")
    parser.add_argument("--size", type=int, default=16, help="samples in a group")
    parser.add_argument("--out", type=Path, help="keep the runs here")
    arguments = parser.parse_args()
    if arguments.binaries:
        binary, bench = (arguments.binaries / name for name in ("evenkeel", "evenkeel-bench"))
    else:
        binary, bench = build("evenkeel", "evenkeel-bench")
    with tempfile.TemporaryDirectory() as temporary:
        folder = (arguments.out or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        model = arguments.model or trained(binary, arguments.steps, folder)
        run = sampled(binary, model, arguments.model is not None, arguments.groups, arguments.size, folder)
        temperature = tomllib.loads((run / "config.toml").read_text())["sampling"]["temperature"]
        measured = json.loads(call(bench, "sides", run, model, temperature))
    counts = (measured[name] for name in ("prompts", "groups_per_prompt", "samples_per_group", "groups_with_signal"))
    print("{} prompts, {} groups each, {} samples in a group; {} groups have a signal\n".format(*counts))
    print(table(measured))


if __name__ == "__main__":
    main()
