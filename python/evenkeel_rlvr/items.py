"""What a reward service or a pool judges, and the verdicts: plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ._messages import message, names_of
from ._tests import Row, Unreadable, read_tests, sequence, text as _text
from .errors import ArgumentTypeError, ArgumentValueError, InvalidVerdict

__all__ = ["CodeItem", "CodeReport", "MathItem", "ServiceVerdict"]

#: Of a limit, in seconds or MiB: far above what a service grants, and a number that its messages can hold.
_LARGEST = 10**9


@dataclass(frozen=True)
class MathItem:
    """A completion against a gold answer, or against several of which any is right."""

    completion: str
    gold: str | Sequence[str]
    prompt: str | None = None
    profile: str = "default"

    def fill(self, item: Any) -> None:
        """Writes the item into its message."""
        golds = [self.gold] if isinstance(self.gold, str) else sequence("gold", self.gold)
        item.completion = _text("completion", self.completion)
        item.math.gold = _text("gold", golds[0]) if golds else ""
        item.math.alternatives.extend(_text("gold", gold) for gold in golds[1:])
        item.math.profile = _text("profile", self.profile)
        if self.prompt:
            item.math.prompt = _text("prompt", self.prompt)


@dataclass(frozen=True)
class CodeItem:
    """A completion with a program against tests.

    `tests` is a row of LiveCodeBench (`public_test_cases`, `private_test_cases`, `metadata`), or has `inputs`, `outputs` and, for functions,
    `fn_name`, as APPS and verl have them. `partial` rewards the share of tests that passed. `cpu_s` and `memory_mb` are limits of one test, by
    default those of the service.
    """

    completion: str
    tests: Mapping[str, Any]
    question_id: str = ""
    partial: bool = False
    cpu_s: float | None = None
    memory_mb: float | None = None

    def fill(self, item: Any) -> str | None:
        """Writes the item into its message, or says why its tests cannot be read."""
        item.completion = _text("completion", self.completion)
        tests = read_tests(self.tests)
        if isinstance(tests, Unreadable):
            return tests.reason
        task = item.code
        task.question_id = _text("question_id", self.question_id)
        if self.partial:
            task.reward = 2
        if self.cpu_s is not None:
            task.limits.cpu_ms = round(_positive("cpu_s", self.cpu_s) * 1000) or 1
        if self.memory_mb is not None:
            task.limits.memory_bytes = round(_positive("memory_mb", self.memory_mb) * 2**20)
        if isinstance(tests, Row):
            columns = task.live_code_bench
            columns.public_test_cases, columns.private_test_cases, columns.metadata = tests
            return None
        # Present even if it has none: that is a fault of the row, which the service names.
        task.tests.SetInParent()
        for given, expected in zip(tests.inputs, tests.outputs):
            task.tests.tests.add(kind=1, input=given, output=expected)
        return None


@dataclass(frozen=True)
class CodeReport:
    """What happened when the tests of a program were run."""

    passed_tests: int
    run_tests: int
    total_tests: int
    #: Index of the first test that failed, or None.
    failing_test: int | None
    stdout: str
    stderr: str
    cpu_s: float


@dataclass(frozen=True)
class ServiceVerdict:
    """A verdict of a reward service, or on a program. Like `Verdict`, an invalid one is neither true nor false."""

    outcome: str
    reason: str
    reward: float | None
    extracted: str | None = None
    canonical: str | None = None
    detail: str = ""
    copies_checked: bool = False
    code: CodeReport | None = None
    worker: str = ""
    #: Why an invalid verdict is one: `bad_gold`, `bad_tests`, `worker_lost`, ...; or None.
    invalid_reason: str | None = None
    #: Further parts of the reward by name, of a custom verifier.
    components: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_invalid(self) -> bool:
        """Whether nothing can be said about the sample, through no fault of its own."""
        return self.outcome == "invalid"

    @property
    def correct(self) -> bool | None:
        """True, False, or None if the verdict is invalid."""
        return None if self.is_invalid else self.outcome == "correct"

    def __bool__(self) -> bool:
        if self.is_invalid:
            raise InvalidVerdict(f"the verdict is invalid ({self.invalid_reason}: {self.detail or self.reason}): it is neither right nor wrong")
        return self.outcome == "correct"

    @classmethod
    def invalid(cls, reason: str, detail: str) -> ServiceVerdict:
        """A verdict that the client gives: no worker could."""
        return cls("invalid", reason, None, detail=detail, invalid_reason=reason)

    @classmethod
    def read(cls, verdict: Any) -> ServiceVerdict:
        """From the message."""
        outcome = names_of("Outcome").get(verdict.outcome, "")
        if outcome in ("", "unspecified"):
            return cls.invalid("internal", f"the worker's outcome {verdict.outcome} is not known here")
        invalid = outcome == "invalid"
        if not invalid and not verdict.HasField("reward"):
            return cls.invalid("internal", f"the worker gave no reward with the outcome {outcome}")
        return cls(
            outcome=outcome,
            reason=verdict.reason_code,
            reward=None if invalid else verdict.reward,
            extracted=verdict.extracted if verdict.HasField("extracted") else None,
            canonical=verdict.canonical if verdict.HasField("canonical") else None,
            detail=verdict.detail,
            copies_checked=verdict.copies_checked,
            code=_report(verdict.code) if verdict.HasField("code") else None,
            worker=verdict.worker,
            invalid_reason=names_of("InvalidReason").get(verdict.invalid_reason, "internal") if invalid else None,
            components=dict(verdict.components),
        )


def _report(code: Any) -> CodeReport:
    failing = code.failing_test if code.HasField("failing_test") else None
    return CodeReport(
        code.passed_tests, code.run_tests, code.total_tests, failing, code.stdout_excerpt, code.stderr_excerpt, code.cpu_us / 1e6
    )


def request(item: MathItem | CodeItem, identity: str, deadline_s: float | None) -> Any:
    """The message of an item, or the verdict on one whose tests cannot be read."""
    if not isinstance(item, (MathItem, CodeItem)):
        raise ArgumentTypeError(f"an item is of type {type(item).__name__}, allowed: MathItem, CodeItem")
    filled = message("VerifyItem")(id=identity)
    if deadline_s is not None:
        filled.deadline_ms = round(deadline_s * 1000)
    unreadable = item.fill(filled)
    return filled if unreadable is None else ServiceVerdict.invalid("bad_tests", f"tests: {unreadable}")


def _positive(name: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ArgumentTypeError(f"{name} is of type {type(value).__name__}, allowed: a number")
    if not 0 < value <= _LARGEST:
        raise ArgumentValueError(f"{name} is {value}, allowed: a number above 0, at most {_LARGEST}")
    return value
