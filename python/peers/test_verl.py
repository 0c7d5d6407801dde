"""verl as installed: its reward managers take the reward, and its losses' gradients are those of balanced aggregation."""

import asyncio
import os
import random
from pathlib import Path

import numpy as np
import pytest
import torch
import verl
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from verl import DataProto
from verl.trainer.ppo.core_algos import get_policy_loss_fn
from verl.trainer.ppo.ray_trainer import compute_advantage
from verl.trainer.ppo.reward import get_custom_reward_fn, load_reward_manager
from verl.utils.seqlen_balancing import get_seqlen_balanced_partitions
from verl.workers.config import ActorConfig

from direct import direct_loss, group_advantages, relative_error
from evenkeel_rlvr import errors
from evenkeel_rlvr._verl_settings import LOSSES, MODES
from tiny import tokenizer

RESPONSES, PROMPTS, WIDTH = 6, 8, 40
ROWS = RESPONSES * PROMPTS
GROUPS = [row // RESPONSES for row in range(ROWS)]


def configuration(*overrides):
    folder = os.path.join(os.path.dirname(verl.__file__), "trainer/config")
    with initialize_config_dir(folder, version_base=None):
        return compose("ppo_trainer", overrides=["algorithm.adv_estimator=balanced", *overrides])


def balanced_configuration(mode, loss="vanilla", *overrides):
    return configuration(
        f"actor_rollout_ref.actor.loss_agg_mode={mode}",
        f"actor_rollout_ref.actor.policy_loss.loss_mode={loss}",
        f"actor_rollout_ref.rollout.n={RESPONSES}",
        f"actor_rollout_ref.actor.ppo_mini_batch_size={PROMPTS}",
        *(["actor_rollout_ref.actor.loss_scale_factor=40"] if mode.endswith("norm") else []),
        *overrides,
    )


@pytest.fixture(scope="module")
def batch():
    """Lengths from 0 on, holes in masks, a group with equal rewards, one with real-valued rewards."""
    torch.manual_seed(0)
    lengths = torch.randint(1, WIDTH + 1, (ROWS,))
    lengths[3] = 0
    mask = (torch.arange(WIDTH)[None] < lengths[:, None]).long()
    for row in range(0, ROWS, 5):
        if lengths[row] > 4:
            mask[row, 1:3] = 0
    rewards = torch.randint(0, 2, (ROWS,)).float()
    rewards[RESPONSES : 2 * RESPONSES] = 0.1
    rewards[2 * RESPONSES : 3 * RESPONSES] = torch.rand(RESPONSES)
    old = -torch.rand(ROWS, WIDTH).double() * 2
    return mask, rewards, old, old + 0.3 * torch.randn(ROWS, WIDTH).double()


def advantages_of(config, batch, rows):
    mask, rewards, *_ = batch
    scores = torch.zeros(ROWS, WIDTH)
    scores[:, -1] = rewards
    data = DataProto.from_single_dict({"token_level_rewards": scores[rows], "response_mask": mask[rows]})
    data.non_tensor_batch["uid"] = np.array([f"u{GROUPS[row]}" for row in rows], dtype=object)
    data = compute_advantage(data, "balanced", num_repeat=RESPONSES, config=config.algorithm)
    return data.batch["advantages"], data.batch["returns"]


def terms_of(loss, logp, old, mask, advantages, low=0.2, high=0.28):
    """What each of verl's losses maximises at a token, by its own formula."""
    ratio, a = (logp - old).exp(), advantages[:, None]
    if loss == "vanilla":
        terms = torch.minimum(ratio * a, ratio.clamp(1 - low, 1 + high) * a)
        return torch.where(a < 0, torch.maximum(terms, 3.0 * a), terms)
    if loss == "gspo":
        mean = ((logp - old) * mask).sum(1) / mask.sum(1).clamp(min=1)
        ratio = (logp - logp.detach() + mean.detach()[:, None]).exp()
        return torch.minimum(ratio * a, ratio.clamp(1 - low, 1 + high) * a)
    if loss == "cispo":
        return ratio.clamp(1 - low, 1 + high).detach() * a * logp
    if loss == "gpg":
        return a * logp
    if loss == "sapo":
        temperature = torch.where(a > 0, 1.0, 1.05).double()
        return torch.sigmoid(temperature * (ratio - 1)) * 4 / temperature * a
    assert loss == "dppo_tv"
    change = logp.exp() - old.exp()
    near = torch.where(a > 0, change <= high, change >= -low).double()
    return a * ratio.clamp(max=20.0).detach() * logp * near


def layouts(rows, lengths):
    """Rows on ranks and in micro-batches, as verl lays them out."""
    balanced = get_seqlen_balanced_partitions([int(lengths[row]) for row in rows], 2, equal_size=False)
    shuffled = random.Random(1).sample(rows, len(rows))
    return [
        [[rows]],
        [[rows[i : i + 3] for i in range(0, len(rows), 3)]],
        [[[rows[k] for k in part[i : i + 4]] for i in range(0, len(part), 4)] for part in balanced],
        [[shuffled[rank::4][i : i + 5] for i in range(0, len(shuffled[rank::4]), 5)] for rank in range(4)],
    ]


@pytest.mark.parametrize("dropped", [(), (7, 20, 33)], ids=["all", "dropped"])
@pytest.mark.parametrize(("mode", "loss"), [(m, x) for m in MODES for x in LOSSES if x != "sapo" or m == "seq-mean-token-mean"])
def test_the_gradient_is_that_of_balanced_aggregation(gradient_error, batch, mode, loss, dropped):
    mask, rewards, old, start = batch
    kept = [row not in dropped for row in range(ROWS)]
    rows = [row for row in range(ROWS) if kept[row]]
    config = balanced_configuration(mode, loss)
    folded = torch.zeros(ROWS, WIDTH)
    folded[rows], plain = advantages_of(config, batch, rows)
    assert torch.all(folded[RESPONSES : 2 * RESPONSES] == 0.0)

    advantages = torch.zeros(ROWS, dtype=torch.float64)
    for group in range(PROMPTS):
        own = [row for row in rows if GROUPS[row] == group]
        advantages[own] = group_advantages(rewards[own])
    assert torch.allclose(plain.double(), advantages[rows][:, None] * mask[rows], atol=1e-6)
    logp = start.clone().requires_grad_(True)
    terms = terms_of(loss, logp, old, mask, advantages)
    (want,) = torch.autograd.grad(direct_loss(terms, advantages, mask, GROUPS, kept), logp)

    for ranks in layouts(rows, mask.sum(1)):
        actor = ActorConfig(
            strategy="fsdp", rollout_n=RESPONSES, ppo_micro_batch_size_per_gpu=4, clip_ratio_low=0.2, clip_ratio_high=0.28,
            loss_agg_mode=mode, loss_scale_factor=40 if mode.endswith("norm") else None,
        )  # fmt: skip
        actor.global_batch_info.update(
            dp_size=len(ranks), batch_num_tokens=int(mask[rows].sum()), global_batch_size=PROMPTS * RESPONSES,
            loss_scale_factor=actor.loss_scale_factor,
        )  # fmt: skip
        logp = start.clone().requires_grad_(True)
        total = torch.zeros((), dtype=torch.float64)
        for micro in (micro for rank in ranks for micro in rank):
            part, _ = get_policy_loss_fn(loss)(
                old_log_prob=old[micro], log_prob=logp[micro], advantages=folded[micro].double(),
                response_mask=mask[micro].bool(), loss_agg_mode=mode, config=actor,
            )  # fmt: skip
            total = total + part / len(ranks)
        (got,) = torch.autograd.grad(total, logp)
        gradient_error(relative_error(got, want))


ACTOR = "actor_rollout_ref.actor"


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ([f"{ACTOR}.loss_agg_mode=token-mean"], "loss_agg_mode is token-mean, allowed: seq-mean-token-mean"),
        ([], "loss_agg_mode is token-mean"),
        ([f"{ACTOR}.loss_agg_mode=token-sum", f"{ACTOR}.use_kl_loss=true"], "use_kl_loss is True, allowed: false"),
        ([f"{ACTOR}.loss_agg_mode=token-sum", f"{ACTOR}.entropy_coeff=0.1"], "entropy_coeff is 0.1, allowed: 0"),
        ([f"{ACTOR}.loss_agg_mode=token-sum", f"{ACTOR}.policy_loss.loss_mode=sapo"], "loss_mode=sapo always uses"),
        ([f"{ACTOR}.loss_agg_mode=seq-mean-token-sum-norm"], "loss_scale_factor is None, allowed: a number above 0"),
        *(
            ([f"{ACTOR}.loss_agg_mode=seq-mean-token-mean", f"{ACTOR}.policy_loss.loss_mode={loss}"], f"loss_mode is {loss}, allowed")
            for loss in ("clip_cov", "kl_cov", "geo_mean", "dro", "bypass_mode", "dppo_kl")
        ),
        (
            [f"{ACTOR}.loss_agg_mode=seq-mean-token-mean", "algorithm.rollout_correction.rollout_rs=token_k1"],
            "rollout_rs is token_k1, allowed: null",
        ),
        ([f"{ACTOR}.loss_agg_mode=seq-mean-token-mean", "algorithm.rollout_correction.bypass_mode=true"], "bypass_mode is True"),
    ],
)
def test_settings_that_cannot_be_folded_are_refused_by_key(batch, overrides, message):
    with pytest.raises(errors.UnsupportedSetting, match=message):
        advantages_of(configuration(*overrides), batch, list(range(ROWS)))


