"""OpenRLHF, for programs: `--reward.remote_url $(python -m evenkeel_rlvr path openrlhf_code)`.

Labels are the tests: `inputs`, `outputs` and perhaps `fn_name`, or the columns of LiveCodeBench, as JSON. Programs are judged by the reward service at
EVENKEEL_REWARD, or by a sandbox in the process that runs this file. The rest is as in `openrlhf.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evenkeel_rlvr._programs import judge_programs
from evenkeel_rlvr.openrlhf import rewards_of


def reward_func(queries: Sequence[str], prompts: Sequence[str], labels: Sequence[Any], **_: Any) -> dict[str, Any]:
    """Rewards of responses; a query is the prompt and the response, decoded with special tokens."""

    def judge(responses: list[str]) -> Sequence[Any]:
        return judge_programs(responses, labels, address=None, partial=False)

    return rewards_of(queries, prompts, judge)
