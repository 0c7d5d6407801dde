"""`GRPOTrainer` with balanced aggregation. It uses private methods of TRL, so only tested versions are accepted."""

from __future__ import annotations

from typing import Any

import torch

try:
    from trl import GRPOTrainer
except ImportError as error:
    from .errors import MissingPackage

    raise MissingPackage(f"evenkeel_rlvr.trl.BalancedGRPOTrainer needs TRL: {error}") from error

from ._adapter import require_tested
from ._trl_fold import fold_rows, refuse_settings

require_tested("trl")


class BalancedGRPOTrainer(GRPOTrainer):  # type: ignore[misc, unused-ignore]
    """`GRPOTrainer` whose policy term is summed by balanced aggregation; everything else is as there.

    Rows for which every reward function returned None leave the counts of their group and of the batch, so that the step is not smaller by
    their share. With more generation steps than accumulation steps, an optimizer step has its rows' share of the sum over all groups.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        refuse_settings(self.args)
        self._rewards: torch.Tensor | None = None

    def _calculate_rewards(self, *args: Any, **kwargs: Any) -> Any:
        # Of all processes, by row and function; NaN where a function returned None.
        self._rewards = super()._calculate_rewards(*args, **kwargs)
        return self._rewards

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        output = super()._generate_and_score_completions(inputs)
        mask = output["completion_mask"]
        if "tool_mask" in output:
            mask = mask * output["tool_mask"]
        generations = self.num_generations if self.model.training else self.num_generations_eval
        lengths = mask.sum(dim=1)
        gathered = self.accelerator.gather(output["advantages"]).double()
        # Only its length in tokens counts, and processes pad to different widths.
        all_lengths = self.accelerator.gather(lengths)
        width = int(all_lengths.max())
        prefix = torch.arange(max(width, 1), device=all_lengths.device)[None, :] < all_lengths[:, None]
        assert self._rewards is not None
        valid = ~torch.isnan(self._rewards).all(dim=1)
        rewards = (self._rewards.double() * self.reward_weights.to(self._rewards.device, torch.float64)).nansum(dim=1)
        folded = fold_rows(
            self.loss_type,
            gathered.masked_fill(_equal_groups(rewards, valid, generations), 0.0),
            prefix,
            generations=generations,
            valid=valid,
            tokens=float(output["num_items_in_batch"]),
            max_completion_length=self.max_completion_length,
        )
        rows = len(lengths)
        own = slice(self.accelerator.process_index * rows, (self.accelerator.process_index + 1) * rows)
        output["advantages"] = folded[own].to(output["advantages"].dtype)
        return output


def _equal_groups(rewards: torch.Tensor, valid: torch.Tensor, generations: int) -> torch.Tensor:
    """The rows of groups whose rewards are all equal: what rounding leaves of their advantages would put them on a side."""
    low = rewards.masked_fill(~valid, float("inf")).view(-1, generations).amin(dim=1)
    high = rewards.masked_fill(~valid, float("-inf")).view(-1, generations).amax(dim=1)
    # In float32, sums of several functions differ in the last bits.
    return (high - low <= 1e-6 * high.abs()).repeat_interleave(generations)