def test_a_configuration_without_its_root_is_refused(batch):
    class Algorithm:
        pass

    class Config:
        algorithm = Algorithm()

    with pytest.raises(errors.UnsupportedSetting, match="cannot be known"):
        advantages_of(Config, batch, list(range(ROWS)))


@pytest.fixture(scope="module")
def words():
    return tokenizer()


def judge(words, manager, text, gold, *overrides):
    config = configuration(
        "reward.custom_reward_function.path=pkg://evenkeel_rlvr.verl",
        f"reward.reward_manager.name={manager}",
        *overrides,
    )
    if manager == "dapo":
        config = compose_with_limits(config)
    ids = torch.tensor([words(text)["input_ids"]])
    data = DataProto.from_dict(
        tensors={
            "prompts": torch.zeros(1, 3, dtype=torch.long), "responses": ids,
            "attention_mask": torch.ones(1, 3 + ids.shape[1], dtype=torch.long),
        },
        non_tensors={
            "data_source": np.array(["own"], dtype=object),
            "reward_model": np.array([{"ground_truth": gold}], dtype=object),
            "extra_info": np.array([{"index": 1}], dtype=object),
        },
    )  # fmt: skip

    async def run():
        return await load_reward_manager(config, words).run_single(data)

    return asyncio.run(run())


