"""OpenRLHF as installed: its executor of single turns takes the reward function by its path.

The executor's file is loaded without the package around it, which needs GPUs.
"""

import asyncio
import importlib.util
import logging
import os
import subprocess
import sys
import types

import pytest

from tiny import tokenizer

package = importlib.util.find_spec("openrlhf")
if package is None:
    pytest.skip("OpenRLHF is not installed", allow_module_level=True)
for name in ("openrlhf", "openrlhf.utils"):
    module = types.ModuleType(name)
    module.__path__ = [os.path.join(package.submodule_search_locations[0], *name.split(".")[1:])]
    sys.modules[name] = module
logs = types.ModuleType("openrlhf.utils.logging_utils")
logs.init_logger = logging.getLogger
sys.modules["openrlhf.utils.logging_utils"] = logs

from openrlhf.utils.agent import SingleTurnAgentExecutor  # noqa: E402


def judge(reply, label, prompt="2+2="):
    words = tokenizer()
    path = subprocess.run([sys.executable, "-m", "evenkeel_rlvr", "path", "openrlhf"], capture_output=True, text=True, check=True)
    output = types.SimpleNamespace(token_ids=words(reply)["input_ids"], finish_reason="stop", logprobs=None)

    class Engine:
        async def generate(self, *_, **__):
            return types.SimpleNamespace(outputs=[output])

    sampling = types.SimpleNamespace(max_tokens=8, logprobs=None)
    run = SingleTurnAgentExecutor(path.stdout.strip()).execute(prompt, label, sampling, 64, words, Engine())
    judged = asyncio.run(run)
    return judged["reward"].tolist(), judged["extra_logs"]["invalid"].tolist()


def test_a_response_has_the_reward_of_its_verdict():
    assert judge("\\fbox{4}", "4") == ([1.0], [0.0])
    assert judge("\\fbox{5}", "4") == ([0.0], [0.0])
    assert judge("four", "4", prompt="\\fbox{4} ") == ([0.0], [0.0])


def test_an_invalid_verdict_has_the_set_reward_and_is_counted(monkeypatch):
    assert judge("\\fbox{4}", "") == ([0.0], [1.0])
    monkeypatch.setenv("EVENKEEL_INVALID_REWARD", "-0.5")
    assert judge("\\fbox{4}", "") == ([-0.5], [1.0])
