"""NeMo-RL: the environment `evenkeel_math`, and advantages with which its loss is that of balanced aggregation.

NeMo-RL finds neither by itself: call `register()` before `create_env`, and put `fold_advantages` behind its estimator (docs/python.md has the lines).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from . import verify_math_batch
from ._adapter import finite_number, gold_answer, prompt_text
from .balanced import _like, _numpy, _plain, fold
from .errors import ArgumentValueError, MissingPackage, UnsupportedSetting

__all__ = ["Judge", "fold_advantages", "register"]

_NAME = "evenkeel_math"
_CLASS = "evenkeel_rlvr.nemo.MathEnv"


class Judge:
    """One turn of mathematics for many conversations; the gold answer is `ground_truth` of each row's metadata. `MathEnv` is this as a Ray actor.

    NeMo-RL cannot leave a response out by its reward: an invalid verdict has the reward `on_invalid` of the environment's configuration (0 by
    default), and the metric `invalid_share` counts it.
    """

    def __init__(self, cfg: Mapping[str, Any] | None = None) -> None:
        settings = dict(cfg or {})
        # Those of NeMo-RL's own environment, which a configuration may still have.
        for name in ("num_workers", "verifier_type", "math_verify_impl", "stop_strings"):
            settings.pop(name, None)
        self._on_invalid = finite_number("on_invalid", settings.pop("on_invalid", 0.0))
        # `profile` and single rules.
        self._policy = settings

    def step(self, message_log_batch: Sequence[Any], metadata: Sequence[Any]) -> Any:
        """Rewards of the assistant's words in each conversation, which then ends."""
        import torch
        from nemo_rl.environments.interfaces import EnvironmentReturn

        golds = []
        for row, known in enumerate(metadata):
            if not isinstance(known, Mapping) or "ground_truth" not in known:
                raise ArgumentValueError(f"metadata[{row}] has no ground_truth, required: the gold answer")
            golds.append(gold_answer(known["ground_truth"], f"metadata[{row}].ground_truth"))
        verdicts = verify_math_batch(
            ["".join(str(message["content"]) for message in log if message["role"] == "assistant") for log in message_log_batch],
            golds,
            prompts=[prompt_text(log) for log in message_log_batch],
            **self._policy,
        )
        rewards = torch.tensor([self._on_invalid if verdict.reward is None else verdict.reward for verdict in verdicts])
        return EnvironmentReturn(
            observations=[{"role": "environment", "content": f"{verdict.outcome}: {verdict.reason}"} for verdict in verdicts],
            metadata=[{**known, "evenkeel_invalid": verdict.is_invalid} for known, verdict in zip(metadata, verdicts)],
            next_stop_strings=[None] * len(verdicts),
            rewards=rewards,
            terminateds=torch.ones_like(rewards),
            answers=[verdict.extracted for verdict in verdicts],
        )

    def global_post_process_and_metrics(self, batch: Any) -> tuple[Any, dict[str, float]]:
        """The batch as it is; the mean reward of responses that ended, and the share of invalid verdicts."""
        rewards = batch["rewards"] * batch["is_end"]
        known = batch["extra_env_info"] if "extra_env_info" in batch else []
        invalid = [bool(row.get("evenkeel_invalid")) for row in known if isinstance(row, Mapping)]
        return batch, {
            "accuracy": float((rewards == 1).float().mean()),
            "reward": float(rewards.float().mean()),
            "invalid_share": sum(invalid) / len(invalid) if invalid else 0.0,
            "fraction_of_samples_properly_ended": float(batch["is_end"].float().mean()),
        }

    def shutdown(self) -> None:
        """Nothing is kept."""


def fold_advantages(advantages: Any, mask: Any, prompt_ids: Any, *, token_level_loss: bool, sample_mask: Any = None) -> Any:
    """Advantages (rows × tokens) with which NeMo-RL's own loss is that of balanced aggregation.

    `advantages` are those of its GRPO estimator, one value along each row; `mask` is its token mask × sample mask, `prompt_ids` has the tokens of the
    prompt of each row, or one number for each prompt; `token_level_loss` is that of its loss. Rows without a token in the mask are left out; without
    `sample_mask` they are taken for rows that the trainer leaves out too. Exact if a global batch has whole groups
    (`num_prompts_per_step` × `num_generations_per_prompt` = `train_global_batch_size`).
    """
    np = _numpy()
    values, tokens = np.asarray(_plain(advantages), dtype=np.float64), np.asarray(_plain(mask))
    if values.shape != tokens.shape or values.ndim != 2:
        raise ArgumentValueError(f"the shape of advantages is {values.shape}, allowed: that of mask, {tokens.shape}, rows and tokens")
    if values.size and (values != values[:, :1]).any():
        raise UnsupportedSetting("advantages differ along a row, allowed: one value for each response, as those of GRPO")
    # The loss predicts each token from those before it, so that the first one is never in it.
    counted = tokens[:, 1:]
    valid = (counted != 0).any(axis=1)
    prompts = np.asarray(_plain(prompt_ids))
    groups = np.unique(prompts.reshape(len(prompts), -1), axis=0, return_inverse=True)[1].reshape(-1)
    if token_level_loss:
        folded = fold(values[:, 0], counted, groups, divisor="token-mean", valid=valid)
    else:
        kept = valid if sample_mask is None else np.asarray(_plain(sample_mask)) != 0
        folded = fold(values[:, 0], counted, groups, divisor="seq-mean-token-mean", valid=valid, rows=max(int(kept.sum()), 1))
    return _like(advantages, np.repeat(folded[:, None], values.shape[1], axis=1))


def register() -> None:
    """Registers the environment, which then runs in NeMo-RL's own interpreter. Calling it again does nothing."""
    try:
        from nemo_rl.distributed.ray_actor_environment_registry import ACTOR_ENVIRONMENT_REGISTRY
        from nemo_rl.distributed.virtual_cluster import PY_EXECUTABLES
        from nemo_rl.environments.utils import ENV_REGISTRY, register_env
    except ImportError as error:
        raise MissingPackage(f"evenkeel_rlvr.nemo.register needs NeMo-RL: {error}") from error
    ACTOR_ENVIRONMENT_REGISTRY.setdefault(_CLASS, PY_EXECUTABLES.SYSTEM)
    if _NAME not in ENV_REGISTRY:
        register_env(_NAME, _CLASS)


def __getattr__(name: str) -> Any:
    if name == "MathEnv":
        import ray

        return ray.remote(Judge)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
