#!/usr/bin/env python3
"""Steps of a pretrained model beside TRL and beside sgemm, on this machine, in one run with two threads.

    python3 bench/real_model/run.py MODEL TRL_PYTHON [--steps N] [--repetitions N] [--binary PATH]

MODEL is the folder of SmolLM2-135M-Instruct (or of another dense model with a chat template), TRL_PYTHON a Python with trl, torch and datasets. Both
train on the same sums in words, made here: 16 prompts × 8 samples of at most 60 tokens, f32, by turns. The rate of sgemm is measured before and after;
the share of it that generation and the update reach counts the products of the model's linear layers alone, of prompts once for each group.

The parts of a step follow each other, but for the audit: its scores are computed within generation or the update, and it waits beside them. The program
is the one that `cargo run --release` builds, unless a path is given.
"""
import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import build_default  # noqa: E402

HERE = Path(__file__).resolve().parent

# Parts of a step by their metrics. Where every token is compared to the bit there is no proof.
PARTS = {
    "generation": "timing_s/gen",
    "update": "timing_s/update_actor",
    "proof": "timing_s/proof",
    "hand-over": "timing_s/update_weights",
    "audit, computing": "timing_s/sampler_audit_compute",
    "audit, waiting": "timing_s/sampler_audit_wait",
}


def rows(count=64):
    """Sums in words, of which such a model gets some right."""
    numbers = random.Random(0)
    for _ in range(count):
        a, b = numbers.randint(2, 9), numbers.randint(2, 9)
        yield {"question": f"Tom has {a} apples and buys {b} more. How many apples does he have now?", "answer": f"#### {a + b}"}


def lines(command):
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    return [json.loads(line) for line in out.splitlines() if line.startswith('{"')]


def products(model):
    """Flop of one token: in the layers, and in the head."""
    shape = json.loads((Path(model) / "config.json").read_text())
    hidden, inner = shape["hidden_size"], shape["intermediate_size"]
    dim = shape.get("head_dim") or hidden // shape["num_attention_heads"]
    heads = (2 * shape["num_attention_heads"] + 2 * shape["num_key_value_heads"]) * dim
    return 2 * shape["num_hidden_layers"] * hidden * (heads + 3 * inner), 2 * hidden * shape["vocab_size"]


def train(program, model, data, steps, out):
    """The lines of metrics of a run."""
    settings = {
        "model.path": model, "data.files": json.dumps([str(data)]), "data.math_profile": "unmarked", "data.prompt_field": "question",
        "data.answer_field": "answer", "sampling.prompts_per_step": 16, "sampling.group_size": 8, "sampling.max_tokens": 60,
        "sampling.dynamic": "false", "sampling.max_prompts_per_step": 0, "shaping.overlong_buffer_tokens": 0, "learner.mini_batch_groups": 0,
        "learner.optimizer.learning_rate": 1e-5, "evaluation.before": "false", "evaluation.after": "false", "evaluation.problems": 0, "run.steps": steps,
    }  # fmt: skip
    command = [program, "train", "--recipe", "dapo", "--out", str(out)]
    command += [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def flop(step, model):
    """Products of the generation and of the update of a step."""
    layers, head = products(model)
    responses, groups = 128 * step["response_length/mean"], 16 - step["actor/groups_without_signal"]
    # Groups without a signal are not computed.
    prompts, trained = step["prompt_length/mean"], step["actor/trainable_tokens"] * groups / 16
    # Generation: each prompt once, each sampled token but the last of a response fed, all of them through the head.
    sampled = layers * (16 * prompts + responses - 128) + head * responses
    return sampled, 3 * (layers * (groups * prompts + trained) + head * trained)


def spread(values, digits=1):
    """Median and range."""
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("python")
    parser.add_argument("--steps", type=int, default=5, help="of each side and repetition")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--binary", help="an evenkeel, instead of a build")
    options = parser.parse_args()
    program = options.binary or build_default()
    sgemm = [lines([options.python, HERE / "peer.py", "--sgemm"])[0]["flops"]]
    ours, peer = [], []
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "rows.jsonl"
        data.write_text("".join(json.dumps(row) + "\n" for row in rows()))
        for number in range(options.repetitions):
            ours.append(train(program, options.model, data, options.steps, Path(folder) / f"run-{number}"))
            peer.append(lines([options.python, HERE / "peer.py", options.model, str(data), str(options.steps)]))
    sgemm.append(lines([options.python, HERE / "peer.py", "--sgemm"])[0]["flops"])
    rate = sum(sgemm) / 2

    print(f"sgemm, two threads: {sgemm[0] / 1e9:.0f} and {sgemm[1] / 1e9:.0f} GFLOP/s, before and after\n")
    print("| | s a step | groups with a signal | tokens a response |\n|---|---|---|---|")
    for number in range(options.repetitions):
        for step in ours[number]:
            groups = 16 - step["actor/groups_without_signal"]
            print(f"| Evenkeel, step {step['step']} | {step['timing_s/step']:.1f} | {groups} | {step['response_length/mean']:.0f} |")
        for at, step in enumerate(peer[number], 1):
            print(f"| TRL, step {at} | {step['seconds']:.1f} | {step['signal']} | {step['length']:.0f} |")

    steps = [step for run in ours for step in run]
    print("\n| of Evenkeel's steps | s | % of the step |\n|---|---|---|")
    for part, metric in PARTS.items():
        seconds = [step.get(metric, 0.0) for step in steps]
        shares = [100 * value / step["timing_s/step"] for value, step in zip(seconds, steps)]
        print(f"| {part} | {spread(seconds)} | {spread(shares)} |")
    done = [flop(step, options.model) for step in steps]
    for at, part in enumerate(("generation", "update")):
        reached = [both[at] / step[PARTS[part]] / rate for both, step in zip(done, steps)]
        print(f"\n{part}: {spread(reached, 2)} of sgemm's rate", end="")
    mean = lambda values: sum(values) / len(values)  # noqa: E731
    means = [(mean([step["timing_s/step"] for step in mine]), mean([step["seconds"] for step in theirs])) for mine, theirs in zip(ours, peer)]
    print(f"\n\nratio of the means: {spread([mine / theirs for mine, theirs in means], 2)}")


if __name__ == "__main__":
    main()
