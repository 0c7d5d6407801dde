#!/usr/bin/env python3
"""Steps of a pretrained model beside TRL and beside sgemm, on this machine, in one run with two threads.

    python3 bench/real_model/run.py MODEL TRL_PYTHON [--steps N] [--peer-steps N]

MODEL is the folder of SmolLM2-135M-Instruct (or of another dense model with a chat template), TRL_PYTHON a Python with trl, torch and datasets. Both
train on the same sums in words, made here: 16 prompts × 8 samples of at most 60 tokens, f32. The rate of sgemm is measured before and after; the share
of it that generation and the update reach counts the products of the model's linear layers alone, of prompts once for each group.
"""
import argparse
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import build  # noqa: E402

HERE = Path(__file__).resolve().parent


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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("python")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--peer-steps", type=int, default=3)
    options = parser.parse_args()
    program = build("evenkeel")
    sgemm = [lines([options.python, HERE / "peer.py", "--sgemm"])[0]["flops"]]
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "rows.jsonl"
        data.write_text("".join(json.dumps(row) + "\n" for row in rows()))
        settings = {
            "model.path": options.model, "data.files": json.dumps([str(data)]), "data.math_profile": "unmarked", "data.prompt_field": "question",
            "data.answer_field": "answer", "sampling.prompts_per_step": 16, "sampling.group_size": 8, "sampling.max_tokens": 60,
            "sampling.dynamic": "false", "sampling.max_prompts_per_step": 0, "shaping.overlong_buffer_tokens": 0, "learner.mini_batch_groups": 0,
            "learner.optimizer.learning_rate": 1e-5, "evaluation.before": "false", "evaluation.after": "false", "evaluation.problems": 0, "run.steps": options.steps,
        }  # fmt: skip
        out = Path(folder) / "run"
        command = [program, "train", "--recipe", "dapo", "--out", str(out)]
        command += [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stderr)
        ours = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        peer = lines([options.python, HERE / "peer.py", options.model, str(data), str(options.peer_steps)])
    sgemm.append(lines([options.python, HERE / "peer.py", "--sgemm"])[0]["flops"])
    rate = sum(sgemm) / 2

    layers, head = products(options.model)
    print(f"sgemm, two threads: {sgemm[0] / 1e9:.0f} and {sgemm[1] / 1e9:.0f} GFLOP/s, before and after\n")
    print("| | s a step | generation | of sgemm | update | of sgemm | proof and weights | groups with a signal | tokens a response |")
    print("|---|---|---|---|---|---|---|---|---|")
    for step in ours:
        # Groups without a signal are not computed.
        responses, groups = 128 * step["response_length/mean"], 16 - step["actor/groups_without_signal"]
        prompts, trained = step["prompt_length/mean"], step["actor/trainable_tokens"] * groups / 16
        generation, update = step["timing_s/gen"], step["timing_s/update_actor"]
        # Generation: each prompt once, each sampled token but the last of a response fed, all of them through the head.
        sampled = layers * (16 * prompts + responses - 128) + head * responses
        updated = 3 * (layers * (groups * prompts + trained) + head * trained)
        weights = step["timing_s/proof"] + step["timing_s/update_weights"]
        print(
            f"| Evenkeel, step {step['step']} | {step['timing_s/step']:.1f} | {generation:.1f} | {sampled / generation / rate:.2f} | {update:.1f} "
            f"| {updated / update / rate:.2f} | {weights:.1f} | {groups} | {step['response_length/mean']:.0f} |"
        )
    for number, step in enumerate(peer, 1):
        print(f"| TRL, step {number} | {step['seconds']:.1f} | | | | | | {step['signal']} | {step['length']:.0f} |")
    mean = [sum(values) / len(values) for values in ([step["timing_s/step"] for step in ours], [step["seconds"] for step in peer])]
    print(f"\nratio of the means: {mean[0] / mean[1]:.2f}")


if __name__ == "__main__":
    main()
