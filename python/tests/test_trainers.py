"""Modules for trainers against stand-ins for what the trainers do: how they call rewards, and what their losses divide by.

The unmodified trainers are tested by python/peers, with an environment for each.
"""

import asyncio
import importlib.util
import inspect
import math
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from formula import clipped, direct

from evenkeel_rlvr import InvalidVerdict, balanced, errors, openrlhf as openrlhf_module, trl, verifiers, verify_math, verl
from evenkeel_rlvr.__main__ import main
from evenkeel_rlvr._adapter import TESTED, completion_text, gold_answer, prompt_text, untested
from evenkeel_rlvr._outcome import group_advantages
from evenkeel_rlvr._skyrl_settings import SkyrlSettings
from evenkeel_rlvr._trl_fold import DIVISORS, fold_rows, refuse_settings
from evenkeel_rlvr._verl_settings import MODES, VerlSettings

RESPONSES, PROMPTS, WIDTH = 6, 8, 20
ROWS = RESPONSES * PROMPTS
GROUPS = np.arange(ROWS) // RESPONSES


@pytest.fixture
def batch():
    """Masks with holes and one without a token, a group with equal rewards, one with real-valued rewards; and terms of a ratio."""
    numbers = np.random.default_rng(3)
    mask = (np.arange(WIDTH)[None] < numbers.integers(1, WIDTH + 1, (ROWS, 1))).astype(int)
    mask[::5, 1:3] = 0
    mask[3] = 0
    rewards = numbers.integers(0, 2, ROWS).astype(float)
    rewards[RESPONSES : 2 * RESPONSES] = 0.1
    rewards[2 * RESPONSES : 3 * RESPONSES] = numbers.random(RESPONSES)
    ratio = np.exp(0.3 * numbers.normal(size=(ROWS, WIDTH)))
    return mask, rewards, ratio


def algorithm(**changes):
    """The node `algorithm` of a configuration such as verl's."""
    root = {
        "algorithm": {"norm_adv_by_std_in_grpo": True, "rollout_correction": {"rollout_rs": None, "bypass_mode": False}},
        "actor_rollout_ref": {
            "rollout": {"n": RESPONSES},
            "actor": {
                "loss_agg_mode": "seq-mean-token-mean", "ppo_mini_batch_size": PROMPTS, "loss_scale_factor": 40,
                "policy_loss": {"loss_mode": "vanilla"}, "use_kl_loss": False, "entropy_coeff": 0,
            },
        },
    }  # fmt: skip
    for path, value in changes.items():
        *nodes, key = path.split("__")
        node = root
        for name in nodes:
            node = node[name]
        node[key] = value
    return SimpleNamespace(_get_root=lambda: root)


def verl_loss(mode, terms, mask):
    """verl's `agg_loss` for the global batch, which divides by the configured number of rows."""
    lengths = mask.sum(1)
    summed = -(terms * mask).sum(1)
    if mode == "token-sum":
        return summed.sum()
    each = summed / np.maximum(lengths, 1) if mode == "seq-mean-token-mean" else summed
    return each.sum() / (PROMPTS * RESPONSES) / (40 if mode.endswith("norm") else 1)


@pytest.mark.parametrize("dropped", [(), (7, 20, 33)], ids=["all", "dropped"])
@pytest.mark.parametrize("mode", MODES)
def test_verls_loss_becomes_balanced(batch, mode, dropped):
    mask, rewards, ratio = batch
    rows = [row for row in range(ROWS) if row not in dropped]
    settings = VerlSettings.read(algorithm(actor_rollout_ref__actor__loss_agg_mode=mode))
    folded, plain = settings.advantages(rewards[rows], mask[rows], GROUPS[rows])
    want = direct(clipped(ratio[rows], plain), plain, mask[rows], GROUPS[rows], [True] * len(rows))
    assert verl_loss(mode, clipped(ratio[rows], folded), mask[rows]) == pytest.approx(want, rel=1e-9)


