"""Folded advantages for each loss of TRL's `GRPOTrainer`. Imports nothing of TRL."""

from __future__ import annotations

from typing import Any

from .balanced import Divisor, fold
from .errors import UnsupportedSetting

#: What each loss divides by; `tokens` are those of the generation batch (`num_items_in_batch`).
DIVISORS: dict[str, Divisor] = {
    "grpo": "seq-mean-token-mean",
    "sapo": "seq-mean-token-mean",
    "dr_grpo": "seq-mean-token-sum-norm",
    "dapo": "token-mean",
    "cispo": "token-mean",
}


def refuse_settings(args: Any) -> None:
    """Refuses settings of `GRPOConfig` with which folded advantages would not give balanced aggregation, by name."""
    reasons = {
        "bnpo": "it divides by the tokens of each micro-batch",
        "luspo": "its weighting by length is the method",
        "vespo": "it was not tested",
    }
    loss = args.loss_type
    if loss not in DIVISORS:
        _refuse("loss_type", loss, ", ".join(DIVISORS), reasons.get(loss, "it was not tested"))
    if getattr(args, "use_liger_kernel", False):
        _refuse("use_liger_kernel", True, "False", "it was not tested")
    if getattr(args, "importance_sampling_level", "token") != "token":
        _refuse("importance_sampling_level", args.importance_sampling_level, "token", "it was not tested")
    aggregation = getattr(args, "multi_objective_aggregation", "sum_then_normalize")
    if aggregation != "sum_then_normalize":
        _refuse("multi_objective_aggregation", aggregation, "sum_then_normalize", "it was not tested")
    quantile = getattr(args, "top_entropy_quantile", 1.0)
    if quantile != 1.0:
        _refuse("top_entropy_quantile", quantile, "1.0", "it leaves out tokens after advantages are computed")
    if getattr(args, "off_policy_mask_threshold", None) is not None:
        _refuse("off_policy_mask_threshold", args.off_policy_mask_threshold, "None", "it leaves out rows after advantages are computed")


def fold_rows(
    loss: str, advantages: Any, mask: Any, *, generations: int, valid: Any, tokens: float, max_completion_length: int
) -> Any:
    """One advantage for each row of a generation batch, all processes together; groups are `generations` rows in a row.

    `valid` is False for rows without any reward: they leave G and P, while TRL's divisor counts them.
    """
    divisor = DIVISORS[loss]
    groups = [row // generations for row in range(len(advantages))]
    return fold(
        advantages,
        mask,
        groups,
        divisor=divisor,
        valid=valid,
        tokens=max(tokens, 1.0),
        max_tokens=max_completion_length if divisor == "seq-mean-token-sum-norm" else None,
    )


def _refuse(name: str, value: Any, allowed: str, why: str) -> None:
    raise UnsupportedSetting(f"BalancedGRPOTrainer: {name} is {value}, allowed: {allowed} ({why})")
