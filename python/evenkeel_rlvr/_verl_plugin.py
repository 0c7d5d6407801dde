"""What verl loads by itself, by the entry point `verl.plugins`, in every process: registers the advantage estimator `balanced`.

verl hides why a plug-in fails; `python -m evenkeel_rlvr doctor verl` says it.
"""

from __future__ import annotations

from typing import Any

from verl.trainer.ppo.core_algos import register_adv_est

from ._adapter import require_tested
from ._verl_settings import VerlSettings
from .errors import UnsupportedSetting

require_tested("verl")


def compute_balanced_advantage(
    token_level_rewards: Any, response_mask: Any, config: Any = None, index: Any = None, **_: Any
) -> tuple[Any, Any]:
    """Advantages with which verl's own loss is that of balanced aggregation; as returns, those without the factor.

    `token_level_rewards` and `response_mask` are rows × tokens, `index` has the prompt of each row.
    """
    settings = VerlSettings.read(config)
    if index is None:
        raise UnsupportedSetting("algorithm.adv_estimator=balanced: the batch has no uid, required: the prompt of each response")
    rewards = token_level_rewards.detach().double().sum(dim=-1).cpu().numpy()
    rows = settings.advantages(rewards, response_mask, index)
    folded, plain = (token_level_rewards.new_tensor(row).unsqueeze(-1) * response_mask for row in rows)
    return folded, plain


register_adv_est("balanced")(compute_balanced_advantage)
