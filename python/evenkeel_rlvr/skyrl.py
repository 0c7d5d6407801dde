"""SkyRL: the environments `evenkeel_math` and `evenkeel_code` and the advantage estimator `balanced`.

SkyRL finds neither by itself: call `register()` in the process that generates and trains, inside the Ray task of its entry point, and set
`environment.env_class=evenkeel_math`, `trainer.algorithm.advantage_estimator=balanced` and `trainer.algorithm.loss_reduction=prompt_mean`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import verify_math
from ._adapter import finite_number, gold_answer, prompt_text, require_tested
from ._programs import judge_program
from ._skyrl_settings import SkyrlSettings
from .errors import ArgumentValueError, MissingPackage

try:
    from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput
except ImportError as error:
    raise MissingPackage(f"evenkeel_rlvr.skyrl needs SkyRL: {error}") from error

__all__ = ["CodeEnv", "MathEnv", "balanced_advantage", "register"]


class _OneTurn(BaseTextEnv):  # type: ignore[misc, unused-ignore]
    """One turn, judged by `reward_spec.ground_truth` of the row.

    SkyRL cannot leave a response out: an invalid verdict has the reward `on_invalid` of the environment's configuration (0 by default), and the
    metric `invalid` counts it.
    """

    _TRUTH = ""

    def __init__(self, env_config: Mapping[str, Any] | None = None, extras: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        spec = (extras or {}).get("reward_spec") or {}
        if "ground_truth" not in spec:
            raise ArgumentValueError(f"extras has no reward_spec.ground_truth, required: {self._TRUTH}")
        self._truth = spec["ground_truth"]
        self._on_invalid = finite_number("on_invalid", _setting(env_config, "on_invalid", 0.0))
        self._prompt: str | None = None
        self._invalid = False

    def init(self, prompt: Any) -> tuple[Any, dict[str, Any]]:
        self._prompt = prompt_text(prompt)
        return prompt, {}

    def step(self, action: str) -> BaseTextEnvStepOutput:
        self.turns += 1
        verdict = self._judge(action)
        self._invalid = verdict.is_invalid
        return BaseTextEnvStepOutput(
            observations=[],
            reward=self._on_invalid if verdict.reward is None else verdict.reward,
            done=True,
            metadata={"invalid": verdict.is_invalid, "reason": verdict.reason},
        )

    def get_metrics(self) -> dict[str, Any]:
        return {"invalid": float(self._invalid)}

    def _judge(self, action: str) -> Any:
        raise NotImplementedError


class MathEnv(_OneTurn):
    """One turn of mathematics; the gold answer is `reward_spec.ground_truth` of the row. An invalid verdict has the reward `on_invalid` (0)."""

    _TRUTH = "the gold answer"

    def __init__(self, env_config: Mapping[str, Any] | None = None, extras: Mapping[str, Any] | None = None) -> None:
        super().__init__(env_config, extras)
        self._gold = gold_answer(self._truth, "reward_spec.ground_truth")

    def _judge(self, action: str) -> Any:
        return verify_math(action, self._gold, prompt=self._prompt) if self._prompt else verify_math(action, self._gold)


class CodeEnv(_OneTurn):
    """One turn of a program; the tests are `reward_spec.ground_truth` of the row: `inputs`, `outputs` and perhaps `fn_name`, or the columns of
    LiveCodeBench; also as JSON. Programs are judged by the reward service at `address` of the environment's configuration or EVENKEEL_REWARD, without
    either by a pool of `workers` in this process. With `partial` the reward is the share of tests that passed, and an invalid verdict has the reward
    `on_invalid` (0).
    """

    _TRUTH = "the tests"

    def __init__(self, env_config: Mapping[str, Any] | None = None, extras: Mapping[str, Any] | None = None) -> None:
        super().__init__(env_config, extras)
        self._address = _setting(env_config, "address", None)
        self._partial = _setting(env_config, "partial", False)
        self._workers = _setting(env_config, "workers", None)

    def _judge(self, action: str) -> Any:
        return judge_program(action, self._truth, address=self._address, partial=self._partial, workers=self._workers)


def _setting(config: Any, name: str, default: Any) -> Any:
    """Of a mapping, an object with attributes, or nothing."""
    value = config.get(name) if hasattr(config, "get") else getattr(config, name, None)
    return default if value is None else value


def balanced_advantage(
    token_level_rewards: Any, response_mask: Any, index: Any, config: Any = None, grpo_norm_by_std: bool = True, **_: Any
) -> tuple[Any, Any]:
    """Advantages with which SkyRL's own loss is that of balanced aggregation; as returns, those without the factor."""
    settings = SkyrlSettings.read(config, bool(grpo_norm_by_std), step_wise=response_mask.is_floating_point())
    rewards = token_level_rewards.detach().double().sum(dim=-1).cpu().numpy()
    rows = settings.advantages(rewards, response_mask, list(index))
    folded, plain = (token_level_rewards.new_tensor(row).unsqueeze(-1) * response_mask for row in rows)
    return folded, plain


def register() -> None:
    """Registers the environments and the estimator. Calling it again does nothing."""
    import skyrl_gym
    from skyrl.backends.skyrl_train.utils.ppo_utils import AdvantageEstimatorRegistry, register_advantage_estimator

    require_tested("skyrl")
    require_tested("skyrl-gym")
    for name, entry_point in (("evenkeel_math", "MathEnv"), ("evenkeel_code", "CodeEnv")):
        if name not in skyrl_gym.envs.registration.registry:
            skyrl_gym.register(id=name, entry_point=f"evenkeel_rlvr.skyrl:{entry_point}")
    if "balanced" not in AdvantageEstimatorRegistry.list_available():
        register_advantage_estimator("balanced")(balanced_advantage)
