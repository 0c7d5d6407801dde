"""Which settings of verl its advantages can be folded for: read from its configuration, refused by their keys. Imports nothing of verl."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .balanced import Divisor, fold
from ._outcome import group_advantages
from .errors import UnsupportedSetting

#: Losses whose terms grow in proportion to the advantage, for which the folded gradient was compared with the direct one.
LOSSES = ("cispo", "dppo_tv", "gpg", "gspo", "sapo", "vanilla")
MODES: tuple[Divisor, ...] = ("seq-mean-token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm", "token-sum")
_ACTOR = "actor_rollout_ref.actor"
_ADVICE = "use seq-mean-token-mean, with which KL and entropy terms stay the usual means"


@dataclass(frozen=True)
class VerlSettings:
    """What the factor of an advantage depends on. Counts are the configured ones, which verl divides by, whatever rows a batch has lost."""

    mode: Divisor
    #: `ppo_mini_batch_size`: P.
    prompts: int
    #: `rollout.n`.
    responses: int
    #: `loss_scale_factor`; of `seq-mean-token-sum-norm` alone.
    max_tokens: float | None
    by_deviation: bool

    @classmethod
    def read(cls, algorithm: Any) -> VerlSettings:
        """From the node `algorithm` of verl's configuration, which leads to the rest."""
        root = getattr(algorithm, "_get_root", None)
        if root is None:
            raise UnsupportedSetting(
                f"the configuration of algorithm is a {type(algorithm).__name__} without the rest of verl's configuration: "
                "whether advantages can be folded cannot be known, so adv_estimator=balanced is refused"
            )
        config = root()
        mode = _value(config, f"{_ACTOR}.loss_agg_mode")
        if mode not in MODES:
            _refuse(f"{_ACTOR}.loss_agg_mode", mode, " or ".join(MODES) + f"; {_ADVICE}")
        loss = _value(config, f"{_ACTOR}.policy_loss.loss_mode", "vanilla")
        if loss not in LOSSES:
            _refuse(f"{_ACTOR}.policy_loss.loss_mode", loss, ", ".join(LOSSES))
        if loss == "sapo" and mode != "seq-mean-token-mean":
            _refuse(f"{_ACTOR}.loss_agg_mode", mode, "seq-mean-token-mean, which policy_loss.loss_mode=sapo always uses")
        if mode in ("token-sum", "seq-mean-token-sum"):
            if _value(config, f"{_ACTOR}.use_kl_loss", False):
                _refuse(f"{_ACTOR}.use_kl_loss", True, f"false with loss_agg_mode={mode}, which would sum the KL term over tokens; {_ADVICE}")
            if _value(config, f"{_ACTOR}.entropy_coeff", 0):
                entropy = _value(config, f"{_ACTOR}.entropy_coeff")
                _refuse(f"{_ACTOR}.entropy_coeff", entropy, f"0 with loss_agg_mode={mode}, which would sum entropies over tokens; {_ADVICE}")
        scale = _value(config, f"{_ACTOR}.loss_scale_factor", None)
        if mode == "seq-mean-token-sum-norm" and not scale:
            _refuse(f"{_ACTOR}.loss_scale_factor", scale, "a number above 0: without it verl divides by the width of each batch")
        rejection = _value(config, "algorithm.rollout_correction.rollout_rs", None)
        if rejection and mode == "seq-mean-token-mean":
            _refuse("algorithm.rollout_correction.rollout_rs", rejection, "null, or a sum as loss_agg_mode: rejected tokens change a row's mean")
        if _value(config, "algorithm.rollout_correction.bypass_mode", False):
            _refuse("algorithm.rollout_correction.bypass_mode", True, "false: it changes the mask after advantages are computed")
        if _value(config, "algorithm.use_pf_ppo", False):
            _refuse("algorithm.use_pf_ppo", True, "false: it draws rows anew by their advantages")
        return cls(
            mode=mode,
            prompts=_count(config, f"{_ACTOR}.ppo_mini_batch_size"),
            responses=_count(config, "actor_rollout_ref.rollout.n"),
            max_tokens=float(scale) if mode == "seq-mean-token-sum-norm" else None,
            by_deviation=bool(_value(config, "algorithm.norm_adv_by_std_in_grpo", True)),
        )

    def advantages(self, rewards: Any, mask: Any, groups: Any) -> tuple[Any, Any]:
        """The advantage of each row, folded and as it is; from one reward for each row and the mask of its tokens."""
        plain = group_advantages(rewards, groups, by_deviation=self.by_deviation)
        folded = fold(
            plain,
            mask,
            groups,
            divisor=self.mode,
            rows=self.prompts * self.responses,
            groups_in_update=self.prompts,
            max_tokens=self.max_tokens,
        )
        return folded, plain


_MISSING = object()


def _value(config: Any, path: str, default: Any = _MISSING) -> Any:
    node = config
    for key in path.split("."):
        node = None if node is None else node.get(key, None)
    if node is not None:
        return node
    if default is _MISSING:
        _refuse(path, "absent", "a value")
    return default


def _count(config: Any, path: str) -> int:
    value = _value(config, path)
    if not isinstance(value, int) or value < 1:
        _refuse(path, value, "a whole number from 1 on")
    return int(value)


def _refuse(key: str, value: Any, allowed: str) -> None:
    raise UnsupportedSetting(f"algorithm.adv_estimator=balanced: {key} is {value}, allowed: {allowed}")
