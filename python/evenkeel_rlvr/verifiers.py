"""verifiers 0.4 (module `verifiers.v1`) and prime-rl: rewards by path, `fn = "evenkeel_rlvr.verifiers:math"`, and `:code` for programs.

They have to be asynchronous there: a plain function would leave every trace without a reward.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from . import verify_math
from ._adapter import gold_answer, prompt_text
from .errors import ArgumentValueError, InvalidVerdict

__all__ = ["code", "code_reward", "math", "math_reward"]

_ABSENT = object()


def math_reward(field: str = "answer", *, use_prompts: bool = True, **policy: Any) -> Callable[[Any, Any], Awaitable[float]]:
    """A reward for tasks that have the gold answer in another field, or with other rules: assign it to a name of a module of yours.

    An invalid verdict raises `InvalidVerdict`: verifiers makes it an error of the trace, and prime-rl leaves the trace out of its group.
    """

    async def reward(task: Any, trace: Any) -> float:
        gold = getattr(task, field, _ABSENT)
        if gold is _ABSENT:
            raise ArgumentValueError(f"field is {field!r}, allowed: a field of the task, {type(task).__name__}")
        prompt = prompt_text(getattr(task, "prompt", None)) if use_prompts else None
        reply = trace.last_reply or ""
        verdict = await asyncio.to_thread(verify_math, reply, gold_answer(gold, field), prompt=prompt, **policy)
        if verdict.reward is None:
            raise InvalidVerdict(f"the trace cannot be judged ({verdict.reason}: {verdict.detail})")
        return verdict.reward

    return reward


def code_reward(
    field: str = "tests", *, address: str | None = None, partial: bool = False, workers: int | None = None
) -> Callable[[Any, Any], Awaitable[float]]:
    """A reward for tasks that are programs, with the tests in this field: `inputs`, `outputs` and perhaps `fn_name`, or the columns of LiveCodeBench; also
    as JSON. They are judged by the reward service at `address` or EVENKEEL_REWARD, without either by a pool of `workers` in this process. With `partial`
    the reward is the share of tests that passed. An invalid verdict raises `InvalidVerdict`.
    """

    async def reward(task: Any, trace: Any) -> float:
        from ._programs import judge_program

        tests = getattr(task, field, _ABSENT)
        if tests is _ABSENT:
            raise ArgumentValueError(f"field is {field!r}, allowed: a field of the task, {type(task).__name__}")
        reply = trace.last_reply or ""
        verdict = await asyncio.to_thread(judge_program, reply, tests, address=address, partial=partial, workers=workers)
        if verdict.reward is None:
            raise InvalidVerdict(f"the trace cannot be judged ({verdict.reason}: {verdict.detail})")
        return verdict.reward

    return reward


#: Of tasks with the field `answer`.
math = math_reward()
#: Of tasks with the field `tests`.
code = code_reward()
