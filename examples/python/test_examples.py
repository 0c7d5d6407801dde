"""The examples, as far as they go without a trainer: `.ci/python.sh` runs this file, in an environment with math-verify and hydra-core.

With EVENKEEL_TRL_PYTHON, an interpreter that has TRL and evenkeel-rlvr, the run of TRL is one of the tests. (PyTorch alone is above a gigabyte, and four
with what it needs: more than a check of each change can carry.)
"""

import importlib
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

import trl_balanced
from evenkeel_rlvr import verify_math
from evenkeel_rlvr._verl_settings import VerlSettings
from evenkeel_rlvr.trl import code_reward, math_reward

HERE = Path(__file__).parent
OVERRIDES = (HERE / "verl/balanced.overrides").read_text().split()


def test_the_notebook_prints_what_is_stored():
    math_verify = pytest.importorskip("math_verify")
    assert math_verify is not None and importlib.metadata.version("math-verify") == "0.9.0"
    done = subprocess.run([sys.executable, HERE / "run_notebook.py", HERE / "verdicts.ipynb"], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_output_that_is_another_one_is_found(tmp_path):
    notebook = {"cells": [{"cell_type": "code", "execution_count": 1, "outputs": [], "source": ["print(1)"]}]}
    other = tmp_path / "other.ipynb"
    other.write_text(json.dumps(notebook))
    done = subprocess.run([sys.executable, HERE / "run_notebook.py", other], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "other outputs" in done.stderr and '+      "1\\n"' in done.stdout


@pytest.fixture
def compose(tmp_path):
    hydra = pytest.importorskip("hydra")
    (tmp_path / "keys.yaml").write_text((HERE / "verl/keys.yaml").read_text())

    def compose(overrides):
        with hydra.initialize_config_dir(str(tmp_path), version_base=None):
            return hydra.compose("keys", overrides=overrides)

    return compose


def test_verls_settings_are_composed_as_stored(compose):
    from omegaconf import OmegaConf

    config = compose(OVERRIDES)
    assert OmegaConf.to_container(config) == OmegaConf.to_container(OmegaConf.load(HERE / "verl/composed.yaml"))
    settings = VerlSettings.read(config.algorithm)
    assert (settings.mode, settings.prompts, settings.responses) == ("seq-mean-token-mean", 64, 8)


def test_verls_reward_is_found_by_its_path(compose):
    reward = compose(OVERRIDES).reward.custom_reward_function
    function = getattr(importlib.import_module(reward.path.removeprefix("pkg://")), reward.name)
    sample = function(data_source="own", solution_str=r"\boxed{4}", ground_truth="4", extra_info={}, **reward.reward_kwargs)
    assert sample["score"] == 1.0


def test_a_key_that_verl_does_not_have_is_refused(compose):
    with pytest.raises(Exception, match="Could not override 'algorithm.advantage'"):
        compose(["algorithm.advantage=balanced"])
    # The reward's own keywords need a plus.
    with pytest.raises(Exception, match="reward_kwargs"):
        compose([override.removeprefix("+") for override in OVERRIDES])


def test_each_task_of_the_run_has_one_right_answer_among_those_of_the_warm_start():
    numbers, reward = random.Random(0), math_reward("answer")
    for row in trl_balanced.tasks(with_programs=False):
        answers = sorted({trl_balanced.answer_to(row, numbers) for _ in range(300)})
        judged = reward(prompts=[row["prompt"]] * len(answers), completions=answers, answer=[row["answer"]] * len(answers))
        assert sorted(judged) == [0.0] * (len(answers) - 1) + [1.0], (row, answers)
        assert all(verify_math(answer, row["answer"]).outcome in ("correct", "incorrect") for answer in answers)


def test_rows_of_programs_have_no_verdict_as_mathematics_and_the_others_none_as_programs():
    rows = trl_balanced.tasks()
    columns = {name: [row[name] for row in rows] for name in ("answer", "tests")}
    texts = [trl_balanced.answer_to(row, random.Random(0)) for row in rows]
    is_program = [row["tests"] is not None for row in rows]
    assert 0 < sum(is_program) < len(rows)
    judged = math_reward("answer")(prompts=[row["prompt"] for row in rows], completions=texts, **columns)
    assert [reward is None for reward in judged] == is_program
    pytest.importorskip("grpc")
    numbers = [i for i, program in enumerate(is_program) if not program]
    judged = code_reward("tests", address="127.0.0.1:1")(
        prompts=[""] * len(numbers), completions=[texts[i] for i in numbers], tests=[columns["tests"][i] for i in numbers]
    )
    assert judged == [None] * len(numbers)


@pytest.mark.skipif(os.environ.get("EVENKEEL_TEST_PROGRAMS") != "1", reason="EVENKEEL_TEST_PROGRAMS is not set")
def test_each_program_of_the_run_has_one_right_answer_among_those_of_the_warm_start():
    numbers = random.Random(0)
    rows = [row for row in trl_balanced.tasks() if row["tests"] is not None]
    reward = code_reward("tests")
    for row in rows:
        answers = sorted({trl_balanced.answer_to(row, numbers) for _ in range(200)})
        judged = reward(prompts=[row["prompt"]] * len(answers), completions=answers, tests=[row["tests"]] * len(answers))
        assert sorted(judged) == [0.0] * (len(answers) - 1) + [1.0], (row, answers, judged)


def test_the_rise_is_from_the_first_five_steps_to_the_last_five():
    assert trl_balanced.rise([0.0] * 5 + [9.0] * 10 + [0.5] * 5) == 0.5


@pytest.mark.skipif("EVENKEEL_TRL_PYTHON" not in os.environ, reason="EVENKEEL_TRL_PYTHON is not set")
def test_a_run_of_trl_learns_and_one_that_cannot_does_not():
    command = [os.environ["EVENKEEL_TRL_PYTHON"], HERE / "trl_balanced.py"]
    learns = subprocess.run(command, capture_output=True, text=True, timeout=1800)
    assert learns.returncode == 0, learns.stdout + learns.stderr
    still = subprocess.run([*command, "--learning-rate", "0"], capture_output=True, text=True, timeout=1800)
    assert still.returncode == 1 and "rise" in still.stdout, still.stdout + still.stderr
