"""OpenRLHF as installed: its executor of single turns takes the reward function by its path, and folded advantages give its loss the gradient of
balanced aggregation.

The files are loaded without the packages around them, which need GPUs.
"""

import asyncio
import importlib.util
import logging
import os
import subprocess
import sys
import types

import pytest
import torch

from direct import direct_loss, group_advantages, relative_error
from evenkeel_rlvr import balanced
from tiny import tokenizer

package = importlib.util.find_spec("openrlhf")
if package is None:
    pytest.skip("OpenRLHF is not installed", allow_module_level=True)
for name in ("openrlhf", "openrlhf.models", "openrlhf.utils"):
    module = types.ModuleType(name)
    module.__path__ = [os.path.join(package.submodule_search_locations[0], *name.split(".")[1:])]
    sys.modules[name] = module
logs = types.ModuleType("openrlhf.utils.logging_utils")
logs.init_logger = logging.getLogger
sys.modules["openrlhf.utils.logging_utils"] = logs

if importlib.util.find_spec("deepspeed") is None:
    sys.modules["deepspeed"] = types.ModuleType("deepspeed")

from openrlhf.models.loss import PolicyLoss  # noqa: E402
from openrlhf.utils.agent import SingleTurnAgentExecutor  # noqa: E402


def judge(reply, label, prompt="2+2=", module="openrlhf"):
    words = tokenizer()
    path = subprocess.run([sys.executable, "-m", "evenkeel_rlvr", "path", module], capture_output=True, text=True, check=True)
    output = types.SimpleNamespace(token_ids=words(reply)["input_ids"], finish_reason="stop", logprobs=None)

    class Engine:
        async def generate(self, *_, **__):
            return types.SimpleNamespace(outputs=[output])

    sampling = types.SimpleNamespace(max_tokens=8, logprobs=None)
    run = SingleTurnAgentExecutor(path.stdout.strip()).execute(prompt, label, sampling, 64, words, Engine())
    judged = asyncio.run(run)
    return judged["reward"].tolist(), judged["extra_logs"]["invalid"].tolist()


@pytest.mark.shows("rewards")
def test_a_response_has_the_reward_of_its_verdict():
    assert judge("\\fbox{4}", "4") == ([1.0], [0.0])
    assert judge("\\fbox{5}", "4") == ([0.0], [0.0])
    assert judge("four", "4", prompt="\\fbox{4} ") == ([0.0], [0.0])


@pytest.mark.shows("invalid")
def test_an_invalid_verdict_has_the_set_reward_and_is_counted(monkeypatch):
    assert judge("\\fbox{4}", "") == ([0.0], [1.0])
    monkeypatch.setenv("EVENKEEL_INVALID_REWARD", "-0.5")
    assert judge("\\fbox{4}", "") == ([-0.5], [1.0])


@pytest.mark.parametrize("dual_clip", [None, 3.0])
@pytest.mark.parametrize(("loss", "token_level"), [("ppo", True), ("ppo", False), ("gspo", False)])
def test_the_gradient_is_that_of_balanced_aggregation(gradient_error, loss, token_level, dual_clip):
    torch.manual_seed(2)
    responses, prompts, width = 6, 8, 40
    rows, groups = responses * prompts, [row // responses for row in range(responses * prompts)]
    mask = (torch.arange(width)[None] < torch.randint(1, width + 1, (rows, 1))).double()
    rewards = torch.randint(0, 2, (prompts, responses)).double()
    rewards[0], rewards[1] = 0.1, torch.rand(responses)
    advantages = torch.cat([group_advantages(group, epsilon=1e-9) for group in rewards])
    old = -torch.rand(rows, width).double() * 2
    start = old + 0.3 * torch.randn(rows, width).double()
    folded = balanced.fold(advantages, mask, groups, divisor="token-mean" if token_level else "seq-mean-token-mean")

    policy = PolicyLoss(0.2, 0.28, dual_clip=dual_clip, token_level_loss=token_level, policy_loss_type=loss)
    logp = start.clone().requires_grad_(True)
    shuffled = torch.randperm(rows).tolist()
    total = 0.0
    for rank in (shuffled[::2], shuffled[1::2]):
        for micro in (rank[i : i + 5] for i in range(0, len(rank), 5)):
            part, *_ = policy(
                logp[micro], old[micro], folded[micro][:, None].expand(-1, width), mask[micro], None,
                dp_size=2, batch_num_tokens=mask.sum(), global_batch_size=float(rows),
            )  # fmt: skip
            total = total + part / 2
    (got,) = torch.autograd.grad(total, logp)

    logp = start.clone().requires_grad_(True)
    ratio, a = (logp - old).exp(), advantages[:, None]
    if loss == "gspo":
        ratio = (((logp - old) * mask).sum(1) / mask.sum(1)).exp()[:, None].expand(-1, width)
    terms = torch.minimum(ratio * a, ratio.clamp(0.8, 1.28) * a)
    if dual_clip:
        terms = torch.where(a < 0, torch.maximum(terms, dual_clip * a), terms)
    (want,) = torch.autograd.grad(direct_loss(terms, advantages, mask, groups), logp)
    gradient_error(relative_error(got, want))
