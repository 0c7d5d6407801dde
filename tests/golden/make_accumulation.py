"""Goldens of training in operations: losses that sum over tokens, accumulated over two calls, then one AdamW update, in float32 on a CPU.

    python make_accumulation.py > accumulation.json

The models are `llama` and `qwen3` beside this file, all of whose weights are trained. Each token has a target of its own, which need not be the
token after it. Formulas are those of crates/objective/src/summed.rs, written down a second time; gradients are PyTorch's.
"""

import json
import random
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM

import make_models as models

HERE = Path(__file__).resolve().parent

ADAM = {"learning_rate": 3e-3, "beta1": 0.9, "beta2": 0.95, "epsilon": 1e-8, "max_gradient_norm": 0.7}
LOSSES = ["cross_entropy", "importance_sampling", "ppo", "cispo", "balanced"]
LOW, HIGH = 0.7, 1.3


def target_logp(model, sequence):
    logits = model(input_ids=torch.tensor([sequence["tokens"]]), use_cache=False).logits[0]
    return torch.log_softmax(logits, dim=-1).gather(1, torch.tensor(sequence["targets"])[:, None])[:, 0]


def balanced(data):
    """What each sequence's advantages are multiplied by: the mean over the responses of a group, each side's tokens in equal parts."""
    factors = []
    for sequence in data:
        group = [other for other in data if other["group"] == sequence["group"]]
        trained = [other for other in group if any(other["factors"])]
        advantage = next((a for a in sequence["factors"] if a), 0.0)
        side = []
        for other in trained:
            of_other = next(a for a in other["factors"] if a)
            if of_other * advantage > 0:
                side.append((sum(1 for a in other["factors"] if a), abs(of_other)))
        total = sum(n * a for n, a in side)
        factors.append(sum(a for _, a in side) / (len(trained) * total) if side else 0.0)
    return factors


def loss_of(model, name, data):
    factors = balanced(data) if name == "balanced" else [1.0] * len(data)
    loss, logps = torch.zeros((), dtype=torch.float64), []
    for sequence, factor in zip(data, factors):
        logp = target_logp(model, sequence).double()
        logps.append(logp.tolist())
        a = torch.tensor(sequence["factors"], dtype=torch.float64) * factor
        if name == "cross_entropy":
            loss = loss - (a * logp).sum()
            continue
        kept = a != 0
        ratio = torch.exp(logp - torch.tensor(sequence["sampler_log_probabilities"], dtype=torch.float64))[kept]
        a, logp = a[kept], logp[kept]
        if name == "importance_sampling":
            loss = loss - (ratio * a).sum()
        elif name == "cispo":
            loss = loss - (torch.clamp(ratio, LOW, HIGH).detach() * a * logp).sum()
        else:
            loss = loss - torch.minimum(ratio * a, torch.clamp(ratio, LOW, HIGH) * a).sum()
    return loss, logps


def sequence(model, rng, name, group):
    tokens = models.random_tokens(rng, 3, 14)
    targets = models.random_tokens(rng, len(tokens), len(tokens))
    found = {"tokens": tokens, "targets": targets}
    kept = [rng.random() < 0.7 for _ in tokens]
    if name == "cross_entropy":
        return found | {"factors": [round(rng.uniform(-1, 1), 3) if keep else 0.0 for keep in kept]}
    with torch.no_grad():
        logp = target_logp(model, found)
    advantage = rng.choice([-1.5, -0.5, 0.75, 1.25])
    each = lambda: advantage if name == "balanced" else round(rng.uniform(-1, 1), 3)
    found["factors"] = [each() if keep else 0.0 for keep in kept]
    found["sampler_log_probabilities"] = [round(lp + rng.uniform(-0.5, 0.5), 4) for lp in logp.tolist()]
    return found | ({"group": group} if name == "balanced" else {})


def case(folder, name, seed):
    rng = random.Random(seed)
    model = AutoModelForCausalLM.from_pretrained(HERE / folder, dtype=torch.float32, attn_implementation="eager").eval()
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=ADAM["learning_rate"], betas=(ADAM["beta1"], ADAM["beta2"]), eps=ADAM["epsilon"], weight_decay=0.0
    )
    calls = []
    for call in range(2):
        data = [sequence(model, rng, name, number // 3 - 4) for number in range(6)]
        loss, logp = loss_of(model, name, data)
        loss.backward()
        calls.append({"data": data, "loss": loss.item(), "logp": [[round(x, 7) for x in of] for of in logp]})
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), ADAM["max_gradient_norm"]).item()
    optimizer.step()
    with torch.no_grad():
        after = [[round(x, 7) for x in target_logp(model, data).tolist()] for data in calls[0]["data"]]
    return {"model": folder, "loss": name, "calls": calls, "gradient_norm": norm, "logp_after": after}


if __name__ == "__main__":
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    cases = [case(folder, name, 40 + number) for folder in ("llama", "qwen3") for number, name in enumerate(LOSSES)]
    json.dump({"adam": ADAM, "clip_low": LOW, "clip_high": HIGH, "cases": cases}, sys.stdout, separators=(",", ":"))
    print()
