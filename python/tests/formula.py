"""Balanced aggregation written with plain loops: what folded advantages and weights are compared with."""

import numpy as np


def direct(terms, advantages, mask, groups, valid):
    """-1/P sum over groups and sides of M_s / (G Z_s) times the sum of terms; `terms` and `mask` are rows × tokens."""
    terms, mask = np.asarray(terms), np.asarray(mask)
    total, counted = 0.0, 0
    for group in sorted(set(np.asarray(groups).tolist())):
        own = [i for i in range(len(mask)) if groups[i] == group and valid[i] and mask[i].any()]
        counted += bool(own)
        for sign in (1, -1):
            side = [i for i in own if advantages[i] * sign > 0]
            if side:
                m = sum(abs(advantages[i]) for i in side)
                z = sum(abs(advantages[i]) * mask[i].sum() for i in side)
                total += m / (len(own) * z) * sum((terms[i] * mask[i]).sum() for i in side)
    return -total / counted


def clipped(ratio, advantages):
    """The clipped terms of PPO."""
    return np.minimum(ratio * advantages[:, None], np.clip(ratio, 0.8, 1.28) * advantages[:, None])
