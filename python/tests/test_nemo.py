"""The module for NeMo-RL against stand-ins for what NeMo-RL has: its environments' results, its registries, and what its losses divide by."""

import sys
from types import ModuleType, SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
from formula import clipped, direct

from evenkeel_rlvr import errors, nemo
from evenkeel_rlvr._outcome import group_advantages

RESPONSES, PROMPTS, WIDTH = 6, 8, 20
ROWS = RESPONSES * PROMPTS
GROUPS = np.arange(ROWS) // RESPONSES


class EnvironmentReturn(NamedTuple):
    observations: list
    metadata: list
    next_stop_strings: list
    rewards: object
    terminateds: object
    answers: object


@pytest.fixture(autouse=True)
def nemo_rl(monkeypatch):
    """The modules of NeMo-RL that are used, and tensors that are arrays."""

    def module(name, **members):
        made = ModuleType(name)
        made.__dict__.update(members)
        monkeypatch.setitem(sys.modules, name, made)
        return made

    module("torch", tensor=np.array, ones_like=np.ones_like, Tensor=type("Tensor", (), {}))
    module("nemo_rl.environments.interfaces", EnvironmentReturn=EnvironmentReturn)
    registry, interpreters = {}, {}

    def register_env(name, path):
        assert name not in registry, "NeMo-RL refuses a name that it has"
        registry[name] = {"actor_class_fqn": path}

    module("nemo_rl.environments.utils", ENV_REGISTRY=registry, register_env=register_env)
    module("nemo_rl.distributed.ray_actor_environment_registry", ACTOR_ENVIRONMENT_REGISTRY=interpreters)
    module("nemo_rl.distributed.virtual_cluster", PY_EXECUTABLES=SimpleNamespace(SYSTEM="python"))
    module("ray", remote=lambda cls: ("actor", cls))
    return SimpleNamespace(registry=registry, interpreters=interpreters)


def conversation(*replies, prompt="What is 2+2?"):
    return [{"role": "user", "content": prompt}, *({"role": "assistant", "content": reply} for reply in replies)]


def test_each_conversation_has_the_reward_of_its_verdict_and_ends():
    logs = [conversation(r"\boxed{4}"), conversation(r"\boxed{5}"), conversation(r"\boxed{2+2}"), conversation("so ", r"\boxed{4}"), conversation("x")]
    golds = ["4", 4, "4", ["3", "4"], ""]
    result = nemo.MathJudge({"num_workers": 8, "on_invalid": -0.5}).step(logs, [{"ground_truth": gold, "kept": 1} for gold in golds])
    # The third is copied from the prompt, the last has no gold answer.
    assert result.rewards.tolist() == [1.0, 0.0, 0.0, 1.0, -0.5] and result.terminateds.tolist() == [1.0] * 5
    assert [known["evenkeel_invalid"] for known in result.metadata] == [False, False, False, False, True]
    assert all(known["kept"] == 1 for known in result.metadata) and result.answers[0] == "4"
    assert result.observations[0] == {"role": "environment", "content": "correct: equal_integer"}


def test_invalid_verdicts_are_counted():
    batch = {
        "rewards": np.array([1.0, 0.0, 1.0]),
        "is_end": np.array([1.0, 1.0, 0.0]),
        "extra_env_info": [{"evenkeel_invalid": False}, {"evenkeel_invalid": True}, {"evenkeel_invalid": False}],
    }
    batch = {name: value.view(Array) if isinstance(value, np.ndarray) else value for name, value in batch.items()}
    same, metrics = nemo.MathJudge().global_post_process_and_metrics(batch)
    assert same is batch and metrics["invalid_share"] == pytest.approx(1 / 3) and metrics["accuracy"] == pytest.approx(1 / 3)


class Array(np.ndarray):
    """An array that can be asked as a tensor."""

    def float(self):
        return np.asarray(self, dtype=np.float64)


def test_settings_that_do_not_exist_and_rows_without_a_gold_answer_are_refused():
    with pytest.raises(errors.ArgumentValueError, match="^on_invalid is 'skip', allowed: a finite number"):
        nemo.MathJudge({"on_invalid": "skip"})
    with pytest.raises((errors.ArgumentValueError, errors.ArgumentTypeError), match="on_invald"):
        nemo.MathJudge({"on_invald": 0}).step([conversation("x")], [{"ground_truth": "4"}])
    for metadata in (None, {}, {"answer": "4"}):
        with pytest.raises(errors.ArgumentValueError, match=r"^metadata\[0\] has no ground_truth"):
            nemo.MathJudge().step([conversation("x")], [metadata])


def test_the_environments_are_registered_once_with_an_interpreter(nemo_rl):
    nemo.register()
    nemo.register()
    paths = {"evenkeel_math": "evenkeel_rlvr.nemo.MathEnv", "evenkeel_code": "evenkeel_rlvr.nemo.CodeEnv"}
    assert nemo_rl.registry == {name: {"actor_class_fqn": path} for name, path in paths.items()}
    assert nemo_rl.interpreters == dict.fromkeys(paths.values(), "python")
    assert (nemo.MathEnv, nemo.CodeEnv) == (("actor", nemo.MathJudge), ("actor", nemo.CodeJudge))


def test_without_nemo_rl_it_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "nemo_rl.environments.utils", None)
    with pytest.raises(errors.MissingPackage, match="needs NeMo-RL"):
        nemo.register()


@pytest.mark.parametrize("token_level_loss", [True, False])
def test_nemos_loss_becomes_balanced(token_level_loss):
    numbers = np.random.default_rng(5)
    mask = (np.arange(WIDTH)[None] < numbers.integers(1, WIDTH + 1, (ROWS, 1))).astype(float)
    samples = np.ones(ROWS)
    samples[[5, 17, 29]] = 0
    # A prompt without any sample is in no count.
    samples[-RESPONSES:] = 0
    rewards = numbers.integers(0, 2, ROWS).astype(float)
    rewards[:RESPONSES] = 1.0
    advantages = group_advantages(rewards, GROUPS, by_deviation=True)
    ratio = np.exp(0.3 * numbers.normal(size=(ROWS, WIDTH)))
    # A token more in front, which no loss has; even if it is said to count.
    padded = np.concatenate([np.ones((ROWS, 1)), mask], axis=1) * samples[:, None]
    prompts = np.stack([GROUPS, GROUPS * 3], axis=1)[::-1].copy()[::-1]

    folded = nemo.fold_advantages(
        np.repeat(advantages[:, None], WIDTH + 1, axis=1), padded, prompts, token_level_loss=token_level_loss, sample_mask=samples
    )
    counted = mask * samples[:, None]
    summed = -(clipped(ratio, folded[:, 0]) * counted).sum(1)
    got = summed.sum() / counted.sum() if token_level_loss else (summed / mask.sum(1)).sum() / samples.sum()
    assert got == pytest.approx(direct(clipped(ratio, advantages), advantages, counted, GROUPS, samples > 0), rel=1e-9)
    # Without folding, it is another loss.
    plain = -(clipped(ratio, advantages) * counted).sum(1)
    assert plain.sum() / counted.sum() != pytest.approx(got, rel=1e-2)


def test_advantages_that_differ_along_a_row_are_refused():
    with pytest.raises(errors.UnsupportedSetting, match="^advantages differ along a row"):
        nemo.fold_advantages([[1.0, 2.0]], [[1, 1]], [0], token_level_loss=True)
    with pytest.raises(errors.ArgumentValueError, match=r"^the shape of advantages is \(1, 1\), allowed: that of mask"):
        nemo.fold_advantages([[1.0]], [[1, 1]], [0], token_level_loss=True)
