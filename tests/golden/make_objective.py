"""Golden vectors of the objective: advantages, aggregation weights, loss and gradient of small random steps.

Every formula of docs/objective.md is written down here a second time, plainly, in float64; the gradients are PyTorch's autograd. Nothing is
shared with the crate but the formulas.

    python make_objective.py > objective.json
"""

import itertools
import json
import random
import sys

import torch

torch.set_default_dtype(torch.float64)

SEED = 20_451
KINDS = ["binary", "graded", "continuous", "masked", "invalid", "far"]
ADVANTAGES = ["grpo", "grpo-sample", "mean", "rloo"]
AGGREGATIONS = ["token", "batch-token", "sequence", "sequence-sum", "balanced", "balanced-count"]
POLICIES = ["ppo", "dual-clip", "gspo", "cispo", "gmpo", "aspo"]
CORRECTIONS = ["token-truncate", "token-mask", "sequence-truncate", "sequence-mask"]
COMBINATIONS = [(rule, policy, "none") for rule in AGGREGATIONS for policy in POLICIES]
COMBINATIONS += [(rule, "ppo", correction) for rule in ("batch-token", "balanced") for correction in CORRECTIONS]
SETTINGS = {
    "clip_low": 0.2,
    "clip_high": 0.28,
    "dual_clip": 3.0,
    "gmpo_clip": 0.4,
    "correction_low": 0.5,
    "correction_high": 2.0,
    "max_tokens": 9,
}


def advantages(group, estimator):
    """One advantage for each response; 0 for an invalid one, which is in no statistic."""
    counted = [response["reward"] for response in group if response["valid"]]
    size = len(counted)
    if size > 1 and min(counted) == max(counted):
        return [0.0] * len(group)

    def of(reward):
        mean = sum(counted) / size
        squares = sum((other - mean) ** 2 for other in counted)
        if estimator == "grpo":
            return (reward - mean) / (squares / size + 1e-6) ** 0.5
        if estimator == "grpo-sample":
            return reward / (1 + 1e-6) if size == 1 else (reward - mean) / ((squares / (size - 1)) ** 0.5 + 1e-6)
        if estimator == "mean":
            return reward - mean
        if estimator == "rloo":
            return reward - (sum(counted) - reward) / (size - 1) if size > 1 else 0.0
        raise ValueError(estimator)

    return [of(response["reward"]) if response["valid"] else 0.0 for response in group]


def trainable(response):
    return sum(response["mask"]) if response["valid"] else 0


def weights(step, advantages_of_step, rule, settings):
    """The weight of every trainable token of each response: w in `loss = - sum w c phi`."""
    counts = [[trainable(response) for response in group] for group in step]
    groups = sum(1 for group in counts if any(group))
    tokens = sum(map(sum, counts))

    def of(count, advantage, group_counts, group_advantages):
        if count == 0:
            return 0.0
        responses = sum(1 for other in group_counts if other)
        if rule == "token":
            return 1 / (groups * sum(group_counts))
        if rule == "batch-token":
            return 1 / tokens
        if rule == "sequence":
            return 1 / (groups * responses * count)
        if rule == "sequence-sum":
            return 1 / (groups * responses * settings["max_tokens"])
        side = [(n, abs(a)) for n, a in zip(group_counts, group_advantages) if n and a * advantage > 0]
        if not side:
            return 0.0
        if rule == "balanced-count":
            return len(side) / (groups * responses * sum(n for n, _ in side))
        if rule == "sides":
            e, ratio = settings["length_exponent"], settings["side_ratio"] if advantage > 0 else 1.0
            mass = sum(a for _, a in side)
            return ratio * mass / (groups * responses) * count ** (e - 1) / sum(a * n**e for n, a in side)
        if rule == "balanced":
            return sum(a for _, a in side) / (groups * responses * sum(n * a for n, a in side))
        raise ValueError(rule)

    return [
        [of(count, advantage, group_counts, group) for count, advantage in zip(group_counts, group)]
        for group_counts, group in zip(counts, advantages_of_step)
    ]


