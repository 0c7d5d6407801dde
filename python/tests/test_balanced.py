"""Balanced aggregation against the formula of the paper, written once more with plain loops."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from evenkeel_rlvr import balanced, errors


def direct(phi, advantages, mask, groups, valid):
    """-1/P times the sum over groups and sides of M_s / (G Z_s) times the sum of phi."""
    lengths = [sum(row) for row in mask]
    total, counted = 0.0, 0
    for group in sorted(set(groups)):
        rows = [i for i in range(len(mask)) if groups[i] == group and valid[i] and lengths[i] > 0]
        counted += bool(rows)
        for sign in (1, -1):
            side = [i for i in rows if advantages[i] * sign > 0]
            if side:
                m = sum(abs(advantages[i]) for i in side)
                z = sum(abs(advantages[i]) * lengths[i] for i in side)
                total += m / (len(rows) * z) * sum(phi[i][t] for i in side for t in range(len(mask[i])) if mask[i][t])
    return -total / counted if counted else 0.0


@st.composite
def updates(draw):
    """Rows of several groups in any order, with holes in masks, rows without tokens, equal groups and invalid rows."""
    rows = draw(st.integers(1, 24))
    width = draw(st.integers(1, 12))
    numbers = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    groups = numbers.integers(0, draw(st.integers(1, 5)), rows)
    mask = numbers.integers(0, 2, (rows, width)) * (numbers.random((rows, 1)) < 0.9)
    advantages = np.where(numbers.random(rows) < 0.2, 0.0, numbers.normal(size=rows))
    valid = numbers.random(rows) < 0.85
    return advantages, mask, groups, valid, numbers.normal(size=(rows, width))


@given(updates())
@settings(deadline=None)
def test_the_loss_is_that_of_the_paper(update):
    advantages, mask, groups, valid, phi = update
    want = direct(phi.tolist(), advantages.tolist(), mask.tolist(), groups.tolist(), valid.tolist())
    assert balanced.loss(phi, mask, advantages, groups, valid=valid) == pytest.approx(want, rel=1e-12, abs=1e-12)


def trainers_loss(divisor, terms, mask, groups, rows, max_tokens):
    """The sum of token terms as a trainer divides it. A row or group without a token has no term."""
    lengths = mask.sum(1)
    of_group = {group: mask[groups == group].sum() for group in groups.tolist()}
    of_group = np.array([of_group[group] for group in groups.tolist()])
    counted = len({group for group, length in zip(groups.tolist(), lengths) if length})
    each = {
        "seq-mean-token-mean": rows * np.maximum(lengths, 1),
        "seq-mean-token-sum": rows,
        "seq-mean-token-sum-norm": rows * max_tokens,
        "token-mean": max(mask.sum(), 1),
        "token-sum": 1,
        "prompt-mean": max(counted, 1) * np.maximum(of_group, 1),
    }[divisor]
    return -((terms * mask).sum(1) / each).sum()


@given(updates(), st.sampled_from(sorted(balanced.DIVISORS)))
@settings(deadline=None, max_examples=200)
def test_with_folded_advantages_a_trainers_loss_is_balanced(update, divisor):
    advantages, mask, groups, valid, phi = update
    if divisor == "prompt-mean":
        # That trainer has no rows that are left out.
        valid = np.ones(len(mask), dtype=bool)
    folded = balanced.fold(advantages, mask, groups, divisor=divisor, valid=valid, max_tokens=40)
    # Terms in proportion to the advantage, as those of a clipped ratio are: sign by sign.
    ratio = np.exp(phi)
    terms = lambda a: np.minimum(ratio * a[:, None], np.clip(ratio, 0.8, 1.28) * a[:, None])  # noqa: E731
    usable = np.where(valid, advantages, 0.0)
    want = direct(terms(usable).tolist(), usable.tolist(), mask.tolist(), groups.tolist(), valid.tolist())
    got = trainers_loss(divisor, terms(folded), mask, groups, len(mask), 40)
    assert got == pytest.approx(want, rel=1e-9, abs=1e-12)


def test_sizes_of_the_trainer_replace_those_of_the_arguments():
    advantages, mask, groups = [1.0, -1.0], [[1, 1], [1, 0]], ["a", "a"]
    one = balanced.fold(advantages, mask, groups, divisor="seq-mean-token-sum")
    assert balanced.fold(advantages, mask, groups, divisor="seq-mean-token-sum", rows=8, groups_in_update=2) == pytest.approx(one * 2)
    tokens = balanced.fold(advantages, mask, groups, divisor="token-mean", tokens=30)
    assert tokens == pytest.approx(balanced.fold(advantages, mask, groups, divisor="token-mean") * 10)


def test_weights_and_counts_of_an_example():
    # Two right answers of 1 and 3 tokens, a wrong one of 4; and a group without a side.
    weights = balanced.weights([1.0, 1.0, -2.0, 0.0], [1, 3, 4, 5], ["a", "a", "a", "b"])
    assert weights.tolist() == pytest.approx([2 / (3 * 4), 2 / (3 * 4), 2 / (3 * 8), 0.0])
    assert balanced.count_groups([1, 3, 4, 5], ["a", "a", "a", "b"]) == 2
    assert balanced.count_groups([1, 3, 4, 0], ["a", "a", "a", "b"]) == 1
    assert balanced.count_groups([1, 3, 4, 5], ["a", "a", "a", "b"], valid=[True, True, True, False]) == 1


def test_an_invalid_row_leaves_its_group_whatever_its_advantage_is():
    with_row = balanced.weights([1.0, float("nan"), -1.0], [2, 9, 3], [0, 0, 0], valid=[True, False, True])
    assert with_row[[0, 2]].tolist() == balanced.weights([1.0, -1.0], [2, 3], [0, 0]).tolist() and with_row[1] == 0.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"advantages": [1.0, float("nan")]}, "advantage is NaN, allowed: a finite number"),
        ({"advantages": [1.0, float("inf")]}, "advantage is inf"),
        ({"advantages": [[1.0], [2.0]]}, "advantages has 2 dimensions"),
        ({"mask": [[1, 1]]}, "the number of lengths is 1, allowed: 2"),
        ({"mask": [[1, 2], [0, 1]]}, "mask has a value that is neither 0 nor 1"),
        ({"mask": [1, 1]}, "mask has 1 dimensions"),
        ({"groups": ["a"]}, "the number of groups is 1, allowed: 2"),
        ({"valid": [True]}, "the shape of valid is"),
        ({"divisor": "bnpo"}, "divisor is 'bnpo', allowed: seq-mean-token-mean"),
        ({"divisor": "seq-mean-token-sum-norm"}, "max_tokens is absent, required"),
        ({"rows": 0}, "rows is 0, allowed: a number above 0"),
    ],
)
def test_what_cannot_be_folded_is_refused_by_name(change, message):
    arguments = {"advantages": [1.0, -1.0], "mask": [[1, 1], [1, 0]], "groups": ["a", "a"], "divisor": "seq-mean-token-sum"}
    with pytest.raises(errors.ArgumentValueError, match=message):
        balanced.fold(**{**arguments, **change})


def test_lengths_are_whole_numbers():
    for lengths in ([1.5], [-1], [2**41], [1e300], [float("nan")], ["a"], [None]):
        with pytest.raises(errors.ArgumentValueError, match="^lengths has a value"):
            balanced.weights([1.0], lengths, [0])
    with pytest.raises(errors.ArgumentTypeError, match="^groups has a label"):
        balanced.weights([1.0], [1], [[{}]])


def test_a_large_batch_takes_milliseconds():
    import time

    numbers = np.random.default_rng(0)
    advantages, lengths, groups = numbers.normal(size=2048), numbers.integers(1, 8192, 2048), np.arange(2048) // 8
    times = []
    for _ in range(5):
        begin = time.process_time()
        balanced.weights(advantages, lengths, groups)
        times.append(time.process_time() - begin)
    assert min(times) < 0.01


def test_without_numpy_it_says_what_to_install():
    program = """if True:
        import sys
        sys.modules["numpy"] = None
        from evenkeel_rlvr import balanced, errors, verify_math
        assert verify_math(r"\\boxed{4}", "4").correct
        try:
            balanced.weights([1.0], [1], [0])
        except errors.MissingPackage as error:
            print(error)
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert "pip install evenkeel-rlvr[numpy]" in done.stdout, done.stderr


def test_tensors_give_tensors_and_gradients():
    torch = pytest.importorskip("torch")
    advantages = torch.tensor([1.0, -0.5, 0.25], dtype=torch.float32)
    mask, groups = torch.tensor([[1, 1, 0], [1, 0, 1], [1, 1, 1]]), ["a", "a", "a"]
    weights = balanced.weights(advantages, mask.sum(1), groups)
    assert weights.dtype == torch.float32
    terms = torch.randn(3, 3, dtype=torch.float64, requires_grad=True)
    balanced.loss(terms, mask, advantages, groups).backward()
    want = -balanced.weights(advantages.double(), mask.sum(1), groups)[:, None] * mask
    assert torch.allclose(terms.grad, want, atol=1e-15)
    assert balanced.fold(advantages.bfloat16(), mask, groups, divisor="token-mean").dtype == torch.bfloat16