def test_without_folding_or_with_the_fold_of_another_mode_it_does_not(batch):
    mask, rewards, ratio = batch
    settings = VerlSettings.read(algorithm())
    folded, plain = settings.advantages(rewards, mask, GROUPS)
    want = direct(clipped(ratio, plain), plain, mask, GROUPS, [True] * ROWS)
    assert verl_loss("seq-mean-token-mean", clipped(ratio, plain), mask) != pytest.approx(want, rel=1e-2)
    assert verl_loss("seq-mean-token-sum", clipped(ratio, folded), mask) != pytest.approx(want, rel=1e-2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"actor_rollout_ref__actor__loss_agg_mode": "token-mean"}, "actor.loss_agg_mode is token-mean, allowed: seq-mean-token-mean"),
        ({"actor_rollout_ref__actor__policy_loss": {"loss_mode": "clip_cov"}}, "policy_loss.loss_mode is clip_cov, allowed: cispo"),
        ({"actor_rollout_ref__rollout__n": 0}, "rollout.n is 0, allowed: a whole number"),
        ({"actor_rollout_ref__actor__ppo_mini_batch_size": None}, "ppo_mini_batch_size is absent"),
        ({"algorithm__rollout_correction": {"bypass_mode": True}}, "rollout_correction.bypass_mode is True"),
        ({"algorithm__use_pf_ppo": True}, "use_pf_ppo is True"),
    ],
)
def test_settings_of_verl_that_cannot_be_folded_are_refused_by_key(changes, message):
    with pytest.raises(errors.UnsupportedSetting, match=message):
        VerlSettings.read(algorithm(**changes))


def trl_loss(loss, terms, mask, max_length):
    """What `GRPOTrainer` computes in one micro-batch that holds the generation batch."""
    summed, lengths = -(terms * mask).sum(1), mask.sum(1)
    if loss in ("grpo", "sapo"):
        return (summed / np.maximum(lengths, 1)).mean()
    if loss == "dr_grpo":
        return summed.sum() / (len(mask) * max_length)
    return summed.sum() / mask.sum()


@pytest.mark.parametrize("loss", DIVISORS)
def test_trls_loss_becomes_balanced_and_rows_without_reward_leave_its_divisor(batch, loss):
    mask, rewards, ratio = batch
    valid = np.arange(ROWS) % 7 != 3
    # A group without any reward counts in TRL's divisor, and not in P.
    valid[-RESPONSES:] = False
    advantages = np.zeros(ROWS)
    advantages[valid] = group_advantages(rewards[valid], GROUPS[valid], by_deviation=True, epsilon=1e-4)
    folded = fold_rows(
        loss, advantages, mask, generations=RESPONSES, valid=valid, tokens=float(mask.sum()), max_completion_length=WIDTH
    )
    want = direct(clipped(ratio, advantages), advantages, mask, GROUPS, valid)
    assert trl_loss(loss, clipped(ratio, folded), mask, WIDTH) == pytest.approx(want, rel=1e-9)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss_type": "bnpo"}, "loss_type is bnpo, allowed: grpo.*micro-batch"),
        ({"loss_type": "grpo", "use_liger_kernel": True}, "use_liger_kernel is True, allowed: False"),
        ({"loss_type": "grpo", "top_entropy_quantile": 0.5}, "top_entropy_quantile is 0.5"),
    ],
)
def test_settings_of_trl_that_cannot_be_folded_are_refused_by_name(settings, message):
    with pytest.raises(errors.UnsupportedSetting, match=message):
        refuse_settings(SimpleNamespace(**settings))


@pytest.mark.parametrize("reduction", ["prompt_mean", "sequence_mean", "seq_mean_token_sum_norm"])
def test_skyrls_loss_becomes_balanced(batch, reduction):
    mask, rewards, ratio = batch
    config = SimpleNamespace(
        loss_reduction=reduction, policy_loss_type="regular", advantage_batch_normalize=False, zero_variance_filter=False, max_seq_len=WIDTH
    )
    folded, plain = SkyrlSettings.read(config, True, step_wise=False).advantages(rewards, mask, GROUPS.tolist())
    tokens = np.bincount(GROUPS, weights=mask.sum(1))[GROUPS]
    each = {
        "prompt_mean": PROMPTS * tokens,
        "sequence_mean": ROWS * np.maximum(mask.sum(1), 1),
        "seq_mean_token_sum_norm": ROWS * WIDTH,
    }[reduction]
    got = -((clipped(ratio, folded) * mask).sum(1) / each).sum()
    assert got == pytest.approx(direct(clipped(ratio, plain), plain, mask, GROUPS, [True] * ROWS), rel=1e-9)


def test_advantages_are_those_of_grpo_and_exactly_0_in_equal_groups():
    advantages = group_advantages([1.0, 0.0, 0.0, 0.1, 0.1, 0.1, 0.7], list("aaabbbc"), by_deviation=True)
    assert advantages[:3] == pytest.approx([2 / 3 / math.sqrt(1 / 3), -1 / 3 / math.sqrt(1 / 3), -1 / 3 / math.sqrt(1 / 3)], rel=1e-5)
    assert advantages[3:6].tolist() == [0.0, 0.0, 0.0] and advantages[6] == pytest.approx(0.7, rel=1e-5)
    plain = group_advantages([1.0, 0.0, 0.0], [0, 0, 0], by_deviation=False)
    assert plain == pytest.approx([2 / 3, -1 / 3, -1 / 3])