def term(policy, logp, old, advantage, s):
    """phi of each trainable token of one response. A stop-gradient is `detach`."""
    low, high = 1 - s["clip_low"], 1 + s["clip_high"]
    gap = logp - old
    # Exactly 1 in value, with the gradient of logp.
    one = torch.exp(logp - logp.detach())

    def clipped(ratio):
        return torch.minimum(ratio * advantage, torch.clamp(ratio, low, high) * advantage)

    if policy == "ppo":
        return clipped(torch.exp(gap))
    if policy == "dual-clip":
        surrogate = clipped(torch.exp(gap))
        return surrogate if advantage >= 0 else torch.clamp(surrogate, min=s["dual_clip"] * advantage)
    if policy == "gspo":
        return clipped(torch.exp(gap.mean().detach()) * one)
    if policy == "cispo":
        return torch.clamp(torch.exp(gap), low, high).detach() * advantage * logp
    if policy == "gmpo":
        bound = s["gmpo_clip"]
        bounded = torch.clamp(gap, max=bound) if advantage > 0 else torch.clamp(gap, min=-bound)
        return advantage * torch.exp(bounded.mean()).expand(len(logp))
    if policy == "aspo":
        ratio, cap = torch.exp(gap).detach(), s["dual_clip"]
        if advantage > 0:
            factor = torch.where(ratio < high, torch.clamp(1 / ratio, max=cap) * one, torch.full_like(ratio, 1 / high))
        else:
            factor = torch.where(ratio > low, torch.clamp(ratio, max=cap) * one, torch.full_like(ratio, low))
        return advantage * factor
    raise ValueError(policy)


def correction(kind, old, sampled, s):
    """c of each trainable token of one response: a constant for the gradient."""
    if kind == "none":
        return torch.ones_like(old)
    gap = old - sampled
    ratio = torch.exp(gap if kind.startswith("token") else gap.sum().expand(len(gap)))
    if kind.endswith("truncate"):
        return torch.clamp(ratio, max=s["correction_high"])
    inside = (ratio >= s["correction_low"]) & (ratio <= s["correction_high"])
    return ratio * inside


def evaluate(step, settings, advantage, rule, policy, kind):
    """What the crate must give for one step under one choice of names."""
    a = [advantages(group, advantage) for group in step]
    w = weights(step, a, rule, settings)
    leaves = [[torch.tensor(response["logp"], requires_grad=True) for response in group] for group in step]
    loss = torch.zeros(())
    for g, i in ((g, i) for g, group in enumerate(step) for i in range(len(group))):
        response = step[g][i]
        if trainable(response) == 0 or a[g][i] == 0:
            continue
        kept = torch.tensor(response["mask"], dtype=torch.bool)
        old = torch.tensor(response["old_logp"])[kept]
        sampled = torch.tensor(response["behaviour_logp"])[kept]
        phi = term(policy, leaves[g][i][kept], old, a[g][i], settings)
        loss = loss - w[g][i] * (correction(kind, old, sampled, settings) * phi).sum()
    if loss.requires_grad:
        loss.backward()
    gradient = [[torch.zeros_like(x) if x.grad is None else x.grad for x in group] for group in leaves]
    return {
        "advantage": advantage,
        "aggregation": rule,
        "policy": policy,
        "correction": kind,
        "loss": loss.item(),
        "advantages": a,
        "weights": w,
        "grad_logp": [[x.tolist() for x in group] for group in gradient],
    }


def random_response(rng, kind):
    length = rng.randint(1, 6)
    spread = 2.5 if kind == "far" else 0.4
    old = [-rng.expovariate(0.8) - 1e-3 for _ in range(length)]

    def near(width):
        return [round(min(x + rng.gauss(0, width), -1e-4), 5) for x in old]

    reward = {"continuous": rng.uniform(-1, 2), "graded": rng.choice([0.0, 0.25, 1.0])}.get(kind, float(rng.random() < 0.5))
    mask = [1] * length
    if kind == "masked":
        mask = [0] * length if rng.random() < 0.2 else [int(rng.random() < 0.7) for _ in old]
    return {
        "reward": round(reward, 3),
        "valid": kind != "invalid" or rng.random() < 0.7,
        "mask": mask,
        "logp": near(spread),
        "old_logp": [round(x, 5) for x in old],
        "behaviour_logp": near(0.3),
    }


def random_group(rng, kind):
    """Two to four responses, of which mostly some are better than others."""
    while True:
        group = [random_response(rng, kind) for _ in range(rng.randint(2, 4))]
        rewards = {response["reward"] for response in group if trainable(response)}
        if len(rewards) > 1 or rng.random() < 0.2:
            return group


def main():
    rng = random.Random(SEED)
    cases = []
    for index, (advantage, kind) in enumerate(itertools.product(ADVANTAGES, KINDS)):
        step = [random_group(rng, kind) for _ in range(rng.randint(1, 3))]
        # Every fourth combination of names: over all cases each one meets every advantage and every kind of step.
        turn = index + ADVANTAGES.index(advantage)
        chosen = [names for at, names in enumerate(COMBINATIONS) if (at + turn) % 4 == 0]
        expected = [evaluate(step, SETTINGS, advantage, *names) for names in chosen]
        cases.append({"kind": kind, "params": SETTINGS, "groups": step, "expected": expected})
    json.dump({"cases": cases}, sys.stdout, separators=(",", ":"))
    print()


if __name__ == "__main__":
    main()
