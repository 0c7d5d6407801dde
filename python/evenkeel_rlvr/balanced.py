"""Balanced aggregation (arXiv 2605.04077) for any trainer: weights, folded advantages, the loss itself.

The loss of an update is -1/P times the sum over its rows of w_i times the sum of row i's token terms, with w_i = M_s / (G Z_s): in the group of
row i, G rows have a token, and M_s and Z_s are the sums of abs(A) and of abs(A) T over the rows on the side of A_i's sign. P groups have a token.

Arguments are NumPy arrays, lists, or PyTorch tensors; results are tensors if the advantages are, and else arrays of float64. `groups` has one
label for each row, equal within a group: numbers or texts. Rows may be in any order.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Literal

from ._native import _balanced_weights
from .errors import ArgumentTypeError, ArgumentValueError, MissingPackage

__all__ = ["DIVISORS", "Divisor", "count_groups", "fold", "loss", "weights"]

Divisor = Literal[
    "seq-mean-token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm", "token-mean", "token-sum", "prompt-mean"
]

# Far above any text; sums of them stay exact.
_MAX_LENGTH = 2**40

#: What a trainer divides its sum of token terms by, by the names that trainers use. `fold` undoes it.
DIVISORS: dict[Divisor, str] = {
    "seq-mean-token-mean": "rows × the tokens of the row",
    "seq-mean-token-sum": "rows",
    "seq-mean-token-sum-norm": "rows × max_tokens",
    "token-mean": "tokens",
    "token-sum": "1",
    "prompt-mean": "prompts × the tokens of the row's group",
}


def weights(advantages: Any, lengths: Any, groups: Any, *, valid: Any = None) -> Any:
    """M_s / (G Z_s) for each row; 0 for one that is invalid, has no token, or has advantage 0.

    `lengths` has the trainable tokens of each row, `valid` whether it counts (all do by default). To be divided by P, `count_groups`.
    """
    rows = _Rows(advantages, _lengths(lengths), groups, valid)
    return _like(advantages, rows.weights)


def count_groups(lengths: Any, groups: Any, *, valid: Any = None) -> int:
    """P: the groups with a trainable token in a valid row."""
    lengths = _lengths(lengths)
    return _Rows([0.0] * len(lengths), lengths, groups, valid).count


def fold(
    advantages: Any,
    mask: Any,
    groups: Any,
    *,
    divisor: Divisor,
    valid: Any = None,
    rows: float | None = None,
    tokens: float | None = None,
    prompts: float | None = None,
    max_tokens: float | None = None,
    groups_in_update: float | None = None,
) -> Any:
    """One advantage for each row with which a trainer's own loss is that of balanced aggregation.

    The trainer has to divide by what `divisor` names (see `DIVISORS`), and its token terms have to grow in proportion to the advantage, as
    those of clipping, dual clipping, GSPO, CISPO and SAPO do. KL and entropy terms stay as they are.

    `mask` (rows × tokens) is 1 at the tokens that the trainer's loss sums. `rows`, `tokens` and `prompts` are the counts that the trainer divides
    by, by default those of the arguments, invalid rows included (of `prompts`, P); `groups_in_update` is P, by default the groups with a token in
    a valid row; `max_tokens` is the constant of `seq-mean-token-sum-norm`.
    """
    if divisor not in DIVISORS:
        raise ArgumentValueError(f"divisor is {divisor!r}, allowed: {', '.join(DIVISORS)}")
    np = _numpy()
    summed = _mask_lengths(mask)
    weighed = _Rows(advantages, summed, groups, valid)
    count = _size("groups_in_update", groups_in_update, weighed.count)
    lengths = np.asarray(summed, dtype=np.float64)
    if divisor == "seq-mean-token-mean":
        factor = _size("rows", rows, len(lengths)) * lengths
    elif divisor == "seq-mean-token-sum":
        factor = _size("rows", rows, len(lengths))
    elif divisor == "seq-mean-token-sum-norm":
        if max_tokens is None:
            raise ArgumentValueError("max_tokens is absent, required: the constant that the trainer divides by")
        factor = _size("rows", rows, len(lengths)) * _size("max_tokens", max_tokens, 0)
    elif divisor == "token-mean":
        factor = _size("tokens", tokens, float(lengths.sum()))
    elif divisor == "prompt-mean":
        of_group = np.bincount(weighed.groups, weights=lengths, minlength=1)
        factor = _size("prompts", prompts, weighed.count) * of_group[weighed.groups]
    else:
        factor = 1.0
    folded = weighed.advantages * weighed.weights * factor / count if count else np.zeros(len(lengths))
    return _like(advantages, folded)


def loss(terms: Any, mask: Any, advantages: Any, groups: Any, *, valid: Any = None) -> Any:
    """The loss itself, for own loops: -1/P times the weighted sum of `terms`, differentiable in them.

    `terms` (rows × tokens) are what is to be maximised at each token, the advantage included, such as min(r A, clip(r) A).
    """
    rows = _Rows(advantages, _mask_lengths(mask), groups, valid)
    np = _numpy()
    shape = tuple(terms.shape) if hasattr(terms, "shape") else np.shape(terms)
    mask_shape = tuple(mask.shape) if hasattr(mask, "shape") else np.shape(mask)
    if shape != mask_shape:
        raise ArgumentValueError(f"shape of terms is {shape}, allowed: {mask_shape}, the shape of mask")
    scaled = -rows.weights / rows.count if rows.count else np.zeros(len(rows.weights))
    torch = _torch()
    if torch is not None and isinstance(terms, torch.Tensor):
        of_row = torch.as_tensor(scaled, dtype=terms.dtype, device=terms.device)
        masked = torch.where(torch.as_tensor(mask, device=terms.device).bool(), terms, 0)
        return (masked.sum(1) * of_row).sum()
    masked = np.where(np.asarray(_plain(mask)) != 0, np.asarray(terms, dtype=np.float64), 0.0)
    return float(masked.sum(axis=1) @ scaled)


class _Rows:
    """The rows of an update, checked, with their weights."""

    def __init__(self, advantages: Any, lengths: list[int], groups: Any, valid: Any) -> None:
        np = _numpy()
        array = np.asarray(_plain(advantages), dtype=np.float64)
        if array.ndim != 1:
            raise ArgumentValueError(f"advantages has {array.ndim} dimensions, allowed: 1, a number for each row")
        if len(lengths) != len(array):
            raise ArgumentValueError(f"the number of lengths is {len(lengths)}, allowed: {len(array)}, that of advantages")
        self.groups = _indices(groups, len(array))
        if valid is not None:
            kept = np.asarray(_plain(valid)).astype(bool)
            if kept.shape != array.shape:
                raise ArgumentValueError(f"the shape of valid is {kept.shape}, allowed: {array.shape}, that of advantages")
            # The advantage of a row without a reward may be anything, NaN included.
            array = np.where(kept, array, 0.0)
            lengths = [length if keep else 0 for length, keep in zip(lengths, kept.tolist())]
        self.advantages = array
        weighed, self.count = _balanced_weights(array.tolist(), lengths, self.groups.tolist())
        self.weights = np.asarray(weighed, dtype=np.float64)


def _indices(groups: Any, rows: int) -> Any:
    """Indices of groups from 0 on, in the order in which their labels first appear."""
    labels: Sequence[Hashable] | Iterable[Hashable] = _plain(groups)
    labels = labels.tolist() if hasattr(labels, "tolist") else list(labels)
    if len(labels) != rows:
        raise ArgumentValueError(f"the number of groups is {len(labels)}, allowed: {rows}, a label for each row")
    seen: dict[Hashable, int] = {}
    try:
        return _numpy().asarray([seen.setdefault(label, len(seen)) for label in labels], dtype=_numpy().int64)
    except TypeError as error:
        raise ArgumentTypeError(f"groups has a label of a type that cannot be compared: {error}") from None


def _lengths(lengths: Any) -> list[int]:
    np = _numpy()
    array = np.asarray(_plain(lengths))
    if array.ndim != 1:
        raise ArgumentValueError(f"lengths has {array.ndim} dimensions, allowed: 1, a number for each row")
    with np.errstate(invalid="ignore"):
        whole = array.astype(np.int64) if array.dtype.kind in "biuf" else None
    if whole is None or (whole != array).any() or (whole < 0).any() or (whole > _MAX_LENGTH).any():
        raise ArgumentValueError(f"lengths has a value that is no number of tokens, allowed: whole numbers from 0 to {_MAX_LENGTH}")
    counted: list[int] = whole.tolist()
    return counted


def _mask_lengths(mask: Any) -> list[int]:
    np = _numpy()
    array = np.asarray(_plain(mask))
    if array.ndim != 2:
        raise ArgumentValueError(f"mask has {array.ndim} dimensions, allowed: 2, rows and tokens")
    if array.dtype.kind not in "biuf" or not ((array == 0) | (array == 1)).all():
        raise ArgumentValueError("mask has a value that is neither 0 nor 1")
    return _lengths((array != 0).sum(axis=1))


def _size(name: str, given: float | None, counted: float) -> float:
    value = counted if given is None else float(given)
    if given is not None and not 0 < value < float("inf"):
        raise ArgumentValueError(f"{name} is {given}, allowed: a number above 0")
    return value


def _plain(values: Any) -> Any:
    """A tensor as an array; anything else as it is."""
    torch = _torch()
    if torch is not None and isinstance(values, torch.Tensor):
        values = values.detach().cpu()
        # NumPy has no bfloat16.
        return (values.double() if values.is_floating_point() else values).numpy()
    return values


def _like(advantages: Any, values: Any) -> Any:
    torch = _torch()
    if torch is not None and isinstance(advantages, torch.Tensor):
        dtype = advantages.dtype if advantages.is_floating_point() else torch.float64
        return torch.as_tensor(values, dtype=dtype, device=advantages.device)
    return values


def _torch() -> Any:
    """PyTorch where the caller has imported it: only then can an argument be a tensor."""
    return sys.modules.get("torch")


def _numpy() -> Any:
    try:
        import numpy
    except ImportError:
        raise MissingPackage("evenkeel_rlvr.balanced needs NumPy: pip install evenkeel-rlvr[numpy]") from None
    return numpy
