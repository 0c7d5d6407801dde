"""Advantages of groups by outcome rewards, as GRPO has them, for estimators in trainers."""

from __future__ import annotations

from typing import Any

from .balanced import _indices, _numpy


def group_advantages(rewards: Any, groups: Any, *, by_deviation: bool, epsilon: float = 1e-6) -> Any:
    """(r - mean) / (deviation + epsilon) in each group, or r - mean; float64, one for each row.

    As in verl and SkyRL: the deviation is that of a sample, and a row that is alone in its group keeps its reward. Unlike there, a group whose
    rewards are all equal has advantages of exactly 0 instead of what rounding leaves: a row with a tiny advantage would be on a side.
    """
    np = _numpy()
    rewards = np.asarray(rewards, dtype=np.float64)
    indices = _indices(groups, len(rewards))
    advantages = np.zeros(len(rewards))
    order = np.argsort(indices, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(indices[order])) + 1):
        values = rewards[rows]
        if len(values) == 1:
            advantages[rows] = values / (1 + epsilon) if by_deviation else values
        elif len(values) and not (values == values[0]).all():
            centred = values - values.mean()
            advantages[rows] = centred / (values.std(ddof=1) + epsilon) if by_deviation else centred
    return advantages
