from collections.abc import Sequence
from typing import Literal, TypedDict, final

from typing_extensions import Unpack

__all__ = [
    "GoldIssue",
    "lint_golds",
    "Verdict",
    "reason_codes",
    "_restore_verdict",
    "extract_answer",
    "verify_math",
    "verify_math_batch",
    "_balanced_weights",
    "_Batch",
    "_Pool",
    "_Tests",
    "_available_processors",
    "_interpreter_ends",
    "_read_row",
    "_read_tests",
    "program_reason_codes",
    "__version__",
]

__version__: str

_Outcome = Literal["correct", "incorrect", "no_answer", "undecided", "invalid"]
_Profile = Literal["default", "exact", "gsm8k", "dapo", "unmarked"]
_Marker = Literal["boxed", "hashes", "answer_line", "unmarked"]

class _Policy(TypedDict, total=False):
    markers: Sequence[_Marker]
    thinking: Literal["tail", "ignore"]
    decimals: Literal["exact", "rounded"]
    percent: Literal["hundredth", "either"]
    units: Literal["compare", "ignore", "require"]
    order: Literal["free", "strict"]
    text_case: Literal["fold", "exact"]
    equations: Literal["names", "strict"]
    decimal_comma: Literal["point", "list"]
    copied: Literal["refuse", "accept"]
    max_answer_bytes: int
    fuel: int

@final
class Verdict:
    @property
    def outcome(self) -> _Outcome: ...
    @property
    def reason(self) -> str: ...
    @property
    def correct(self) -> bool | None: ...
    @property
    def reward(self) -> float | None: ...
    @property
    def is_invalid(self) -> bool: ...
    @property
    def extracted(self) -> str | None: ...
    @property
    def canonical(self) -> str | None: ...
    @property
    def copies_checked(self) -> bool: ...
    @property
    def detail(self) -> str | None: ...
    def __bool__(self) -> bool: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[object, tuple[object, ...]]: ...

@final
class GoldIssue:
    def __new__(cls, index: int, code: str, message: str) -> GoldIssue: ...
    @property
    def index(self) -> int: ...
    @property
    def code(self) -> str: ...
    @property
    def message(self) -> str: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[object, tuple[object, ...]]: ...

def verify_math(
    completion: str,
    gold: str | Sequence[str],
    *,
    prompt: str | None = None,
    profile: _Profile | None = None,
    **policy: Unpack[_Policy],
) -> Verdict: ...
def verify_math_batch(
    completions: Sequence[str],
    golds: Sequence[str | Sequence[str]],
    *,
    prompts: Sequence[str | None] | None = None,
    profile: _Profile | None = None,
    threads: int | None = None,
    **policy: Unpack[_Policy],
) -> list[Verdict]: ...
def extract_answer(
    completion: str, *, profile: _Profile | None = None, **policy: Unpack[_Policy]
) -> str | None: ...
def lint_golds(
    golds: Sequence[object],
    *,
    prompts: Sequence[str | None] | None = None,
    profile: _Profile | None = None,
    threads: int | None = None,
    **policy: Unpack[_Policy],
) -> list[GoldIssue]: ...
def reason_codes() -> list[tuple[str, _Outcome]]: ...
def program_reason_codes() -> list[str]: ...
def _available_processors() -> int: ...
def _interpreter_ends() -> None: ...
@final
class _Tests:
    @property
    def held_bytes(self) -> int: ...

def _read_row(public: str, private: str, metadata: str) -> _Tests | str: ...
def _read_tests(inputs: Sequence[str], outputs: Sequence[str]) -> _Tests | str: ...

_Report = tuple[int, int, int, int | None, str, str, float]
_Values = tuple[str, str, float | None, str | None, str, str | None, _Report]

@final
class _Batch:
    def submit(
        self,
        key: int,
        completion: str,
        tests: _Tests,
        partial: bool,
        cpu_s: float | None,
        memory_bytes: int | None,
        deterministic: bool,
    ) -> bool: ...
    def wait(self, seconds: float, count: int = 1) -> list[tuple[int, _Values]]: ...
    def cancel(self, key: int) -> None: ...
    def fileno(self) -> int | None: ...
    def close(self) -> None: ...
    def __len__(self) -> int: ...

@final
class _Pool:
    def __new__(cls, program: str, folder: str, workers: int, queue: int, memory_bytes: int | None) -> _Pool: ...
    def batch(self, readable: bool) -> _Batch: ...
    def close(self) -> None: ...
    def usage(self) -> tuple[int, int, int, int]: ...

def _balanced_weights(
    advantages: Sequence[float], tokens: Sequence[int], groups: Sequence[int]
) -> tuple[list[float], int]: ...
def _restore_verdict(
    reason: str, extracted: str | None, canonical: str | None, copies_checked: bool, detail: str | None
) -> Verdict: ...
