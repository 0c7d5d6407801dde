"""Strict mode: a program runs as the main module of a process, or as a module of which a function is called."""

import atexit
import json
import linecache
import marshal
import sys
import time
import warnings
from builtins import BaseException as _BaseException
from builtins import compile as _compile
from builtins import exec as _exec
from types import ModuleType

import definitions
import exit_status
import header
import platform64
import values

FILE = "main.py"
# Most frames of a traceback that are written.
_FRAMES = 1000
_loads = json.loads
_scan, _BLANK = json.JSONDecoder().scan_once, " \t\r"
_loads_code = marshal.loads
_encode = values.encode
_header = header.names()
_flush_files = platform64.flush
_touch = time.monotonic
# Size of the length prefix of compiled code.
_LENGTH = 8


def compiled(source: bytes) -> tuple[int, bytes]:
    """Compiles a program once for all of its tests. The result is empty if the compiler reports anything, so that every test compiles and shows it."""
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            code = _compile(source, FILE, "exec", dont_inherit=True)
            parts = definitions.split(source, FILE)
        if warned:
            return exit_status.RETURNED, b""
        whole = marshal.dumps(code)
        return exit_status.RETURNED, len(whole).to_bytes(_LENGTH, "little") + whole + marshal.dumps(parts)
    except _BaseException:
        return exit_status.RETURNED, b""


def _code(source: bytes, code: bytes):
    # The parts that follow the code of the whole program are ignored.
    return _loads_code(code[_LENGTH:]) if code else _compile(source, FILE, "exec", dont_inherit=True)


def _parts(code: bytes):
    return _loads_code(code[_LENGTH + int.from_bytes(code[:_LENGTH], "little") :])


def run(source: bytes, code: bytes) -> tuple[int, bytes]:
    """Runs a program with the descriptors 0, 1 and 2 as its streams."""
    try:
        code = _code(source, code)
    except _BaseException as error:
        return _compile_error(source, error)
    module = _main_module()
    try:
        try:
            _exec(code, module.__dict__)
        finally:
            _finish(module)
    except _BaseException as error:
        return _raised(source, error)
    return exit_status.RETURNED, b""


def call(source: bytes, code: bytes, name: str, given: bytes) -> tuple[int, bytes]:
    """Calls the function `name` of a program, or that method of its `class Solution`, with one argument for each line of input."""
    try:
        code = _code(source, code)
    except _BaseException as error:
        return _compile_error(source, error)
    sys.setrecursionlimit(header.RECURSION_LIMIT)
    sys.set_int_max_str_digits(header.INT_DIGITS)
    module = _main_module("solution")
    module.__dict__.update(_header)
    try:
        # The host has parsed every line by the same rules, so that only memory can run out here.
        arguments = [_loads(line) for line in given.decode().split("\n")]
        _exec(code, module.__dict__)
        solution = module.__dict__.get("Solution")
        owner = solution() if isinstance(solution, type) else module
        function = getattr(owner, name, None)
        if function is None:
            return exit_status.NO_SUCH_FUNCTION, name.encode()
        value = _encode(function(*arguments))
    except _BaseException as error:
        return _raised(source, error)
    return exit_status.RETURNED, value


class Prepared:
    """The program whose definitions `prepare` has run."""

    source = b""
    called = False
    module = None
    rest = None

    @classmethod
    def take(cls) -> tuple:
        taken = cls.source, cls.module, cls.rest
        # Leave no trace of it.
        cls.source, cls.module, cls.rest = b"", None, None
        return taken


