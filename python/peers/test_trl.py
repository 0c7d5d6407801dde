"""TRL as installed: rewards are direct verdicts, invalid ones are left out, and its gradient is that of balanced aggregation."""

import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from evenkeel_rlvr import errors, verify_math
from evenkeel_rlvr.trl import BalancedGRPOTrainer, math_reward
from tiny import model, tokenizer
from trl_run import run


@pytest.mark.parametrize("loss", ["grpo", "dr_grpo", "dapo", "cispo", "sapo"])
def test_the_gradient_is_that_of_balanced_aggregation(gradient_error, loss):
    found, invalid = run(loss)
    assert len(found) == 4 and 0 < invalid < 0.5
    gradient_error(max(found))


@pytest.mark.parametrize("loss", ["grpo", "dr_grpo", "dapo"])
def test_two_processes_have_the_same_gradient(gradient_error, loss):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    variables = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "ACCELERATE_USE_CPU": "true", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(Path(__file__).with_name("trl_run.py")), loss]
    ranks = [
        subprocess.Popen(command, env={**os.environ, **variables, "RANK": str(rank), "LOCAL_RANK": str(rank)}, stdout=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    outputs = [rank.communicate(timeout=600)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0]
    found, invalid = json.loads(outputs[0].splitlines()[-1])
    assert len(found) == 4 and invalid > 0
    gradient_error(max(found))


def config(output, **settings):
    return GRPOConfig(
        output_dir=output, per_device_train_batch_size=4, num_generations=4, max_completion_length=12, report_to=[],
        use_cpu=True, bf16=False, save_strategy="no", logging_steps=1, disable_tqdm=True, **settings,
    )  # fmt: skip


ROWS = [{"prompt": f"{a}+{b}=", "answer": str(a + b) if (a, b) != (1, 1) else ""} for a in range(4) for b in range(4)]


@pytest.mark.shows("rewards", "invalid")
@pytest.mark.parametrize("trainer", [GRPOTrainer, BalancedGRPOTrainer])
def test_rewards_of_a_run_are_direct_verdicts_and_invalid_ones_are_none(trainer):
    seen, own = [], math_reward("answer")

    def evenkeel_math(prompts, completions, **columns):
        rewards = own(prompts, completions, **columns)
        seen.extend(zip(prompts, completions, columns["answer"], rewards))
        return rewards

    with tempfile.TemporaryDirectory() as output:
        run = trainer(
            model=model(), processing_class=tokenizer(), reward_funcs=evenkeel_math, train_dataset=Dataset.from_list(ROWS),
            args=config(output, max_steps=20, loss_type="dr_grpo", beta=0.0),
        )  # fmt: skip
        run.train()
    assert len(seen) == 80
    assert all(verify_math(text, gold, prompt=prompt).reward == reward for prompt, text, gold, reward in seen)
    assert sum(reward is None for *_, reward in seen) == 4 * sum(gold == "" for _, _, gold, _ in seen[::4]) > 0
    logged = [entry for entry in run.state.log_history if "rewards/evenkeel_math/mean" in entry]
    assert len(logged) == 20 and any(entry["evenkeel_math/invalid_share"] == 1.0 for entry in logged)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss_type": "bnpo"}, "loss_type is bnpo, allowed: grpo.*micro-batch"),
        ({"loss_type": "luspo", "importance_sampling_level": "sequence"}, "loss_type is luspo"),
        ({"loss_type": "vespo"}, "loss_type is vespo"),
        ({"loss_type": "grpo", "top_entropy_quantile": 0.2}, "top_entropy_quantile is 0.2, allowed: 1.0"),
        ({"loss_type": "grpo", "importance_sampling_level": "sequence"}, "importance_sampling_level is sequence"),
        ({"loss_type": "grpo", "multi_objective_aggregation": "normalize_then_sum"}, "multi_objective_aggregation is"),
    ],
)
def test_settings_that_cannot_be_folded_are_refused_by_name(settings, message):
    with tempfile.TemporaryDirectory() as output, pytest.raises(errors.UnsupportedSetting, match=message):
        BalancedGRPOTrainer(
            model=model(), processing_class=tokenizer(), reward_funcs=math_reward(), train_dataset=Dataset.from_list(ROWS),
            args=config(output, **settings),
        )  # fmt: skip
