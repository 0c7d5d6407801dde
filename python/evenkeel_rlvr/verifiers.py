"""verifiers 0.4 (module `verifiers.v1`) and prime-rl: rewards by path, `fn = "evenkeel_rlvr.verifiers:math"`.

They have to be asynchronous there: a plain function would leave every trace without a reward.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from . import verify_math
from ._adapter import gold_answer, prompt_text
from .errors import ArgumentValueError, InvalidVerdict

__all__ = ["math", "math_reward"]

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


#: Of tasks with the field `answer`.
math = math_reward()