def compose_with_limits(config):
    from omegaconf import OmegaConf, open_dict

    with open_dict(config):
        config.reward.reward_kwargs = OmegaConf.create({"overlong_buffer_cfg": None, "max_resp_len": 100})
    return config


WRONG = "+reward.custom_reward_function.reward_kwargs.wrong=-1.0"
INVALID = "+reward.custom_reward_function.reward_kwargs.on_invalid=0.5"


@pytest.mark.shows("rewards")
@pytest.mark.parametrize("manager", ["naive", "dapo"])
def test_reward_managers_pass_the_reward_on(words, manager):
    right = judge(words, manager, "x \\fbox{4}", "4", WRONG)
    wrong = judge(words, manager, "x \\fbox{5}", "4", WRONG)
    assert (right["reward_score"], wrong["reward_score"]) == (1.0, -1.0)
    assert right["reward_extra_info"]["acc"] == 1.0 and wrong["reward_extra_info"]["reason"] == "different_number"
    assert right["reward_extra_info"].keys() == wrong["reward_extra_info"].keys()


@pytest.mark.shows("invalid")
@pytest.mark.parametrize("manager", ["naive", "dapo"])
def test_an_invalid_verdict_raises_or_is_a_counted_score(words, manager):
    with pytest.raises(errors.InvalidVerdict, match="gold_empty"):
        judge(words, manager, "x \\fbox{4}", "")
    counted = judge(words, manager, "x \\fbox{4}", "", INVALID)
    assert counted["reward_score"] == 0.5 and counted["reward_extra_info"]["invalid"] == 1.0


def test_the_configuration_is_composed_by_hydra():
    config = configuration("reward.custom_reward_function.path=pkg://evenkeel_rlvr.verl", INVALID)
    score = get_custom_reward_fn(config)
    assert score(data_source="own", solution_str="\\boxed{4}", ground_truth="4", extra_info={})["score"] == 1.0
    assert score(data_source="own", solution_str="\\boxed{4}", ground_truth="", extra_info={})["score"] == 0.5


EXAMPLE = Path(__file__).parents[2] / "examples/python/verl"


def leaves(node, path=""):
    for key, value in node.items():
        if isinstance(value, dict) and key != "reward_kwargs":
            yield from leaves(value, f"{path}{key}.")
        else:
            yield path + key, value


def test_the_examples_keys_are_verls_own_with_its_defaults():
    folder = os.path.join(os.path.dirname(verl.__file__), "trainer/config")
    with initialize_config_dir(folder, version_base=None):
        config = compose("ppo_trainer")
    for key, value in leaves(OmegaConf.to_container(OmegaConf.load(EXAMPLE / "keys.yaml"))):
        assert OmegaConf.select(config, key, throw_on_missing=True) == value, key


def test_the_examples_settings_are_composed_as_stored():
    folder = os.path.join(os.path.dirname(verl.__file__), "trainer/config")
    with initialize_config_dir(folder, version_base=None):
        config = compose("ppo_trainer", overrides=(EXAMPLE / "balanced.overrides").read_text().split())
    for key, value in leaves(OmegaConf.to_container(OmegaConf.load(EXAMPLE / "composed.yaml"))):
        assert OmegaConf.select(config, key) == value, key
    score = get_custom_reward_fn(config)
    assert score(data_source="own", solution_str="\\boxed{4}", ground_truth="4", extra_info={})["score"] == 1.0
