"""Makes the guest's 32-bit interpreter look like the 64-bit one that programs are written for, where that can be done."""

import io
import sys

MAXSIZE = 2**63 - 1


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
    sys.path[:] = []
    sys.path_importer_cache.clear()
