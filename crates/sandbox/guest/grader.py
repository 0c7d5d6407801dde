"""LiveCodeBench mode: a program is loaded once and then run on one test after the other, with the grader's replacements of standard input.

The grader's quirks are kept, since the purpose of the mode is to agree with it. Its loopholes are closed, since expected outputs never enter
the guest. Written from the behaviour of the grader in its revision of July 2025.
"""

import ast
import builtins
import io
import json
import os
import shutil
import subprocess
import sys
from types import ModuleType
from unittest.mock import mock_open, patch

import exit_status
import header
import values

_header = header.names()
_loads, _encode, _exec, _compile = json.loads, values.encode, exec, compile
_is = isinstance
_StringIO = io.StringIO
_message = exit_status.message

# Functions that the grader disables.
_OS = (
    "kill system putenv remove removedirs rmdir fchdir setuid fork forkpty killpg rename renames truncate replace unlink fchmod fchown "
    "chmod chown chroot lchflags lchmod lchown getcwd chdir"
).split()
_MODULES = ("ipdb", "joblib", "resource", "psutil", "tkinter")


class _Bytes:
    """Replaces `sys.stdin.buffer`: only read and readline, which returns the first line every time."""

    def __init__(self, text: str) -> None:
        self.inputs = text.encode("utf-8")

    def read(self, *args):
        return self.inputs

    def readline(self, *args):
        return self.inputs.split(b"\n")[0] + b"\n"


class _Stdin:
    """Replaces `sys.stdin`: no iteration, and no position in the input."""

    def __init__(self, text: str) -> None:
        self.inputs = text
        self._stringio = _StringIO(text)
        self.buffer = _Bytes(text)

    def read(self, *args):
        return self.inputs

    def readline(self, *args):
        return self._stringio.readline(*args)

    def readlines(self, *args):
        return self.inputs.split("\n")

    def __getattr__(self, name):
        return getattr(self._stringio, name)


class _Loaded:
    """The loaded program: a function without arguments, or the function to call."""

    function = None
    reads_stdin = False


def load(source: bytes, name: str) -> tuple[int, bytes]:
    """Loads a program. After an exception the grader's list is `[-4]`."""
    _guard()
    try:
        text = source.decode("utf-8")
        _Loaded.reads_stdin = not name
        module = _module(_wrapped(text) if _Loaded.reads_stdin else _plain(text))
        owner = module.Solution() if "class Solution" in text else module
        found = getattr(owner, name or "wrapped_function", None)
    except Exception as error:
        return _load_failed(error)
    except BaseException as error:
        return exit_status.FATAL, _message(error)
    if found is None:
        return exit_status.NO_SUCH_FUNCTION, name.encode()
    _Loaded.function = found
    return exit_status.RETURNED, b""


def grade(given: bytes) -> tuple[int, bytes]:
    """Runs the loaded program on one input."""
    text = given.decode("utf-8")
    return _run(text) if _Loaded.reads_stdin else _call(text)


def _run(text: str) -> tuple[int, bytes]:
    stdout, captured = sys.stdout, _StringIO()
    captured.close = lambda *args: 1
    sys.stdout = captured
    try:
        _with_replaced_input(text)
    except Exception as error:
        return _failed(error)
    except BaseException as error:
        return exit_status.FATAL, _message(error)
    finally:
        sys.stdout = stdout
    return exit_status.RETURNED, captured.getvalue().encode("utf-8", "surrogatepass")


def _with_replaced_input(text: str) -> None:
    lines = iter(text.split("\n"))
    # As in the grader, the first three modify the real object: programs that imported it by name depend on that accident.
    with (
        patch("sys.stdin.read", lambda *args: text),
        patch("sys.stdin.readlines", lambda *args: text.split("\n")),
        patch("sys.stdin.readline", lambda *args: next(lines)),
        patch("sys.stdin", _Stdin(text)),
        patch("builtins.open", mock_open(read_data=text)),
    ):
        try:
            _Loaded.function()
        except SystemExit:
            pass


def _call(text: str) -> tuple[int, bytes]:
    try:
        arguments = [_loads(line) for line in text.split("\n")]
        return exit_status.RETURNED, _encode(_Loaded.function(*arguments))
    except Exception as error:
        return _failed(error)
    except BaseException as error:
        return exit_status.FATAL, _message(error)


def _module(code) -> ModuleType:
    module = ModuleType("tmp_sol", "")
    module.__dict__.update(_header)
    sys.setrecursionlimit(header.RECURSION_LIMIT)
    _exec(code, module.__dict__)
    return module


def _plain(text: str):
    # The grader compiles header and program as one text, so that a future import is not at its beginning.
    prefix = "import sys;" if "__future__" in text else ""
    return _compile(prefix + text, "<string>", "exec", dont_inherit=True)


def _wrapped(text: str):
    """The imports of the program, and the rest of it as the body of a function."""
    try:
        tree = ast.parse(text)
    except Exception:
        return _compile(text, "<string>", "exec", dont_inherit=True)
    body = _without_main_guard(tree.body)
    imports = [statement for statement in body if _is(statement, (ast.Import, ast.ImportFrom))]
    others = [statement for statement in body if not _is(statement, (ast.Import, ast.ImportFrom))]
    if not others:
        raise IndentationError("expected an indented block after function definition")
    [function] = ast.parse("def wrapped_function(): pass").body
    function.body = others
    [first] = ast.parse("import sys").body
    tree.body = [first, *imports, function]
    return _compile(tree, "<string>", "exec", dont_inherit=True)


def _without_main_guard(body: list) -> list:
    if not body or not _is(body[-1], ast.If):
        return body
    if ast.unparse(body[-1].test).strip() != "__name__ == '__main__'":
        return body
    return body[:-1] + body[-1].body


def _load_failed(error: Exception) -> tuple[int, bytes]:
    if _is(error, MemoryError):
        return exit_status.OUT_OF_MEMORY, _message(error)
    if _is(error, SyntaxError):
        return exit_status.COMPILE_ERROR, _message(error)
    return exit_status.LOAD_FAILED, _message(error)


def _failed(error: Exception) -> tuple[int, bytes]:
    if _is(error, MemoryError):
        return exit_status.OUT_OF_MEMORY, _message(error)
    return exit_status.RAISED, _message(error)


def _guard() -> None:
    sys.set_int_max_str_digits(header.INT_DIGITS)
    for name in ("quit", "help"):
        setattr(builtins, name, None)
        _header[name] = None
    for name in _OS:
        setattr(os, name, None)
    for name in ("rmtree", "move", "chown"):
        setattr(shutil, name, None)
    subprocess.Popen = None
    for name in _MODULES:
        sys.modules[name] = None
