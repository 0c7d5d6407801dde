"""The strict way: a program runs as the main module of a process of its own, or is imported by one that calls a function of it."""

import atexit
import json
import linecache
import marshal
import sys
import warnings
from builtins import BaseException as _BaseException
from builtins import compile as _compile
from builtins import exec as _exec
from types import ModuleType

import ending
import header
import platform64
import values

FILE = "main.py"
# Frames of a traceback that are written at most.
_FRAMES = 1000
_loads = json.loads
_loads_code = marshal.loads
_encode = values.encode
_header = header.names()
_flush_files = platform64.flush


def compiled(source: bytes) -> tuple[int, bytes]:
    """A program's code, so that not every test has to compile it. What the compiler has to say, it shall say in every test."""
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            code = _compile(source, FILE, "exec", dont_inherit=True)
        return ending.RETURNED, b"" if said else marshal.dumps(code)
    except _BaseException:
        return ending.RETURNED, b""


def _code(source: bytes, code: bytes):
    return _loads_code(code) if code else _compile(source, FILE, "exec", dont_inherit=True)


def run(source: bytes, code: bytes) -> tuple[int, bytes]:
    """Runs a program whose streams are the descriptors 0, 1 and 2."""
    try:
        code = _code(source, code)
    except _BaseException as error:
        return _not_compiled(source, error)
    module = _main_module()
    try:
        try:
            _exec(code, module.__dict__)
        finally:
            _finish(module)
    except _BaseException as error:
        return _raised(source, error)
    return ending.RETURNED, b""


def call(source: bytes, code: bytes, name: str, given: bytes) -> tuple[int, bytes]:
    """Calls the function `name` of a program, or that method of its `class Solution`, with one argument for each line of input."""
    try:
        code = _code(source, code)
    except _BaseException as error:
        return _not_compiled(source, error)
    sys.setrecursionlimit(header.RECURSION_LIMIT)
    sys.set_int_max_str_digits(header.INT_DIGITS)
    module = _main_module("solution")
    module.__dict__.update(_header)
    try:
        # The host has read every line as JSON, by the same rules: only memory can run out here.
        arguments = [_loads(line) for line in given.decode().split("\n")]
        _exec(code, module.__dict__)
        solution = module.__dict__.get("Solution")
        owner = solution() if isinstance(solution, type) else module
        function = getattr(owner, name, None)
        if function is None:
            return ending.NO_SUCH_FUNCTION, name.encode()
        value = _encode(function(*arguments))
    except _BaseException as error:
        return _raised(source, error)
    return ending.RETURNED, value


def _main_module(name: str = "__main__") -> ModuleType:
    module = ModuleType(name)
    module.__file__ = FILE
    module.__builtins__ = sys.modules["builtins"]
    sys.modules[name] = module
    return module


def _finish(module: ModuleType) -> None:
    # What the end of a process does that can be seen from outside: exit functions, then what finalizers write.
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


def _not_compiled(source: bytes, error: BaseException) -> tuple[int, bytes]:
    if isinstance(error, MemoryError):
        return ending.OUT_OF_MEMORY, ending.text(error)
    _report(source, error)
    return ending.NOT_A_PROGRAM, ending.text(error)


def _raised(source: bytes, error: BaseException) -> tuple[int, bytes]:
    if isinstance(error, SystemExit):
        return _exited(error)
    if isinstance(error, MemoryError):
        return ending.OUT_OF_MEMORY, ending.text(error)
    _report(source, error)
    return ending.RAISED, ending.text(error)


def _exited(error: SystemExit) -> tuple[int, bytes]:
    code = error.code
    if code is None:
        return ending.EXITED, b"0"
    if isinstance(code, int):
        return ending.EXITED, b"%d" % (int.__index__(code) & 0xFF)
    try:
        sys.stderr.write(f"{code}\n")
    except BaseException:  # the program may have replaced the stream, or the text
        pass
    return ending.EXITED, b"1"


def _report(source: bytes, error: BaseException) -> None:
    lines = source[:1_000_000].decode("utf-8", "replace").splitlines(True)
    linecache.cache[FILE] = (len(source), None, lines, FILE)
    if not hasattr(sys, "tracebacklimit"):
        # A deep recursion that nobody caught would take longer to be told than it took.
        sys.tracebacklimit = _FRAMES
    frames = error.__traceback__
    try:
        # Without this module's own frame.
        error.__traceback__ = frames and frames.tb_next
        sys.excepthook(type(error), error, error.__traceback__)
        sys.stderr.flush()
    except BaseException:  # the program's own hook
        pass
