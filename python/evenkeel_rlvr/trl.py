"""TRL: reward functions for `GRPOTrainer`, and `BalancedGRPOTrainer`. TRL is imported only where the trainer is used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from . import verify_math_batch
from ._adapter import completion_text, gold_answer, prompt_text
from .errors import ArgumentValueError

if TYPE_CHECKING:
    from ._trl_trainer import BalancedGRPOTrainer as BalancedGRPOTrainer

__all__ = ["BalancedGRPOTrainer", "code_reward", "math_reward"]


def math_reward(
    column: str = "answer", *, name: str = "evenkeel_math", use_prompts: bool = True, threads: int | None = None, **policy: Any
) -> Callable[..., list[float | None]]:
    """A reward function for mathematics: 1.0, 0.0, and None for an invalid verdict, which TRL leaves out of the group's mean.

    `column` of the data set has the gold answers; `name` is the name of TRL's metrics, different for each function of a trainer. With
    `use_prompts` an answer copied from the prompt is wrong. `profile` and single rules are those of `verify_math`. The metric
    `NAME/invalid_share` is the share of invalid verdicts.
    """

    def reward(
        prompts: Sequence[Any],
        completions: Sequence[Any],
        log_metric: Callable[[str, float], None] | None = None,
        **columns: Any,
    ) -> list[float | None]:
        verdicts = verify_math_batch(
            [completion_text(completion) for completion in completions],
            [gold_answer(gold, f"{column}[{row}]") for row, gold in enumerate(_column(columns, column))],
            prompts=[prompt_text(prompt) for prompt in prompts] if use_prompts else None,
            threads=threads,
            **policy,
        )
        return _rewards(name, verdicts, log_metric)

    reward.__name__ = reward.__qualname__ = name
    return reward


def code_reward(
    column: str = "tests", *, name: str = "evenkeel_code", address: str | None = None, partial: bool = False, workers: int | None = None
) -> Callable[..., list[float | None]]:
    """A reward function for programs: 1.0, 0.0, and None for an invalid verdict.

    They are judged by the reward service at `address` or EVENKEEL_REWARD; without either by a pool of `workers` in each of the trainer's processes, by
    default one for each processor.

    `column` has the tests: `inputs`, `outputs` and perhaps `fn_name`, or the columns of LiveCodeBench; also as JSON. With `partial` the reward is
    the share of tests that passed.
    """

    def reward(
        prompts: Sequence[Any],
        completions: Sequence[Any],
        log_metric: Callable[[str, float], None] | None = None,
        **columns: Any,
    ) -> list[float | None]:
        from ._programs import judge_programs

        texts = [completion_text(completion) for completion in completions]
        verdicts = judge_programs(texts, _column(columns, column), address=address, partial=partial, workers=workers)
        return _rewards(name, verdicts, log_metric)

    reward.__name__ = reward.__qualname__ = name
    return reward


def _column(columns: dict[str, Any], column: str) -> Any:
    if column not in columns:
        known = ", ".join(sorted(key for key, value in columns.items() if isinstance(value, list))) or "none"
        raise ArgumentValueError(f"column is {column!r}, allowed: a column of the data set ({known})")
    return columns[column]


def _rewards(name: str, verdicts: Sequence[Any], log_metric: Callable[[str, float], None] | None) -> list[float | None]:
    if log_metric is not None and verdicts:
        log_metric(f"{name}/invalid_share", sum(verdict.is_invalid for verdict in verdicts) / len(verdicts))
    return [verdict.reward for verdict in verdicts]


def __getattr__(name: str) -> Any:
    if name == "BalancedGRPOTrainer":
        from ._trl_trainer import BalancedGRPOTrainer

        return BalancedGRPOTrainer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
