"""Verdicts on model-written mathematics and balanced aggregation, for trainers in Python.

>>> from evenkeel_rlvr import verify_math
>>> verify_math(r"so it is \\boxed{0.75}", r"\\frac{3}{4}").reason
'equal_decimal'

Nothing is imported but the native part; the modules of trainers (`evenkeel_rlvr.trl`, `evenkeel_rlvr.verl`, ...) are imported by those who
use them.
"""

import atexit as _atexit

from . import errors as errors
from ._native import (
    GoldIssue as GoldIssue,
    Verdict as Verdict,
    __version__ as __version__,
    _interpreter_ends,
    extract_answer as extract_answer,
    lint_golds as lint_golds,
    reason_codes as reason_codes,
    verify_math as verify_math,
    verify_math_batch as verify_math_batch,
)
from .errors import EvenkeelError as EvenkeelError, InvalidVerdict as InvalidVerdict

_atexit.register(_interpreter_ends)

__all__ = [
    "EvenkeelError",
    "GoldIssue",
    "InvalidVerdict",
    "Verdict",
    "__version__",
    "errors",
    "extract_answer",
    "lint_golds",
    "reason_codes",
    "verify_math",
    "verify_math_batch",
]
