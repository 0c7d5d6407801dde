"""The tests of programs, as data sets have them."""

from __future__ import annotations

import json
import numbers
from collections.abc import Mapping
from typing import Any, NamedTuple

from .errors import ArgumentTypeError, ArgumentValueError

COLUMNS = ("public_test_cases", "private_test_cases", "metadata")


class Row(NamedTuple):
    """The columns of LiveCodeBench, in which a test may have several right outputs."""

    public: str
    private: str
    metadata: str


class Streams(NamedTuple):
    """Standard inputs, and what is expected on standard output."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


class Unreadable(NamedTuple):
    """Why a row's tests cannot be read, which is a fault of the row."""

    reason: str


def read_tests(tests: Any) -> Row | Streams | Unreadable:
    """Tests in one of the two forms. What is no tests at all is refused; what is wrong in them is found by those who judge."""
    if not isinstance(tests, Mapping):
        raise ArgumentTypeError(f"tests is of type {type(tests).__name__}, allowed: a mapping")
    if any(column in tests for column in COLUMNS):
        return Row(*(text(column, tests.get(column) or "") for column in COLUMNS))
    if "inputs" in tests and "outputs" in tests:
        return _read_lists(tests)
    raise ArgumentValueError(f"tests has {sorted(map(str, tests))}, allowed: inputs and outputs, or {', '.join(COLUMNS)}")


def _read_lists(tests: Mapping[str, Any]) -> Row | Streams | Unreadable:
    inputs, outputs, function = sequence("inputs", tests["inputs"]), sequence("outputs", tests["outputs"]), tests.get("fn_name") or ""
    if len(inputs) != len(outputs):
        return Unreadable(f"length of outputs is {len(outputs)}, allowed: {len(inputs)}, the length of inputs")
    if text("fn_name", function):
        functional = [_function_test(given, expected) for given, expected in zip(inputs, outputs)]
        return Row(json.dumps(functional), "[]", json.dumps({"func_name": function}))
    return Streams(
        tuple(text("an input", _plain(given)) for given in inputs), tuple(text("an output", _plain(expected)) for expected in outputs)
    )


def _function_test(given: Any, expected: Any) -> dict[str, Any]:
    """A call and its result. Some data sets have the result in a list of one, and a text may be the result or its JSON: then several are right.

    As `evenkeel verify code` reads tests (crates/data/src/tests_column.rs).
    """
    try:
        # Next to arguments as JSON in a text, the result is one as well.
        is_json = isinstance(expected, str) and _is_json(expected)
        output = expected if is_json and not _is_list(given) else json.dumps(expected)
        alternatives: list[str] = []
        if _is_list(expected) and len(expected) == 1:
            (one,) = expected
            alternatives.append(json.dumps(one))
            if isinstance(one, str) and _is_json(one):
                alternatives.append(one)
        elif is_json and _is_list(given):
            alternatives.append(expected)
        test: dict[str, Any] = {"input": _arguments(given), "output": output, "testtype": "functional"}
    except (TypeError, ValueError, RecursionError) as error:
        raise ArgumentValueError(f"a test of a function has no arguments or value as JSON ({error})") from None
    if alternatives:
        test["alternatives"] = alternatives
    return test


def _arguments(given: Any) -> str:
    """The arguments of a call, each on a line as JSON."""
    if isinstance(given, str):
        # Otherwise it is the only argument, a text.
        return given if all(_is_json(line) for line in _lines(given)) else json.dumps(given)
    return "\n".join(json.dumps(argument) for argument in given) if _is_list(given) else json.dumps(given)


def _plain(value: Any) -> Any:
    """What a program reads or prints: a text, a number, or lines of them. Anything else stays, to be refused."""
    if isinstance(value, numbers.Real):
        return str(value)
    if not isinstance(value, list):
        return value
    lines = [_plain(line) for line in value]
    if not all(isinstance(line, str) for line in lines):
        return value
    # Lines may end with a line break already.
    ended = len(lines) > 1 and all(line.endswith("\n") for line in lines[:-1])
    return ("" if ended else "\n").join(lines)


def _is_list(value: Any) -> bool:
    return hasattr(value, "__iter__") and not isinstance(value, (str, bytes, Mapping))


def _lines(given: str) -> list[str]:
    lines = given.split("\n")
    return lines if lines[-1] else lines[:-1]


def _is_json(given: str) -> bool:
    try:
        json.loads(given, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return False
    return True


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def sequence(name: str, value: Any) -> list[Any]:
    """The items of a sequence, or of an array."""
    if isinstance(value, (str, bytes, Mapping)) or not hasattr(value, "__iter__"):
        raise ArgumentTypeError(f"{name} is of type {type(value).__name__}, allowed: a sequence")
    return list(value)


def text(name: str, value: Any) -> str:
    """A text without lone surrogates, which no message can hold."""
    if not isinstance(value, str):
        raise ArgumentTypeError(f"{name} is of type {type(value).__name__}, allowed: str")
    return value if value.isascii() else value.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
