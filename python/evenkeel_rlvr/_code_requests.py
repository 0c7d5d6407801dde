"""What the native part takes of a program and its tests, and what it gives back."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from typing import Any

from . import _native
from ._tests import Row, Streams, Unreadable, read_tests, text
from .errors import ArgumentTypeError, ArgumentValueError
from .items import CodeItem, CodeReport, ServiceVerdict

#: Completion, tests, partial, seconds of CPU time, bytes of memory, deterministic.
Request = tuple[str, _native._Tests, bool, "float | None", "int | None", bool]

_MOST_CPU_S = 60
_LEAST_MEMORY_MB, _MOST_MEMORY_MB = 16, 3072
#: Tests that are kept for further programs, in bytes. A row of LiveCodeBench takes as long to read as many programs to run.
_CACHED_BYTES = 256 << 20
_ENTRY_BYTES = 1024


def number_within(name: str, value: Any, least: float, most: float, *, whole: bool = True) -> Any:
    """A number, which is refused by its name."""
    kinds = int if whole else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds):
        raise ArgumentTypeError(f"{name} is of type {type(value).__name__}, allowed: {'int' if whole else 'a number'}")
    if not least <= value <= most:
        raise ArgumentValueError(f"{name} is {value}, allowed: {least} to {most}")
    return value


def limits_of(cpu_s: float | None, memory_mb: float | None) -> tuple[float | None, int | None]:
    """Limits of one test: those that a reward service allows, too."""
    seconds = None if cpu_s is None else float(number_within("cpu_s", cpu_s, 0.001, _MOST_CPU_S, whole=False))
    memory = None if memory_mb is None else number_within("memory_mb", memory_mb, _LEAST_MEMORY_MB, _MOST_MEMORY_MB, whole=False)
    return seconds, None if memory is None else round(memory * 2**20)


class TestsCache:
    """Tests by what they were read from, up to a number of bytes. Those of a row are the same for all its programs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tests: OrderedDict[bytes, _native._Tests] = OrderedDict()
        self._bytes = 0

    def request(self, item: CodeItem, deterministic: bool) -> Request | ServiceVerdict:
        """What is submitted, or the verdict on a program whose tests cannot be read."""
        cpu_s, memory = limits_of(item.cpu_s, item.memory_mb)
        if not isinstance(item.completion, str):
            text("completion", item.completion)
        tests = self._read(read_tests(item.tests))
        if isinstance(tests, str):
            return ServiceVerdict.invalid("bad_tests", f"tests: {tests}")
        return item.completion, tests, bool(item.partial), cpu_s, memory, deterministic

    def _read(self, tests: Row | Streams | Unreadable) -> _native._Tests | str:
        if isinstance(tests, Unreadable):
            return tests.reason
        key = _digest(tests)
        with self._lock:
            known = self._tests.get(key)
            if known is not None:
                self._tests.move_to_end(key)
                return known
        read = _native._read_row(*tests) if isinstance(tests, Row) else _native._read_tests(tests.inputs, tests.outputs)
        if not isinstance(read, str):
            with self._lock:
                if key not in self._tests:
                    self._tests[key] = read
                    self._bytes += read.held_bytes + _ENTRY_BYTES
                while self._bytes > _CACHED_BYTES:
                    _, dropped = self._tests.popitem(last=False)
                    self._bytes -= dropped.held_bytes + _ENTRY_BYTES
        return read


def _digest(tests: Row | Streams) -> bytes:
    """Identifies what tests are read from: lengths are part of it, so that no two have the same parts."""
    hashed = hashlib.sha256(type(tests).__name__.encode())
    parts = tests if isinstance(tests, Row) else (*tests.inputs, *tests.outputs)
    for part in parts:
        encoded = part.encode()
        hashed.update(len(encoded).to_bytes(8, "little"))
        hashed.update(encoded)
    return hashed.digest()


def verdict_of(values: tuple[Any, ...]) -> ServiceVerdict:
    """The verdict of a pool, in the shape of that of a service."""
    outcome, reason, reward, program, detail, invalid, report = values
    return ServiceVerdict(outcome, reason, reward, extracted=program, detail=detail, code=CodeReport(*report), invalid_reason=invalid)
