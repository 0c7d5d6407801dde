"""What a caller passes wrongly is refused by the argument's name, with exceptions of the package."""

import pytest
from hypothesis import given, settings, strategies as st

from evenkeel_rlvr import EvenkeelError, errors, extract_answer, lint_golds, verify_math, verify_math_batch
from evenkeel_rlvr._native import _restore_verdict

OTHER = (
    st.none()
    | st.integers()
    | st.floats()
    | st.binary()
    | st.dictionaries(st.text(), st.integers(), min_size=1)
    | st.lists(st.integers() | st.binary() | st.none(), min_size=1)
)


@given(OTHER)
@settings(deadline=None)
def test_a_gold_answer_of_another_type_is_refused_by_name(gold):
    with pytest.raises(errors.ArgumentTypeError, match="^gold is of type"):
        verify_math("x", gold)
    with pytest.raises(errors.ArgumentTypeError, match=r"^golds\[1\] is of type"):
        verify_math_batch(["x", "y"], ["1", gold])


@given(OTHER)
@settings(deadline=None)
def test_a_completion_of_another_type_is_refused_by_name(completion):
    for call in (lambda: verify_math(completion, "4"), lambda: extract_answer(completion)):
        with pytest.raises(errors.ArgumentTypeError, match="^completion is of type .*, allowed: str$"):
            call()
    with pytest.raises(errors.ArgumentTypeError, match=r"^completions\[0\]"):
        verify_math_batch([completion], ["4"])


@pytest.mark.parametrize("completions", ["text", b"bytes", None, 4, iter(["x"]), {"x": 1}, {"x"}])
def test_completions_are_a_sequence(completions):
    with pytest.raises(errors.ArgumentTypeError, match="^completions is of type .*, allowed: a sequence"):
        verify_math_batch(completions, ["4"])


def test_lengths_must_agree():
    with pytest.raises(errors.ArgumentValueError, match="^length of golds is 1, allowed: 2, the length of completions"):
        verify_math_batch(["x", "y"], ["4"])
    with pytest.raises(errors.ArgumentValueError, match="^length of prompts is 0"):
        verify_math_batch(["x"], ["4"], prompts=[])
    with pytest.raises(errors.ArgumentValueError, match="^length of prompts is 2"):
        lint_golds(["4"], prompts=["", ""])
    assert verify_math_batch([], []) == []


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"profile": "aime"}, "^profile is `aime`, allowed: default, exact"),
        ({"percent": "none"}, "^percent is .*none.*hundredth"),
        ({"percent": "zzz"}, '^percent is "zzz", allowed: .*hundredth'),
        ({"percents": "either"}, '^the name of a rule is "percents", allowed: markers, '),
        ({"limits": "4"}, '^the name of a rule is "limits", allowed: '),
        ({"markers": []}, "^markers is empty"),
        ({"fuel": 0}, "fuel is 0"),
        ({"fuel": -1}, "^fuel has a value of another type"),
        ({"fuel": 1 << 80}, "^fuel has a value of another type"),
        ({"percent": None}, "^percent has a value of another type"),
        ({"profile": 4}, "^profile is of type int"),
        ({"prompt": 4}, "^prompt is of type int"),
    ],
)
def test_rules_that_do_not_exist_are_refused_by_name(rules, message):
    with pytest.raises((errors.ArgumentValueError, errors.ArgumentTypeError), match=message):
        verify_math("x", "4", **rules)


@pytest.mark.parametrize("threads", ["2", 2.0, True, [2]])
def test_the_number_of_threads_is_a_whole_number(threads):
    for call in (lambda: verify_math_batch(["x"], ["4"], threads=threads), lambda: lint_golds(["4"], threads=threads)):
        with pytest.raises(errors.ArgumentTypeError, match="^threads is of type .*, allowed: int$"):
            call()
    with pytest.raises(errors.ArgumentValueError, match="^threads is .*, allowed: 1 to 256"):
        verify_math_batch(["x"], ["4"], threads=1 << 80)


@pytest.mark.parametrize("threads", [0, -1, 257])
def test_the_number_of_threads_is_bounded(threads):
    with pytest.raises(errors.ArgumentValueError, match=f"^threads is {threads}, allowed: 1 to 256"):
        verify_math_batch(["x"], ["4"], threads=threads)


def test_arrays_and_columns_are_sequences():
    numpy = pytest.importorskip("numpy")
    completions = numpy.array([r"\boxed{4}", "x"])
    assert [v.correct for v in verify_math_batch(completions, numpy.array(["4", "4"], dtype=object))] == [True, False]


def test_errors_of_a_sequence_pass():
    class Broken(list):
        def __iter__(self):
            raise RuntimeError("broken")

    with pytest.raises((RuntimeError, EvenkeelError)):
        verify_math_batch(Broken("x"), ["4"])


def test_a_verdict_of_another_version_is_refused():
    with pytest.raises(errors.ArgumentValueError, match='^reason is "new_reason"'):
        _restore_verdict("new_reason", None, None, False, None)


def test_every_exception_is_one_of_the_package():
    for name in ("ArgumentTypeError", "ArgumentValueError", "InvalidVerdict", "InternalError", "UnsupportedSetting"):
        assert issubclass(getattr(errors, name), EvenkeelError)
    assert issubclass(errors.ArgumentTypeError, TypeError) and issubclass(errors.ArgumentValueError, ValueError)