def test_verls_reward_has_the_same_keys_for_every_sample():
    call = {"data_source": "own", "extra_info": {}, "reward_router_address": None, "reward_model_tokenizer": None}
    right = verl.compute_score(solution_str=r"\boxed{4}", ground_truth="4", **call)
    wrong = verl.compute_score(solution_str="x", ground_truth=4, wrong=-1.0, **call)
    invalid = verl.compute_score(solution_str="x", ground_truth="", on_invalid=0.5, **call)
    assert [sample["score"] for sample in (right, wrong, invalid)] == [1.0, -1.0, 0.5]
    assert right.keys() == wrong.keys() == invalid.keys()
    assert (invalid["invalid"], invalid["acc"], invalid["reason"]) == (1.0, 0.0, "gold_empty")


def test_verls_reward_raises_on_an_invalid_verdict_and_on_options_that_do_not_exist():
    with pytest.raises(InvalidVerdict, match="gold_empty"):
        verl.compute_score("own", "x", "")
    for options, message in [
        ({"on_invalid": "skip"}, "^on_invalid is 'skip', allowed: 'raise' or a finite number"),
        ({"on_invalid": float("nan")}, "^on_invalid is nan"),
        ({"wrong": None}, "^wrong is None"),
        ({"on_invald": 0.0}, "on_invald"),
    ]:
        with pytest.raises((errors.ArgumentValueError, errors.ArgumentTypeError), match=message):
            verl.compute_score("own", "x", "4", **options)


def test_trls_reward_is_none_for_an_invalid_verdict_and_logs_its_share():
    logged = {}
    reward = trl.math_reward("solution", name="own_math")
    rewards = reward(
        prompts=[[{"role": "user", "content": "2+2"}]] * 4,
        completions=[[{"role": "assistant", "content": text}] for text in (r"\boxed{4}", r"\boxed{5}", "x", r"\boxed{2+2}")],
        completion_ids=[[1]] * 4,
        solution=["4", 4, None, "4"],
        trainer_state=None,
        log_extra=None,
        log_metric=logged.__setitem__,
    )
    # The last one is copied from the prompt.
    assert rewards == [1.0, 0.0, None, 0.0] and logged == {"own_math/invalid_share": 0.25}
    assert reward.__name__ == "own_math"
    with pytest.raises(errors.ArgumentValueError, match=r"^column is 'solution', allowed: a column of the data set \(answer"):
        reward(prompts=["x"], completions=["x"], answer=["4"])


def test_verifiers_rewards_are_asynchronous_and_raise_on_an_invalid_verdict():
    assert inspect.iscoroutinefunction(verifiers.math)
    assert list(inspect.signature(verifiers.math).parameters) == ["task", "trace"]
    task = SimpleNamespace(prompt="2+2", answer="4", solution="")
    assert asyncio.run(verifiers.math(task, SimpleNamespace(last_reply=r"\boxed{4}"))) == 1.0
    assert asyncio.run(verifiers.math(task, SimpleNamespace(last_reply=None))) == 0.0
    with pytest.raises(InvalidVerdict, match="gold_empty"):
        asyncio.run(verifiers.math_reward("solution")(task, SimpleNamespace(last_reply="x")))
    with pytest.raises(errors.ArgumentValueError, match="^field is 'gold'"):
        asyncio.run(verifiers.math_reward("gold")(task, SimpleNamespace(last_reply="x")))


def test_openrlhfs_reward_is_a_file_that_cuts_the_prompt_and_counts_invalid_verdicts(monkeypatch):
    spec = importlib.util.spec_from_file_location("reward_func", openrlhf_module.__file__)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(tensor=np.array))
    monkeypatch.setenv("EVENKEEL_INVALID_REWARD", "-0.5")
    prompt = r"Say \boxed{4}. "
    queries = [prompt + "no", "<s>" + prompt + r"\boxed{4}<|im_end|>", "x", prompt.replace(" ", "  ") + "no"]
    result = module.reward_func(queries, [prompt, prompt, "", prompt], ["4", "4", "", "4"])
    for text in ("nan", "none"):
        monkeypatch.setenv("EVENKEEL_INVALID_REWARD", text)
        with pytest.raises(Exception, match=f"^EVENKEEL_INVALID_REWARD is '{text}', allowed: a finite number"):
            module.reward_func(queries, [prompt, prompt, "", prompt], ["4", "4", "", "4"])
    # The last prompt is not there as it was: what is in it must not count as the answer.
    assert result["rewards"].tolist() == [0.0, 1.0, -0.5, -0.5] == result["scores"].tolist()
    assert result["extra_logs"]["invalid"].tolist() == [0.0, 0.0, 1.0, 1.0]


