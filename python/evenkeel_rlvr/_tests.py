"""The tests of programs, as data sets have them."""

from __future__ import annotations

import json
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


def read_tests(tests: Any) -> Row | Streams:
    """Tests in one of the two forms. What is no tests at all is refused; what is wrong in them is found by those who judge."""
    if not isinstance(tests, Mapping):
        raise ArgumentTypeError(f"tests is of type {type(tests).__name__}, allowed: a mapping")
    if any(column in tests for column in COLUMNS):
        return Row(*(text(column, tests.get(column) or "") for column in COLUMNS))
    if "inputs" in tests and "outputs" in tests:
        return _read_lists(tests)
    raise ArgumentValueError(f"tests has {sorted(map(str, tests))}, allowed: inputs and outputs, or {', '.join(COLUMNS)}")


def _read_lists(tests: Mapping[str, Any]) -> Row | Streams:
    inputs, outputs, function = sequence("inputs", tests["inputs"]), sequence("outputs", tests["outputs"]), tests.get("fn_name") or ""
    if len(inputs) != len(outputs):
        raise ArgumentValueError(f"length of outputs is {len(outputs)}, allowed: {len(inputs)}, the length of inputs")
    if text("fn_name", function):
        functional = [_function_test(given, expected) for given, expected in zip(inputs, outputs)]
        return Row(json.dumps(functional), "[]", json.dumps({"func_name": function}))
    return Streams(
        tuple(text("an input", _joined(given)) for given in inputs), tuple(text("an output", _joined(expected)) for expected in outputs)
    )


def _function_test(given: Any, expected: Any) -> dict[str, Any]:
    """Each argument is a line of JSON. APPS wraps the returned value in a list and others do not, so that both readings are right."""
    try:
        arguments = given if isinstance(given, str) else "\n".join(json.dumps(argument) for argument in given)
        test: dict[str, Any] = {"input": arguments, "output": expected if isinstance(expected, str) else json.dumps(expected), "testtype": "functional"}
        if isinstance(expected, list) and len(expected) == 1:
            test["alternatives"] = [json.dumps(expected[0])]
    except (TypeError, ValueError, RecursionError) as error:
        raise ArgumentValueError(f"a test of a function has no arguments or value as JSON ({error})") from None
    return test


def _joined(lines: Any) -> Any:
    return "\n".join(lines) if isinstance(lines, list) and all(isinstance(line, str) for line in lines) else lines


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
