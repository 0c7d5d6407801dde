"""OpenRLHF: `--reward.remote_url $(python -m evenkeel_rlvr path openrlhf)`.

OpenRLHF runs this file by its path, once for each response, and has no way to leave one out: an invalid verdict has the reward of
EVENKEEL_INVALID_REWARD (0 by default) and is counted in `extra_logs`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from evenkeel_rlvr import verify_math_batch
from evenkeel_rlvr._adapter import gold_answer


def reward_func(queries: Sequence[str], prompts: Sequence[str], labels: Sequence[Any], **_: Any) -> dict[str, Any]:
    """Rewards of responses; a query is the prompt and the response, decoded with special tokens."""
    import torch

    responses = [query[len(prompt) :] if query.startswith(prompt) else query for query, prompt in zip(queries, prompts)]
    golds = [gold_answer(label, f"labels[{row}]") for row, label in enumerate(labels)]
    verdicts = verify_math_batch(responses, golds, prompts=list(prompts))
    invalid = float(os.environ.get("EVENKEEL_INVALID_REWARD", "0"))
    rewards = torch.tensor([invalid if verdict.reward is None else verdict.reward for verdict in verdicts])
    counted = torch.tensor([float(verdict.is_invalid) for verdict in verdicts])
    return {"rewards": rewards, "scores": rewards, "extra_logs": {"invalid": counted}}