def prepare(source: bytes, code: bytes, called: bool) -> tuple[int, bytes]:
    """Runs the definitions of a compiled program. After any error, `run` or `call` handle the whole program."""
    # The first host call initialises the state of the C library. The host expects exactly this one.
    _touch()
    try:
        Prepared.source, Prepared.called = source, called
        parts = _parts(code)
        if parts is None:
            return exit_status.RAISED, b""
        if called:
            code = _code(source, code)
            sys.setrecursionlimit(header.RECURSION_LIMIT)
            sys.set_int_max_str_digits(header.INT_DIGITS)
            Prepared.module = module = _main_module("solution")
            module.__dict__.update(_header)
            _exec(code, module.__dict__)
            return exit_status.RETURNED, b""
        first, Prepared.rest = parts if parts[0] else (None, _code(source, code))
        Prepared.module = module = _main_module()
        if first:
            _exec(first, module.__dict__)
    except _BaseException:
        return exit_status.RAISED, b""
    return exit_status.RETURNED, b""


def resume() -> tuple[int, bytes]:
    """Continues as `run` after `prepare`."""
    source, module, code = Prepared.take()
    try:
        try:
            _exec(code, module.__dict__)
        finally:
            _finish(module)
    except _BaseException as error:
        return _raised(source, error)
    return exit_status.RETURNED, b""


def resume_call(name: str, given: bytes) -> tuple[int, bytes]:
    """Continues as `call` after `prepare`."""
    source, module, _ = Prepared.take()
    try:
        # The host has parsed every line by the same rules. The program may already have modified `json`.
        arguments = [_scan(line.strip(_BLANK), 0)[0] for line in given.decode().split("\n")]
        solution = module.__dict__.get("Solution")
        owner = solution() if isinstance(solution, type) else module
        function = getattr(owner, name, None)
        if function is None:
            return exit_status.NO_SUCH_FUNCTION, name.encode()
        value = _encode(function(*arguments))
    except _BaseException as error:
        return _raised(source, error)
    return exit_status.RETURNED, value


def _main_module(name: str = "__main__") -> ModuleType:
    module = ModuleType(name)
    module.__file__ = FILE
    module.__builtins__ = sys.modules["builtins"]
    sys.modules[name] = module
    return module


def _finish(module: ModuleType) -> None:
    # The visible effects of the end of a process: exit functions, then the output of finalizers.
    atexit._run_exitfuncs()
    _flush_streams()
    names = module.__dict__
    for name in [name for name, value in names.items() if hasattr(type(value), "__del__")]:
        del names[name]
    _flush_files()
    _flush_streams()


def _flush_streams() -> None:
    for stream in (sys.stdout, sys.__stdout__):
        try:
            stream.flush()
        except (AttributeError, ValueError):  # replaced by something else, or closed
            pass


def _compile_error(source: bytes, error: BaseException) -> tuple[int, bytes]:
    if isinstance(error, MemoryError):
        return exit_status.OUT_OF_MEMORY, exit_status.message(error)
    _report(source, error)
    return exit_status.COMPILE_ERROR, exit_status.message(error)


def _raised(source: bytes, error: BaseException) -> tuple[int, bytes]:
    if isinstance(error, SystemExit):
        return _exited(error)
    if isinstance(error, MemoryError):
        return exit_status.OUT_OF_MEMORY, exit_status.message(error)
    _report(source, error)
    return exit_status.RAISED, exit_status.message(error)


def _exited(error: SystemExit) -> tuple[int, bytes]:
    code = error.code
    if code is None:
        return exit_status.EXITED, b"0"
    if isinstance(code, int):
        return exit_status.EXITED, b"%d" % (int.__index__(code) & 0xFF)
    try:
        sys.stderr.write(f"{code}\n")
    except BaseException:  # the program may have replaced the stream, or the text
        pass
    return exit_status.EXITED, b"1"


def _report(source: bytes, error: BaseException) -> None:
    lines = source[:1_000_000].decode("utf-8", "replace").splitlines(True)
    linecache.cache[FILE] = (len(source), None, lines, FILE)
    if not hasattr(sys, "tracebacklimit"):
        # The traceback of a deep recursion would take longer than the recursion.
        sys.tracebacklimit = _FRAMES
    frames = error.__traceback__
    try:
        # Without the frame of this module.
        error.__traceback__ = frames and frames.tb_next
        sys.excepthook(type(error), error, error.__traceback__)
        sys.stderr.flush()
    except BaseException:  # the program's own hook
        pass
