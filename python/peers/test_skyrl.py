"""SkyRL as installed: its losses' gradients are those of balanced aggregation, and its environment is found by name."""

import random

import numpy as np
import pytest
import skyrl_gym
import torch
from skyrl.backends.skyrl_train.utils.ppo_utils import (
    PolicyLossRegistry,
    apply_loss_reduction_to_advantages_minibatch,
    compute_advantages_and_returns,
)
from skyrl.train.config.config import AlgorithmConfig

from direct import direct_loss, group_advantages, relative_error
from evenkeel_rlvr import errors
from evenkeel_rlvr._skyrl_settings import DIVISORS, LOSSES
from evenkeel_rlvr.skyrl import register

RESPONSES, PROMPTS, WIDTH = 6, 8, 40
ROWS = RESPONSES * PROMPTS
UIDS = [f"u{row // RESPONSES}" for row in range(ROWS)]

register()


@pytest.fixture(scope="module")
def batch():
    torch.manual_seed(1)
    lengths = torch.randint(1, WIDTH + 1, (ROWS,))
    # SkyRL's responses are right-aligned.
    mask = (torch.arange(WIDTH)[None] >= WIDTH - lengths[:, None]).long()
    rewards = torch.randint(0, 2, (ROWS,)).float()
    rewards[RESPONSES : 2 * RESPONSES] = 0.1
    rewards[2 * RESPONSES : 3 * RESPONSES] = torch.rand(RESPONSES)
    old = -torch.rand(ROWS, WIDTH).double() * 2
    return mask, rewards, old, old + 0.3 * torch.randn(ROWS, WIDTH).double()


def config(**settings):
    algorithm = AlgorithmConfig()
    for name, value in {"loss_reduction": "prompt_mean", "max_seq_len": WIDTH, "eps_clip_high": 0.28, **settings}.items():
        setattr(algorithm, name, value)
    return algorithm


def estimate(batch, algorithm, mask=None):
    rewards = torch.zeros(ROWS, WIDTH)
    rewards[:, -1] = batch[1]
    mask = batch[0] if mask is None else mask
    return compute_advantages_and_returns(rewards, mask, np.array(UIDS), "balanced", algorithm)


def terms_of(loss, logp, old, mask, advantages, c):
    ratio, a = (logp - old).exp(), advantages[:, None]
    clipped = lambda ratio: torch.minimum(ratio * a, ratio.clamp(1 - c.eps_clip_low, 1 + c.eps_clip_high) * a)  # noqa: E731
    if loss == "regular":
        return clipped(ratio)
    if loss == "dual_clip":
        return torch.where(a < 0, torch.maximum(clipped(ratio), c.clip_ratio_c * a), clipped(ratio))
    if loss == "cispo":
        return ratio.clamp(1 - c.cispo.cispo_eps_clip_low, 1 + c.cispo.cispo_eps_clip_high).detach() * a * logp
    if loss == "sapo":
        temperature = torch.where(a > 0, c.sapo.tau_pos, c.sapo.tau_neg).double()
        return torch.sigmoid(temperature * (ratio - 1)) * 4 / temperature * a
    assert loss == "gspo"
    mean = ((logp - old) * mask).sum(1) / mask.sum(1)
    return clipped((logp - logp.detach() + mean.detach()[:, None]).exp())


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("reduction", DIVISORS)
def test_the_gradient_is_that_of_balanced_aggregation(gradient_error, batch, reduction, loss):
    mask, rewards, old, start = batch
    algorithm = config(loss_reduction=reduction, policy_loss_type=loss)
    folded, _ = estimate(batch, algorithm)
    advantages = torch.cat([group_advantages(group) for group in rewards.view(PROMPTS, RESPONSES)])
    got = want = 0
    logp = start.clone().requires_grad_(True)
    # Two mini-batches of whole prompts, each on two ranks in micro-batches that split prompts.
    for begin, end in ((0, ROWS // 2), (ROWS // 2, ROWS)):
        prompts = [(p, p + RESPONSES) for p in range(0, end - begin, RESPONSES)]
        scaled = apply_loss_reduction_to_advantages_minibatch(folded[begin:end], mask[begin:end], reduction, 4, WIDTH, prompts)
        rows = random.Random(0).sample(range(begin, end), end - begin)
        for part in (rank[i : i + 5] for rank in (rows[::2], rows[1::2]) for i in range(0, len(rank), 5)):
            of_part = scaled[[row - begin for row in part]].double()
            got = got + PolicyLossRegistry.get(loss)(logp[part], old[part], of_part, algorithm, mask[part], None)[0]
        terms = terms_of(loss, logp, old, mask, advantages, algorithm)[begin:end]
        want = want + direct_loss(terms, advantages[begin:end], mask[begin:end], UIDS[begin:end])
    (got,) = torch.autograd.grad(got, logp, retain_graph=True)
    (want,) = torch.autograd.grad(want, logp)
    gradient_error(relative_error(got, want))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss_reduction": "token_mean"}, "loss_reduction is token_mean, allowed: prompt_mean"),
        ({"policy_loss_type": "clip_cov"}, "policy_loss_type is clip_cov"),
        ({"advantage_batch_normalize": True}, "advantage_batch_normalize is True"),
        ({"zero_variance_filter": True}, "zero_variance_filter is True"),
        ({"loss_reduction": "seq_mean_token_sum_norm", "max_seq_len": None}, "max_seq_len is None"),
    ],
)
def test_settings_that_cannot_be_folded_are_refused_by_key(batch, settings, message):
    with pytest.raises(errors.UnsupportedSetting, match=message):
        estimate(batch, config(**settings))


def test_step_wise_trajectories_are_refused(batch):
    with pytest.raises(errors.UnsupportedSetting, match="step_wise_trajectories"):
        estimate(batch, config(), torch.ones(ROWS, WIDTH))


@pytest.mark.shows("rewards", "invalid")
@pytest.mark.parametrize(("action", "gold", "reward", "invalid"), [("\\boxed{4}", "4", 1.0, False), ("5", "4", 0.0, False), ("\\boxed{4}", "", -0.5, True)])
def test_the_environment_judges_one_turn(action, gold, reward, invalid):
    register()
    environment = skyrl_gym.make(
        "evenkeel_math", env_config={"on_invalid": -0.5}, extras={"reward_spec": {"method": "rule", "ground_truth": gold}}
    )
    environment.init([{"role": "user", "content": "2 + 2?"}])
    output = environment.step(action)
    assert output["reward"] == reward and output["done"] and output["metadata"]["invalid"] is invalid
    assert environment.get_metrics() == {"invalid": float(invalid)}


@pytest.mark.shows("rewards", "invalid")
def test_the_environment_of_programs_judges_them_by_the_sandbox_of_the_package():
    register()
    tests = '{"inputs": ["1", "2"], "outputs": ["2", "4"]}'

    def judge(action, truth, **settings):
        environment = skyrl_gym.make("evenkeel_code", env_config=settings, extras={"reward_spec": {"method": "rule", "ground_truth": truth}})
        environment.init([{"role": "user", "content": "Add one."}])
        return environment.step(action)["reward"], environment.get_metrics()["invalid"]

    program = "```python\nprint(int(input()) + 1)\n```"
    assert judge(program, {"inputs": ["1"], "outputs": ["2"]}) == (1.0, 0.0)
    assert judge(program, tests) == (0.0, 0.0) and judge(program, tests, partial=True) == (0.5, 0.0)
    assert judge(program, "{", on_invalid=-0.5) == (-0.5, 1.0)
