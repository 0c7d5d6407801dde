"""Which settings of SkyRL its advantages can be folded for. Imports nothing of SkyRL."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from ._outcome import group_advantages
from .balanced import Divisor, fold
from .errors import UnsupportedSetting

#: What each reduction divides by.
DIVISORS: dict[str, Divisor] = {
    "prompt_mean": "prompt-mean",
    "sequence_mean": "seq-mean-token-mean",
    "seq_mean_token_sum_norm": "seq-mean-token-sum-norm",
}
#: Losses for which the folded gradient was compared with the direct one.
LOSSES = ("cispo", "dual_clip", "gspo", "regular", "sapo")
_ALGORITHM = "trainer.algorithm"


@dataclass(frozen=True)
class SkyrlSettings:
    """What the factor of an advantage depends on."""

    reduction: str
    max_seq_len: int | None
    by_deviation: bool

    @classmethod
    def read(cls, config: Any, by_deviation: bool, *, step_wise: bool) -> SkyrlSettings:
        """From `trainer.algorithm`. `step_wise`: the mask given to the estimator is that of step-wise trajectories, all ones."""
        if config is None:
            raise UnsupportedSetting("advantage_estimator=balanced: config is absent, required: trainer.algorithm")
        if step_wise:
            _refuse("generator.step_wise_trajectories", True, "false: the estimator does not see the tokens of a trajectory")
        if config.loss_reduction not in DIVISORS:
            _refuse(f"{_ALGORITHM}.loss_reduction", config.loss_reduction, ", ".join(DIVISORS))
        if config.policy_loss_type not in LOSSES:
            _refuse(f"{_ALGORITHM}.policy_loss_type", config.policy_loss_type, ", ".join(LOSSES))
        if config.advantage_batch_normalize:
            _refuse(f"{_ALGORITHM}.advantage_batch_normalize", True, "false: it moves folded advantages")
        if config.zero_variance_filter:
            _refuse(f"{_ALGORITHM}.zero_variance_filter", True, "false: it changes the mask of the loss, which the estimator does not see")
        if config.loss_reduction == "seq_mean_token_sum_norm" and not config.max_seq_len:
            _refuse(f"{_ALGORITHM}.max_seq_len", config.max_seq_len, "a number above 0")
        return cls(config.loss_reduction, config.max_seq_len, by_deviation)

    def advantages(self, rewards: Any, mask: Any, groups: list[Any]) -> tuple[Any, Any]:
        """The advantage of each row, folded and as it is. SkyRL divides by the rows or prompts of each mini-batch, which cancel P of it."""
        responses = set(Counter(groups).values())
        if self.reduction != "prompt_mean" and len(responses) > 1:
            _refuse(f"{_ALGORITHM}.loss_reduction", self.reduction, "prompt_mean where groups differ in their number of responses")
        plain = group_advantages(rewards, groups, by_deviation=self.by_deviation)
        folded = fold(
            plain,
            mask,
            groups,
            divisor=DIVISORS[self.reduction],
            rows=max(responses, default=1),
            prompts=1,
            groups_in_update=1,
            max_tokens=self.max_seq_len if self.reduction == "seq_mean_token_sum_norm" else None,
        )
        return folded, plain


def _refuse(key: str, value: Any, allowed: str) -> None:
    raise UnsupportedSetting(f"advantage_estimator=balanced: {key} is {value}, allowed: {allowed}")
