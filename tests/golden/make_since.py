"""Golden vectors of the objectives since the paper: SAPO, DPPO, LUSPO, MaxRL and GDPO.

The terms of each token and the advantages are what verl and TRL compute: their functions are taken out of the packages by name and run as they
are, without importing the packages. Weights are the formulas of docs/objective.md in float64, gradients PyTorch's autograd. What no released
package has (MaxRL's advantages) is written down from its paper.

    pip download --no-deps verl==0.9.1 trl==1.16.0
    python make_since.py verl-0.9.1-py3-none-any.whl trl-1.16.0-py3-none-any.whl > objective_since.json
"""

import ast
import json
import random
import sys
import zipfile
from collections import defaultdict
from types import SimpleNamespace
from typing import Any, Optional

import numpy as np
import torch

torch.set_default_dtype(torch.float64)

SEED = 90_210
SIZE = 4
SETTINGS = {"clip_low": 0.15, "clip_high": 0.12, "sapo_tau_pos": 1.0, "sapo_tau_neg": 1.05, "max_tokens": 9}
TERMS = {"sapo": "sapo", "dppo-tv": "dppo_tv", "dppo-kl": "dppo_kl", "gspo": "gspo"}
COMBINATIONS = [(rule, term) for term in ("sapo", "dppo-tv", "dppo-kl") for rule in ("sequence", "batch-token", "balanced")]
COMBINATIONS += [("luspo", "gspo")]


class Config(SimpleNamespace):
    """What verl's functions read of their configuration."""

    def get(self, name, default):
        return getattr(self, name, default)


class Captured(Exception):
    pass


def functions(wheel, path, names, scope):
    """The functions of these names in a file of a package, run in `scope`."""
    tree = ast.parse(zipfile.ZipFile(wheel).read(path))
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in names]
    assert {node.name for node in found} == set(names)
    for node in found:
        node.decorator_list = []
    exec(compile(ast.Module(found, []), path, "exec"), scope)
    return SimpleNamespace(**{name: scope[name] for name in names})


def verl(wheel):
    """verl's losses, stopped where they have the loss of each token."""
    scope = {"torch": torch, "np": np, "defaultdict": defaultdict, "Optional": Optional, "Any": Any, "ActorConfig": Config, "AlgoConfig": type(None)}
    scope["verl_F"] = functions(wheel, "verl/utils/torch_functional.py", ["masked_sum", "masked_mean"], dict(scope))

    def agg_loss(loss_mat, **_):
        raise Captured(loss_mat)

    scope["agg_loss"] = agg_loss
    losses = [f"compute_policy_loss_{name}" for name in TERMS.values()]
    return functions(wheel, "verl/trainer/ppo/core_algos.py", ["compute_grpo_outcome_advantage", *losses], scope)


def trl_gdpo(wheel):
    """TRL's advantages of several rewards, a branch of a long method. It adds 1e-4 to deviations; here 1e-6 is added, as verl does."""
    scope = {"torch": torch}
    functions(wheel, "trl/trainer/utils.py", ["nanstd"], scope)
    tree = ast.parse(zipfile.ZipFile(wheel).read("trl/trainer/grpo_trainer.py"))
    is_branch = lambda node: isinstance(node, ast.If) and ast.unparse(node.test).endswith("== 'normalize_then_sum'")
    (branch,) = [node for node in ast.walk(tree) if is_branch(node)]
    added = [node for part in branch.body for node in ast.walk(part) if isinstance(node, ast.Constant) and node.value == 1e-4]
    assert len(added) == 2
    for node in added:
        node.value = 1e-6
    code = compile(ast.Module(branch.body, []), "grpo_trainer.py", "exec")

    def advantages(rewards, weights):
        itself = SimpleNamespace(reward_funcs=weights, reward_weights=torch.tensor(weights))
        unscorable = torch.isnan(rewards).all(dim=1)
        local = dict(scope, self=itself, rewards_per_func=rewards, num_generations=SIZE, device="cpu", unscorable_mask=unscorable)
        exec(code, local)
        return local["advantages"]

    return advantages


def weights(step, advantages, rule):
    """The weight of every trainable token of each response."""
    counts = [[sum(response["mask"]) for response in group] for group in step]
    groups, tokens = len(step), sum(map(sum, counts))

    def of(count, advantage, lengths, of_group):
        if rule == "batch-token":
            return 1 / tokens
        if rule == "sequence":
            return 1 / (groups * SIZE * count)
        if rule == "luspo":
            return 1 / (groups * SIZE)
        side = [(n, abs(a)) for n, a in zip(lengths, of_group) if a * advantage > 0]
        return sum(a for _, a in side) / (groups * SIZE * sum(n * a for n, a in side)) if side else 0.0

    return [[of(n, a, lengths, group) for n, a in zip(lengths, group)] for lengths, group in zip(counts, advantages)]


