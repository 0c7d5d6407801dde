"""Balanced aggregation written with plain loops, which PyTorch differentiates: what every trainer's gradient is compared with."""

import torch


def direct_loss(terms, advantages, mask, groups, valid=None):
    """-1/P sum over groups and sides of M_s / (G Z_s) times the sum of terms; `terms` are rows × tokens."""
    rows = range(terms.shape[0])
    lengths = mask.sum(1).double()
    total, counted = terms.new_zeros((), dtype=torch.float64), 0
    for group in sorted(set(groups)):
        own = [i for i in rows if groups[i] == group and (valid is None or valid[i]) and lengths[i] > 0]
        counted += bool(own)
        for sign in (1, -1):
            side = [i for i in own if advantages[i] * sign > 0]
            if side:
                m = sum(abs(advantages[i]) for i in side)
                z = sum(abs(advantages[i]) * lengths[i] for i in side)
                total = total + m / (len(own) * z) * sum((terms[i] * mask[i]).sum() for i in side)
    return -total / max(counted, 1)


def group_advantages(rewards, epsilon=1e-6):
    """(r - mean) / (deviation + epsilon) of one group; 0 if all are equal."""
    rewards = torch.as_tensor(rewards, dtype=torch.float64)
    if len(rewards) == 1:
        return rewards / (1 + epsilon)
    if (rewards == rewards[0]).all():
        return torch.zeros_like(rewards)
    return (rewards - rewards.mean()) / (rewards.std() + epsilon)


def relative_error(got, want):
    """The largest difference of two gradients, relative to the largest entry of the second."""
    return float((got - want).abs().max() / want.abs().max())
