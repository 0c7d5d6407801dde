"""Makes the guest's 32-bit interpreter look like the 64-bit one that programs are written for, where that can be done."""

import builtins
import io
import sys

MAXSIZE = 2**63 - 1


# The names under which a process finds its streams as files.
_STREAMS = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2, "/dev/fd/0": 0, "/dev/fd/1": 1, "/dev/fd/2": 2}
_real_open = io.open


def _open(file, mode="r", buffering=-1, encoding=None, errors=None, newline=None, closefd=True, opener=None):
    if type(file) is str and file in _STREAMS:
        return _real_open(_STREAMS[file], mode, buffering, encoding, errors, newline, False)
    return _real_open(file, mode, buffering, encoding, errors, newline, closefd, opener)


_open.__name__ = _open.__qualname__ = "open"
_open.__doc__ = _real_open.__doc__


def _stream(descriptor: int, mode: str, name: str) -> io.TextIOWrapper:
    raw = io.FileIO(descriptor, mode, closefd=False)
    buffer = io.BufferedReader(raw) if mode == "r" else io.BufferedWriter(raw)
    stream = io.TextIOWrapper(buffer, "utf-8", "strict" if descriptor < 2 else "backslashreplace", line_buffering=descriptor == 2)
    stream.mode = mode
    buffer.raw.name = name
    return stream


def install() -> None:
    """Standard streams as those of a process with files behind them, and the widest index as programs use it for infinity."""
    sys.maxsize = MAXSIZE
    sys.stdin = sys.__stdin__ = _stream(0, "r", "<stdin>")
    sys.stdout = sys.__stdout__ = _stream(1, "w", "<stdout>")
    sys.stderr = sys.__stderr__ = _stream(2, "w", "<stderr>")
    sys.argv = ["main.py"]
    sys.orig_argv = ["python3", "main.py"]
    builtins.open = io.open = _open


def forget_files() -> None:
    """No import looks for files any more: there are none in the finished guest."""
    sys.path[:] = []
    sys.path_importer_cache.clear()
