"""Verdicts on mathematics: those of the Rust crate, as objects of Python."""

import copy
import json
import pickle
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

import evenkeel_rlvr
from evenkeel_rlvr import (
    InvalidVerdict,
    Verdict,
    extract_answer,
    lint_golds,
    reason_codes,
    verify_math,
    verify_math_batch,
)

PAIRS = Path(__file__).parents[2] / "crates/math/tests/golden/pairs.jsonl"
# What a model may write and a data set may have, lone surrogates and answers of every outcome included.
ANY_TEXT = st.text(st.characters(), max_size=200) | st.sampled_from(
    ["\\boxed{4}", "\\boxed{", "<think>", "Answer: 4", "#### 4", "\\boxed{1/0}", "\ud800\\boxed{\udfff}", "", "4"]
)


def test_a_verdict_has_what_the_check_found():
    verdict = verify_math(r"Both agree, so \boxed{0.75}.", r"\frac{3}{4}")
    assert (verdict.outcome, verdict.reason, verdict.correct, verdict.reward) == ("correct", "equal_decimal", True, 1.0)
    assert (verdict.extracted, verdict.canonical, verdict.is_invalid, verdict.detail) == ("0.75", "3/4", False, None)
    assert bool(verdict) is True


@pytest.mark.parametrize(
    ("completion", "gold", "outcome", "reason"),
    [
        (r"\boxed{5}", "4", "incorrect", "different_number"),
        ("no idea", "4", "no_answer", "nothing_marked"),
        (r"<think> \boxed{4}", "4", "no_answer", "unclosed_thinking"),
        (r"\boxed{x^2+2x+1}", "(x+1)^2", "undecided", "out_of_fuel"),
    ],
)
def test_what_is_not_correct_is_false_and_has_reward_0(completion, gold, outcome, reason):
    # Enough to read the gold answer of each, not enough to compare the last.
    verdict = verify_math(completion, gold, fuel=200)
    assert (verdict.outcome, verdict.reason) == (outcome, reason)
    assert verdict.correct is False and verdict.reward == 0.0 and not verdict


@pytest.mark.parametrize("gold", ["", r"\frac{1}{0}", "{", "4\u200b", "4" * 70_000, "\ud800", []])
def test_a_gold_answer_that_cannot_be_used_is_invalid_and_neither_true_nor_false(gold):
    verdict = verify_math(r"\boxed{4}", gold)
    assert verdict.is_invalid and verdict.outcome == "invalid" and verdict.reason.startswith("gold_")
    assert verdict.correct is None and verdict.reward is None and verdict.detail
    with pytest.raises(InvalidVerdict, match=verdict.reason):
        bool(verdict)


def test_of_several_gold_answers_any_is_right():
    assert verify_math(r"\boxed{4}", ["3", "4"]).correct
    assert verify_math(r"\boxed{4}", ("3", "5")).reason == "different_number"


def test_several_gold_answers_are_invalid_only_if_none_can_be_read():
    assert verify_math(r"\boxed{4}", ["", "4"]).correct
    assert verify_math(r"\boxed{4}", ["3", ""]).reason == verify_math(r"\boxed{4}", ["", "3"]).reason == "different_number"
    assert verify_math(r"\boxed{4}", ["", "{"]).is_invalid


def test_a_copy_of_one_gold_answer_says_more_than_a_difference_from_another():
    verdict = verify_math(r"\boxed{12 \cdot 7}", ["84", "5"], prompt=r"What is $12 \cdot 7$?")
    assert verdict.reason == "copied"


def test_verdicts_are_those_of_the_crate():
    rows = [json.loads(line) for line in PAIRS.read_text().splitlines()]
    rows = [row for row in rows if row["form"] == "answer"]
    assert len(rows) > 100
    verdicts = verify_math_batch([f"\\boxed{{{row['answer']}}}" for row in rows], [row["gold"] for row in rows])
    differing = [row["id"] for row, verdict in zip(rows, verdicts) if verdict.correct is not row["equal"]]
    # In a box, an answer may read otherwise than alone; the crate's own test has them as they are.
    assert len(differing) <= len(rows) // 100, differing


def test_an_answer_copied_from_the_prompt_is_refused_where_the_prompt_is_given():
    completion, gold, prompt = r"\boxed{12 \cdot 7 + 5}", "89", r"What is $12 \cdot 7 + 5$?"
    assert verify_math(completion, gold).correct and not verify_math(completion, gold).copies_checked
    verdict = verify_math(completion, gold, prompt=prompt)
    assert verdict.reason == "copied" and verdict.copies_checked
    assert verify_math(completion, gold, prompt=prompt, copied="accept").correct
    assert verify_math_batch([completion] * 2, [gold] * 2, prompts=[None, prompt])[1].reason == "copied"


