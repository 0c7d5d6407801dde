"""verl: reward functions for `reward.custom_reward_function.path=pkg://evenkeel_rlvr.verl`.

The advantage estimator `balanced` is in the plug-in that verl loads by itself (`_verl_plugin.py`). Nothing of verl is imported here.
"""

from __future__ import annotations

from typing import Any

from . import verify_math
from ._adapter import finite_number, gold_answer, prompt_text
from .errors import InvalidVerdict

__all__ = ["compute_score", "compute_score_code"]


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: Any,
    extra_info: Any = None,
    *,
    on_invalid: str | float = "raise",
    wrong: float = 0.0,
    use_prompts: bool = True,
    reward_router_address: Any = None,
    reward_model_tokenizer: Any = None,
    **policy: Any,
) -> dict[str, Any]:
    """Judges one response as mathematics; the keys are the same for every sample, since verl takes those of the first one.

    An invalid verdict raises `InvalidVerdict`, after which verl drops the sample or its group; with a number as `on_invalid` that is the score and
    `invalid` counts it. `wrong` is the score of a response that is not correct. With `use_prompts` the problem in `extra_info` (`question`, `problem` or
    `prompt`) says which nouns may stand behind a number, and an answer copied from it is wrong. `profile` and single rules are those of `verify_math`. All of these
    are set by `+reward.custom_reward_function.reward_kwargs.NAME=VALUE`.
    """
    score = _on_invalid(on_invalid)
    prompt = _problem(extra_info) if use_prompts else None
    verdict = verify_math(solution_str, gold_answer(ground_truth, "ground_truth"), prompt=prompt, **policy)
    return _sample(verdict, score, finite_number("wrong", wrong))


def _problem(extra_info: Any) -> str | None:
    """The text of the problem, where the rows of the data have it: verl passes no prompt."""
    if not isinstance(extra_info, dict):
        return None
    found = next((extra_info[name] for name in ("question", "problem", "prompt") if extra_info.get(name)), None)
    return prompt_text(found) if isinstance(found, (str, list)) else None


def compute_score_code(
    data_source: str,
    solution_str: str,
    ground_truth: Any,
    extra_info: Any = None,
    *,
    address: str | None = None,
    on_invalid: str | float = "raise",
    wrong: float = 0.0,
    partial: bool = False,
    workers: int = 1,
    reward_router_address: Any = None,
    reward_model_tokenizer: Any = None,
) -> dict[str, Any]:
    """Judges one response as a program, by the reward service at `address` or EVENKEEL_REWARD: one on each node is the arrangement for verl, which judges
    in several processes. Without either each of these processes has a sandbox with this many `workers`.

    `ground_truth` has `inputs`, `outputs` and perhaps `fn_name`, or the columns of LiveCodeBench; also as JSON. With `partial` the score is the share
    of tests that passed. The rest is as in `compute_score`.
    """
    from ._programs import judge_program

    score = _on_invalid(on_invalid)
    verdict = judge_program(solution_str, ground_truth, address=address, partial=partial, workers=workers)
    return _sample(verdict, score, finite_number("wrong", wrong))


def _sample(verdict: Any, score: float | None, wrong: float) -> dict[str, Any]:
    if verdict.correct is None:
        if score is None:
            raise InvalidVerdict(f"the sample cannot be judged ({verdict.reason}: {verdict.detail})")
        return {"score": score, "acc": 0.0, "invalid": 1.0, "reason": verdict.reason}
    reward = verdict.reward if verdict.reward else wrong
    return {"score": reward, "acc": float(verdict.correct), "invalid": 0.0, "reason": verdict.reason}


def _on_invalid(value: str | float) -> float | None:
    return None if value == "raise" else finite_number("on_invalid", value, "'raise' or a finite number")
