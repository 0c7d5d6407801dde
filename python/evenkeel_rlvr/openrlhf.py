"""OpenRLHF: `--reward.remote_url $(python -m evenkeel_rlvr path openrlhf)`; for programs `path openrlhf_code`.

OpenRLHF runs this file by its path, once for each response, and has no way to leave one out: an invalid verdict has the reward of
EVENKEEL_INVALID_REWARD (0 by default) and is counted in `extra_logs`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from evenkeel_rlvr import verify_math_batch
from evenkeel_rlvr._adapter import gold_answer
from evenkeel_rlvr.errors import ArgumentValueError


def reward_func(queries: Sequence[str], prompts: Sequence[str], labels: Sequence[Any], **_: Any) -> dict[str, Any]:
    """Rewards of responses; a query is the prompt and the response, decoded with special tokens."""

    def judge(responses: list[str]) -> Sequence[Any]:
        golds = [gold_answer(label, f"labels[{row}]") for row, label in enumerate(labels)]
        return verify_math_batch(responses, golds, prompts=list(prompts))

    return rewards_of(queries, prompts, judge)


def rewards_of(queries: Sequence[str], prompts: Sequence[str], judge: Callable[[list[str]], Sequence[Any]]) -> dict[str, Any]:
    """What OpenRLHF takes, from the verdicts on responses."""
    import torch

    responses = [_response(query, prompt) for query, prompt in zip(queries, prompts)]
    verdicts = judge([response or "" for response in responses])
    given = [None if response is None else verdict.reward for response, verdict in zip(responses, verdicts)]
    invalid = _invalid_reward()
    rewards = torch.tensor([invalid if reward is None else reward for reward in given])
    counted = torch.tensor([float(reward is None) for reward in given])
    return {"rewards": rewards, "scores": rewards, "extra_logs": {"invalid": counted}}


def _invalid_reward() -> float:
    text = os.environ.get("EVENKEEL_INVALID_REWARD", "0")
    try:
        reward = float(text)
    except ValueError:
        reward = float("nan")
    if not abs(reward) < float("inf"):
        raise ArgumentValueError(f"EVENKEEL_INVALID_REWARD is {text!r}, allowed: a finite number")
    return reward


def _response(query: str, prompt: str) -> str | None:
    """What follows the prompt, before which there may be a token that begins the text. None if the prompt is not there as it was: an answer within it
    must not count as one of the response.
    """
    _, found, response = query.partition(prompt) if prompt else ("", "", query)
    return response if found == prompt else None