def test_gold_answers_and_conversations_of_data_sets():
    assert gold_answer(4.0, "a") == "4.0" and gold_answer(1e-7, "a") == "0.0000001" and gold_answer(float("nan"), "a") == ""
    assert verify_math(r"\boxed{4}", gold_answer(4.0, "a")).correct
    assert gold_answer(42, "a") == "42" and gold_answer(None, "a") == "" and gold_answer(("1", 2), "a") == ["1", "2"]
    assert gold_answer(np.int64(3), "a") == "3" and gold_answer(np.array(["1", "2"]), "a") == ["1", "2"]
    for other in (True, b"4", {}, [["4"]]):
        with pytest.raises(errors.ArgumentTypeError, match="^answer (is of type|has a list)"):
            gold_answer(other, "answer")
    assert completion_text([]) == "" and completion_text([{"role": "assistant", "content": None}]) == ""
    assert completion_text([{"content": "a"}, {"content": [{"type": "text", "text": "b"}, {"type": "image"}]}]) == "b"
    part = SimpleNamespace(type="text", text="b")
    messages = [SimpleNamespace(role="system", content="s"), SimpleNamespace(role="user", content="a"), SimpleNamespace(role="user", content=[part])]
    assert prompt_text(messages) == "a\nb" and completion_text(messages) == "b"
    assert prompt_text(None) is None and prompt_text("x") == "x" and prompt_text([{"role": "system", "content": "s"}]) is None


def test_modules_for_trainers_import_no_trainer():
    program = """if True:
        import sys
        import evenkeel_rlvr.trl, evenkeel_rlvr.verl, evenkeel_rlvr.verifiers, evenkeel_rlvr.openrlhf
        print(sorted({name.split(".")[0] for name in sys.modules} & {"torch", "numpy", "trl", "verl", "verifiers", "openrlhf", "skyrl"}))
    """
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_untested_versions_are_refused_by_name(monkeypatch):
    installed = {}
    monkeypatch.setattr("evenkeel_rlvr._adapter.version", installed.get)
    assert untested("trl") == "trl is not installed, required: 1.16 or later, before 1.17"
    installed["trl"] = "1.17.0"
    assert untested("trl") == "trl is 1.17.0, allowed: 1.16 or later, before 1.17"
    for text in ("1.16.0", "1.16.3rc1", "1.16+cpu"):
        installed["trl"] = text
        assert untested("trl") is None
    assert all(first < end for first, end in TESTED.values())


def test_the_doctor_says_what_is_missing_and_fails(capsys, monkeypatch):
    monkeypatch.setattr("evenkeel_rlvr._adapter.version", lambda _: None)
    assert main(["doctor", "verl"]) == 1
    assert "verl is not installed, required: 0.9 or later" in capsys.readouterr().out
    monkeypatch.setattr("evenkeel_rlvr._adapter.version", lambda _: "0.9.1")
    monkeypatch.setenv("VERL_USE_EXTERNAL_PLUGINS", "other")
    assert main(["doctor", "verl"]) == 1
    assert "VERL_USE_EXTERNAL_PLUGINS is 'other', allowed: auto, or a list with evenkeel" in capsys.readouterr().out


def test_commands_print_a_verdict_and_a_path(capsys):
    assert main(["verify", r"\boxed{4}", "4"]) == 0 and main(["verify", "x", "4"]) == 1 and main(["verify", "x", ""]) == 3
    assert main(["verify", "x", "4", "--profile", "none"]) == 2
    captured = capsys.readouterr()
    assert captured.out.splitlines()[0] == "correct  equal_integer  4" and "profile is `none`" in captured.err
    assert main(["path", "openrlhf"]) == 0
    assert capsys.readouterr().out.strip() == openrlhf_module.__file__
    assert main(["path", "openrlhf_code"]) == 0
    assert capsys.readouterr().out.strip() == openrlhf_module.__file__.replace(".py", "_code.py")
    with pytest.raises(SystemExit):
        main(["doctor", "nobody"])


def test_balanced_names_the_modes_of_verl():
    assert set(MODES) < set(balanced.DIVISORS)
