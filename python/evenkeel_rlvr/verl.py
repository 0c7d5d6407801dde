"""verl: a reward function for `reward.custom_reward_function.path=pkg://evenkeel_rlvr.verl`.

The advantage estimator `balanced` is in the plug-in that verl loads by itself (`_verl_plugin.py`). Nothing of verl is imported here.
"""

from __future__ import annotations

from typing import Any

from . import verify_math
from ._adapter import gold_answer
from .errors import ArgumentValueError, InvalidVerdict

__all__ = ["compute_score"]


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: Any,
    extra_info: Any = None,
    *,
    on_invalid: str | float = "raise",
    wrong: float = 0.0,
    reward_router_address: Any = None,
    reward_model_tokenizer: Any = None,
    **policy: Any,
) -> dict[str, Any]:
    """Judges one response as mathematics; the keys are the same for every sample, since verl takes those of the first one.

    An invalid verdict raises `InvalidVerdict`, after which verl drops the sample or its group; with a number as `on_invalid` that is the score and
    `invalid` counts it. `wrong` is the score of a response that is not correct. `profile` and single rules are those of `verify_math`. All of these
    are set by `+reward.custom_reward_function.reward_kwargs.NAME=VALUE`.
    """
    score = None if on_invalid == "raise" else _number("on_invalid", on_invalid)
    verdict = verify_math(solution_str, gold_answer(ground_truth, "ground_truth"), **policy)
    if verdict.correct is None:
        if score is None:
            raise InvalidVerdict(f"the sample cannot be judged ({verdict.reason}: {verdict.detail})")
        return {"score": score, "acc": 0.0, "invalid": 1.0, "reason": verdict.reason}
    reward = 1.0 if verdict.correct else _number("wrong", wrong)
    return {"score": reward, "acc": float(verdict.correct), "invalid": 0.0, "reason": verdict.reason}


def _number(name: str, value: Any) -> float:
    allowed = "a finite number" if name == "wrong" else "'raise' or a finite number"
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < float("inf"):
        raise ArgumentValueError(f"{name} is {value!r}, allowed: {allowed}")
    return float(value)
