"""Makes the 32-bit interpreter of the guest behave like the 64-bit one that programs are written for, as far as possible."""

import builtins
import functools
import io
import os
import sys
import time
import weakref

MAXSIZE = 2**63 - 1


# Paths of the standard streams.
_STREAMS = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2, "/dev/fd/0": 0, "/dev/fd/1": 1, "/dev/fd/2": 2}
_real_open = io.open
_real_fstat = os.fstat
_real_lru_cache = functools.lru_cache
# Weak references to files that a program opened for writing, for `flush`.
_opened = []


def _open(file, mode="r", buffering=-1, encoding=None, errors=None, newline=None, closefd=True, opener=None):
    if type(file) is str and file in _STREAMS:
        file, closefd = _STREAMS[file], False
    opened = _real_open(file, mode, buffering, encoding, errors, newline, closefd, opener)
    if "r" not in mode:
        _opened.append(weakref.ref(opened))
    return opened


_open.__name__ = _open.__qualname__ = "open"
_open.__doc__ = _real_open.__doc__


def _fstat(fd):
    found = _real_fstat(fd)
    if fd == 0 and _fstat.size is not None:
        return os.stat_result((*found[:6], _fstat.size, *found[7:10]))
    return found


_fstat.size = None
_fstat.__name__ = _fstat.__qualname__ = "fstat"


def has_input(size: int) -> None:
    """Sets the size of standard input that `fstat` reports. Programs use it to read everything at once."""
    _fstat.size = size


def flush() -> None:
    """Flushes files that are still open, as the end of a process does."""
    for reference in _opened:
        opened = reference()
        try:
            if opened is not None:
                opened.flush()
        except (OSError, ValueError):  # closed, or its stream is
            pass


def _lru_cache(maxsize=128, typed=False):
    # A size beyond all indices is equivalent to no limit.
    if type(maxsize) is int and maxsize >= 2**31:
        maxsize = None
    return _real_lru_cache(maxsize, typed)


_lru_cache.__name__ = _lru_cache.__qualname__ = "lru_cache"
_lru_cache.__doc__ = _real_lru_cache.__doc__


def _stream(descriptor: int, mode: str, name: str) -> io.TextIOWrapper:
    raw = io.FileIO(descriptor, mode, closefd=False)
    buffer = io.BufferedReader(raw) if mode == "r" else io.BufferedWriter(raw)
    errors = "strict" if descriptor < 2 else "backslashreplace"
    # No translation of line endings, so that carriage returns are preserved.
    stream = io.TextIOWrapper(buffer, "utf-8", errors, newline="\n", line_buffering=descriptor == 2)
    stream.mode = mode
    buffer.raw.name = name
    return stream


def _process_time() -> float:
    return _monotonic()


def _process_time_ns() -> int:
    return _monotonic_ns()


_monotonic, _monotonic_ns = time.monotonic, time.monotonic_ns


def install() -> None:
    """Sets up the standard streams like those of a process with files, and `sys.maxsize`, which programs use as infinity."""
    sys.maxsize = MAXSIZE
    sys.stdin = sys.__stdin__ = _stream(0, "r", "<stdin>")
    sys.stdout = sys.__stdout__ = _stream(1, "w", "<stdout>")
    sys.stderr = sys.__stderr__ = _stream(2, "w", "<stderr>")
    sys.argv = ["main.py"]
    sys.orig_argv = ["python3", "main.py"]
    builtins.open = io.open = _open
    os.fstat = _fstat
    functools.lru_cache = _lru_cache
    # The process clock of the C library started during the build.
    time.process_time = time.thread_time = _process_time
    time.process_time_ns = time.thread_time_ns = _process_time_ns


def forget_files() -> None:
    """Makes imports ignore files, which the finished guest does not have."""
    sys.path[:] = []
    sys.path_importer_cache.clear()