def test_rules_are_chosen_by_profile_and_by_name():
    assert verify_math(r"\boxed{50\%}", "50").correct
    assert not verify_math(r"\boxed{50\%}", "50", percent="hundredth")
    assert not verify_math(r"\boxed{50\%}", "50", profile="exact")
    assert verify_math("#### 7", "7", markers=["hashes"]).correct
    assert verify_math("#### 7", "7", markers=["boxed"]).outcome == "no_answer"
    assert verify_math(r"\boxed{(x+1)^{30}}", "(1+x)^{30}", fuel=1).is_invalid


def test_the_answer_of_a_completion_is_that_of_its_verdict():
    for text in [r"\boxed{ 4 }", r"\boxed{1} \boxed{2}", "Answer: 7", "nothing", "", r"\boxed{" + "1" * 70_000 + "}"]:
        assert extract_answer(text) == verify_math(text, "4").extracted


def test_gold_answers_are_linted_with_their_index_and_reason():
    issues = lint_golds(["4", "", "null", None, 4, "\udc00", r"(x+1)(x+2)"], prompts=[None] * 6 + ["Factor completely."])
    found = [(issue.index, issue.code) for issue in issues]
    assert found == [
        (1, "gold_empty"),
        (2, "pattern"),
        (3, "gold_not_text"),
        (4, "gold_not_text"),
        (5, "gold_hidden_characters"),
        (6, "form_sensitive"),
    ]
    assert "empty" in issues[0].message and "index=1" in repr(issues[0])
    assert pickle.loads(pickle.dumps(issues)) == issues


@given(st.lists(st.tuples(ANY_TEXT, ANY_TEXT), max_size=40), st.integers(1, 4))
@settings(deadline=None)
def test_a_batch_has_the_verdicts_of_single_calls_in_order(pairs, threads):
    completions, golds = [c for c, _ in pairs], [g for _, g in pairs]
    assert verify_math_batch(completions, golds, threads=threads) == [verify_math(c, g) for c, g in pairs]


def test_a_batch_that_several_threads_share_keeps_its_order():
    numbers = range(10_000)
    verdicts = verify_math_batch([f"\\boxed{{{n}}}" for n in numbers], [str(n - n % 2) for n in numbers], threads=4)
    assert [verdict.correct for verdict in verdicts] == [n % 2 == 0 for n in numbers]
    assert [verdict.extracted for verdict in verdicts] == [str(n) for n in numbers]


@given(ANY_TEXT, ANY_TEXT, ANY_TEXT)
@settings(deadline=None)
def test_no_text_raises(completion, gold, prompt):
    verdict = verify_math(completion, gold, prompt=prompt)
    assert verdict.correct in (True, False, None)
    assert extract_answer(completion) is None or isinstance(extract_answer(completion), str)
    assert verify_math_batch([completion], [[gold, gold]])[0].is_invalid == verdict.is_invalid
    lint_golds([gold], prompts=[prompt])


@given(ANY_TEXT, ANY_TEXT)
@settings(deadline=None)
def test_a_verdict_survives_copies_and_other_processes(completion, gold):
    verdict = verify_math(completion, gold)
    for twin in (pickle.loads(pickle.dumps(verdict)), copy.deepcopy(verdict)):
        assert twin == verdict and hash(twin) == hash(verdict) and repr(twin) == repr(verdict)
        assert (twin.canonical, twin.detail, twin.reason) == (verdict.canonical, verdict.detail, verdict.reason)


def test_a_hundred_megabytes_have_a_verdict():
    assert verify_math("so " * 33_000_000 + r"\boxed{4}", "4").correct
    assert verify_math(r"\boxed{" * 14_000_000, "4").correct is False
    assert verify_math(r"\boxed{4}", "9" * 100_000_000).reason == "gold_too_long"


def test_verdicts_cannot_be_made_or_changed_by_hand():
    with pytest.raises(TypeError):
        Verdict()
    with pytest.raises(AttributeError):
        verify_math("", "4").reward = 1.0


def test_every_reason_has_one_outcome():
    codes = dict(reason_codes())
    assert len(codes) == len(reason_codes()) and codes["equal_integer"] == "correct" and codes["copied"] == "incorrect"
    assert {outcome for _, outcome in reason_codes()} == {"correct", "incorrect", "no_answer", "undecided", "invalid"}


def test_the_version_is_that_of_the_crates():
    manifest = (Path(__file__).parents[2] / "Cargo.toml").read_text()
    assert f'\nversion = "{evenkeel_rlvr.__version__}"\n' in manifest
