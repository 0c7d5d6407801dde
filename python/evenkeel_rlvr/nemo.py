"""NeMo-RL: the environments `evenkeel_math` and `evenkeel_code`, and advantages with which its loss is that of balanced aggregation.

NeMo-RL finds neither by itself: call `register()` before `create_env`, and put `fold_advantages` behind its estimator (docs/python.md has the lines).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from . import verify_math_batch
from ._adapter import finite_number, gold_answer, prompt_text
from ._programs import judge_programs
from .balanced import _like, _numpy, _plain, fold
from .errors import ArgumentValueError, MissingPackage, UnsupportedSetting

__all__ = ["CodeJudge", "MathJudge", "fold_advantages", "register"]

#: Environments, and the classes that are their Ray actors.
_CLASSES = {"evenkeel_math": "evenkeel_rlvr.nemo.MathEnv", "evenkeel_code": "evenkeel_rlvr.nemo.CodeEnv"}


class _Judge:
    """One turn for many conversations, judged by `ground_truth` of each row's metadata.

    NeMo-RL cannot leave a response out by its reward: an invalid verdict has the reward `on_invalid` of the environment's configuration (0 by
    default), and the metric `invalid_share` counts it.
    """

    _TRUTH = ""

    def __init__(self, cfg: Mapping[str, Any] | None = None) -> None:
        settings = dict(cfg or {})
        # Those of NeMo-RL's own environment, which a configuration may still have.
        for name in ("num_workers", "verifier_type", "math_verify_impl", "stop_strings"):
            settings.pop(name, None)
        self._on_invalid = finite_number("on_invalid", settings.pop("on_invalid", 0.0))
        self._settings = settings

    def step(self, message_log_batch: Sequence[Any], metadata: Sequence[Any]) -> Any:
        """Rewards of the assistant's words in each conversation, which then ends."""
        import torch
        from nemo_rl.environments.interfaces import EnvironmentReturn

        for row, known in enumerate(metadata):
            if not isinstance(known, Mapping) or "ground_truth" not in known:
                raise ArgumentValueError(f"metadata[{row}] has no ground_truth, required: {self._TRUTH}")
        said = ["".join(str(message["content"]) for message in log if message["role"] == "assistant") for log in message_log_batch]
        verdicts = self._judge(said, [prompt_text(log) for log in message_log_batch], [known["ground_truth"] for known in metadata])
        rewards = torch.tensor([self._on_invalid if verdict.reward is None else verdict.reward for verdict in verdicts])
        return EnvironmentReturn(
            observations=[{"role": "environment", "content": f"{verdict.outcome}: {verdict.reason}"} for verdict in verdicts],
            metadata=[{**known, "evenkeel_invalid": verdict.is_invalid} for known, verdict in zip(metadata, verdicts)],
            next_stop_strings=[None] * len(verdicts),
            rewards=rewards,
            terminateds=torch.ones_like(rewards),
            answers=[getattr(verdict, "extracted", None) for verdict in verdicts],
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

    def _judge(self, said: list[str], prompts: list[str | None], truths: list[Any]) -> Sequence[Any]:
        raise NotImplementedError


class MathJudge(_Judge):
    """Mathematics; `ground_truth` is the gold answer, and the configuration may have `profile` and single rules. `MathEnv` is this as a Ray actor."""

    _TRUTH = "the gold answer"

    def _judge(self, said: list[str], prompts: list[str | None], truths: list[Any]) -> Sequence[Any]:
        golds = [gold_answer(truth, f"metadata[{row}].ground_truth") for row, truth in enumerate(truths)]
        return verify_math_batch(said, golds, prompts=prompts, **self._settings)


class CodeJudge(_Judge):
    """Programs; `ground_truth` has the tests: `inputs`, `outputs` and perhaps `fn_name`, or the columns of LiveCodeBench; also as JSON. They are judged by
    the reward service at `address` of the configuration or EVENKEEL_REWARD, without either by a pool of `workers` in the actor. With `partial` the reward
    is the share of tests that passed. `CodeEnv` is this as a Ray actor.
    """

    _TRUTH = "the tests"

    def __init__(self, cfg: Mapping[str, Any] | None = None) -> None:
        super().__init__(cfg)
        unknown = set(self._settings) - {"address", "partial", "workers"}
        if unknown:
            raise ArgumentValueError(f"the configuration has {sorted(unknown)}, allowed: address, on_invalid, partial, workers")

    def _judge(self, said: list[str], prompts: list[str | None], truths: list[Any]) -> Sequence[Any]:
        return judge_programs(said, truths, **{"address": None, "partial": False, **self._settings})


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
    """Registers the environments, which then run in NeMo-RL's own interpreter. Calling it again does nothing."""
    try:
        from nemo_rl.distributed.ray_actor_environment_registry import ACTOR_ENVIRONMENT_REGISTRY
        from nemo_rl.distributed.virtual_cluster import PY_EXECUTABLES
        from nemo_rl.environments.utils import ENV_REGISTRY, register_env
    except ImportError as error:
        raise MissingPackage(f"evenkeel_rlvr.nemo.register needs NeMo-RL: {error}") from error
    for name, actor in _CLASSES.items():
        ACTOR_ENVIRONMENT_REGISTRY.setdefault(actor, PY_EXECUTABLES.SYSTEM)
        if name not in ENV_REGISTRY:
            register_env(name, actor)


def __getattr__(name: str) -> Any:
    if name in ("MathEnv", "CodeEnv"):
        import ray

        return ray.remote(MathJudge if name == "MathEnv" else CodeJudge)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