def evaluate(peer, step, advantage, a, rule, policy, scale=1.0):
    """What the crate must give, of the advantages `a`. `scale` is a factor of all weights."""
    w = [[weight * scale for weight in group] for group in weights(step, a, rule)]
    config = Config(clip_ratio=0.2, clip_ratio_low=SETTINGS["clip_low"], clip_ratio_high=SETTINGS["clip_high"], clip_ratio_c=1e9,
                    tau_pos=SETTINGS["sapo_tau_pos"], tau_neg=SETTINGS["sapo_tau_neg"], global_batch_info={})
    leaves = [[torch.tensor(response["logp"], requires_grad=True) for response in group] for group in step]
    loss, value = torch.zeros(()), 0.0
    for g, i in ((g, i) for g, group in enumerate(step) for i in range(SIZE)):
        response, logp = step[g][i], leaves[g][i]
        mask, old = torch.tensor(response["mask"]), torch.tensor(response["old_logp"])
        row = lambda x: x.unsqueeze(0)
        try:
            getattr(peer, f"compute_policy_loss_{TERMS[policy]}")(row(old), row(logp), row(torch.full_like(old, a[g][i])), row(mask), "token-mean", config)
        except Captured as captured:
            terms = captured.args[0][0]
        loss = loss + w[g][i] * (terms * mask).sum()
        if policy.startswith("dppo"):
            # verl has the ratio as a constant before the log-probability: the same gradient, another value. The paper's is the ratio.
            terms = terms.detach() / logp.detach()
        value += w[g][i] * (terms.detach() * mask).sum().item()
    loss.backward()
    return {
        "advantage": advantage,
        "aggregation": rule,
        "policy": policy,
        "correction": "none",
        "loss": value,
        "advantages": a,
        "weights": w,
        "grad_logp": [[leaf.grad.tolist() for leaf in group] for group in leaves],
    }


def random_response(rng, reward):
    length = rng.randint(1, 7)
    # From tokens that are nearly certain to rare ones, so that total variation and ratio differ.
    old = [round(-rng.choice([0.02, 0.4, 2.0, 7.0]) * rng.uniform(0.5, 1.5), 5) for _ in range(length)]
    logp = [round(min(x + rng.gauss(0, 0.5), -1e-4), 5) for x in old]
    mask = [int(rng.random() < 0.8) for _ in old]
    mask[rng.randrange(length)] = 1
    return {"reward": reward, "valid": True, "mask": mask, "logp": logp, "old_logp": old, "behaviour_logp": old}


def random_step(rng, draw):
    return [[random_response(rng, draw()) for _ in range(SIZE)] for _ in range(rng.randint(2, 3))]


def nested(values):
    return [values[at : at + SIZE] for at in range(0, len(values), SIZE)]


def main():
    rng = random.Random(SEED)
    peer, gdpo = verl(sys.argv[1]), trl_gdpo(sys.argv[2])
    cases = []

    for kind, draw in [("binary", lambda: float(rng.random() < 0.5)), ("continuous", lambda: round(rng.uniform(-1, 2), 3))] * 3:
        step = random_step(rng, draw)
        rewards = torch.tensor([[response["reward"]] for group in step for response in group])
        index = np.array([g for g, group in enumerate(step) for _ in group])
        a = nested(peer.compute_grpo_outcome_advantage(rewards, torch.ones_like(rewards), index)[0][:, 0].tolist())
        expected = [evaluate(peer, step, "grpo-sample", a, rule, policy) for rule, policy in COMBINATIONS]
        cases.append({"kind": kind, "params": SETTINGS, "groups": step, "expected": expected})

    for kind, draw in [("binary", lambda: float(rng.random() < 0.3)), ("graded", lambda: rng.choice([0.0, 0.25, 1.0]))] * 2:
        step = random_step(rng, draw)
        rewards = torch.tensor([[response["reward"] for response in group] for group in step])
        mean = rewards.mean(dim=1, keepdim=True)
        a = torch.where(mean == 0, torch.zeros_like(rewards), (rewards - mean) / mean).tolist()
        expected = [evaluate(peer, step, "maxrl", a, rule, policy) for rule, policy in COMBINATIONS[::3]]
        cases.append({"kind": kind, "params": SETTINGS, "groups": step, "expected": expected})

    for missing in (0.0, 0.0, 0.25):
        step = random_step(rng, lambda: 0.0)
        named = [(1.0, lambda: float(rng.random() < 0.5)), (0.5, lambda: round(rng.uniform(-1, 1), 3)), (2.0, lambda: rng.choice([0.0, 10.0]))]
        values = [[[draw() if rng.random() >= missing else None for _ in range(SIZE)] for _, draw in named] for _ in step]
        of_weights = [weight for weight, _ in named]
        table = [[float("nan") if value is None else value for value in row] for group in values for row in zip(*group)]
        whole = gdpo(torch.tensor(table), of_weights)
        # Before the factor of the mini-batch: each group's part of the sum. The factor is that of the weights.
        parts = []
        for group in values:
            sums = [0.0] * SIZE
            for weight, of_component in zip(of_weights, group):
                known = torch.tensor([value for value in of_component if value is not None])
                if len(known) < 2:
                    continue
                for i, value in enumerate(of_component):
                    if value is not None:
                        sums[i] += weight * ((value - known.mean()) / (known.std() + 1e-6)).item()
            parts.append(sums)
        flat = torch.tensor([a for group in parts for a in group])
        scale = (1 / ((flat**2).sum() / (len(flat) - 1)).sqrt().add(1e-6)).item()
        assert torch.allclose(whole, flat * scale, rtol=1e-9, atol=1e-9), (whole, flat * scale)
        components = [[{"weight": weight, "values": of_component} for weight, of_component in zip(of_weights, group)] for group in values]
        expected = [evaluate(peer, step, "gdpo", parts, rule, policy, scale) for rule, policy in COMBINATIONS[::3]]
        cases.append({"kind": "components", "params": SETTINGS, "groups": step, "components": components, "expected": expected})

    json.dump({"cases": cases}, sys.stdout, separators=(",", ":"))
    print()


if __name__ == "__main__":
    main()
