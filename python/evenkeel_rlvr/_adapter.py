"""What the modules for trainers share: gold answers and completions as trainers have them, and the versions that were tested."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from .errors import ArgumentTypeError, ArgumentValueError, UnsupportedVersion

#: The versions of each trainer's distribution whose private parts were tested: from, and up to but not including.
TESTED: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "trl": ((1, 16), (1, 17)),
    "verl": ((0, 9), (0, 10)),
    "skyrl": ((0, 3), (0, 4)),
    "skyrl-gym": ((0, 4), (0, 5)),
    "verifiers": ((0, 4), (0, 5)),
    "openrlhf": ((0, 11), (0, 12)),
    "nemo-rl": ((0, 6), (0, 7)),
}


def version(distribution: str) -> str | None:
    """The installed version, or None."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def untested(distribution: str) -> str | None:
    """Why the installed version is not one that was tested, or None."""
    installed = version(distribution)
    first, end = TESTED[distribution]
    span = f"{_dotted(first)} or later, before {_dotted(end)}"
    if installed is None:
        return f"{distribution} is not installed, required: {span}"
    if not first <= _numbers(installed) < end:
        return f"{distribution} is {installed}, allowed: {span}"
    return None


def require_tested(distribution: str) -> None:
    """Refuses a version whose private parts may be other ones."""
    why = untested(distribution)
    if why:
        raise UnsupportedVersion(why)


def _numbers(text: str) -> tuple[int, ...]:
    numbers: list[int] = []
    for part in text.split("+")[0].split("."):
        digits = part[: next((i for i, sign in enumerate(part) if not sign.isdigit()), len(part))]
        if not digits:
            break
        numbers.append(int(digits))
    return tuple(numbers)


def _dotted(numbers: tuple[int, ...]) -> str:
    return ".".join(map(str, numbers))


def gold_answer(value: Any, name: str) -> Any:
    """A gold answer of a data set's column: numbers are written out, a list holds several right answers, and None and NaN are no answer."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return ""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, float):
        # All digits, which no exponent hides. pandas has NaN where there is none.
        return "" if value != value else format(Decimal(repr(value)), "f")
    if isinstance(value, (list, tuple)):
        if any(isinstance(item, (list, tuple)) for item in value):
            raise ArgumentTypeError(f"{name} has a list in a list, allowed: str, int, float, None, or a list of them")
        return [gold_answer(item, name) for item in value]
    if not isinstance(value, str) and type(value).__module__ == "numpy":
        return gold_answer(value.tolist(), name)
    if not isinstance(value, str):
        raise ArgumentTypeError(f"{name} is of type {type(value).__name__}, allowed: str, int, float, None, or a list of them")
    return value


def finite_number(name: str, value: Any, allowed: str = "a finite number") -> float:
    """A number of a trainer's configuration, such as a reward."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < float("inf"):
        raise ArgumentValueError(f"{name} is {value!r}, allowed: {allowed}")
    return float(value)


def completion_text(completion: Any) -> str:
    """A completion as text: it is one, or a conversation whose last message is the answer."""
    return completion if isinstance(completion, str) else _content(completion[-1]) if completion else ""


def prompt_text(prompt: Any) -> str | None:
    """The text of a task: a text, or what the user says in a conversation. None if it has none."""
    if prompt is None or isinstance(prompt, str):
        return prompt
    return "\n".join(_content(message) for message in prompt if _field(message, "role") == "user") or None


def _content(message: Any) -> str:
    content = _field(message, "content")
    if isinstance(content, (list, tuple)):
        return "".join(_field(part, "text") or "" for part in content if _field(part, "type") == "text")
    return content or ""


def _field(message: Any, name: str) -> Any:
    """A field of a message, which is a dict, or an object as verifiers has them."""
    return message.get(name) if isinstance(message, Mapping) else getattr(message, name, None)
