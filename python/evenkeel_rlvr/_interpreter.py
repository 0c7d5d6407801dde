"""The sandbox's interpreter: brought by the package as WebAssembly, compiled once on each machine."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from .errors import InterpreterMissing

_FOLDER = Path(__file__).with_name("_sandbox")
#: Characters of the program's messages that an exception has.
_MESSAGE = 4_000
_ADVICE = (
    "set EVENKEEL_GUEST_DIR to a folder that can be written to, or run `python -m evenkeel_rlvr prepare --to DIR` where one can "
    "and set EVENKEEL_GUEST_DIR (or EVENKEEL_GUEST_IMAGE, for images) to it"
)


def program() -> Path:
    """The program that compiles the interpreter and runs programs in it: EVENKEEL_GUEST_BUILDER, or that of the package."""
    named = os.environ.get("EVENKEEL_GUEST_BUILDER")
    path = Path(named) if named else _FOLDER / "evenkeel-guest"
    if not os.access(path, os.X_OK):
        problem = "is not executable" if path.is_file() else "is not there"
        raise InterpreterMissing(f"the sandbox's program {path} {problem}: install a wheel of evenkeel-rlvr, or name one with EVENKEEL_GUEST_BUILDER")
    return path


def prepare(to: str | os.PathLike[str] | None = None, *, deterministic: bool = False, progress: Callable[[str], None] | None = None) -> Path:
    """Compiles the interpreter unless it was compiled before, and returns its folder.

    Of many processes that call this one compiles, which takes some 15 seconds of CPU time, and the others wait. Files are written under another name and
    renamed, and are used only if they have the digest that was recorded for them: what is half written or damaged is made anew.

    The folder is `to`; else that of EVENKEEL_GUEST_IMAGE if it has one that fits, EVENKEEL_GUEST_DIR, or `evenkeel` in the user's cache folder. A
    folder that has it is only read. With `deterministic` it is the form that counts instructions. `progress` is called before slow steps.
    """
    command = [str(program()), *(["--find"] if to is None else ["--dir", os.fspath(to)]), *(["--counted"] if deterministic else [])]
    try:
        # In text mode names of other encodings would be an error.
        started = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except OSError as error:
        raise InterpreterMissing(f"the sandbox's program {command[0]} cannot be run ({error})") from error
    said = b""
    # Leaving early, as by Ctrl-C, ends it: a compilation that nobody waits for.
    try:
        assert started.stdout is not None and started.stderr is not None
        for line in started.stderr:
            said = (said + line)[-_MESSAGE:]
            if progress is not None:
                progress(line.decode("utf-8", "replace").rstrip("\n"))
        folder = started.stdout.read().removesuffix(b"\n")
        status = started.wait()
    except BaseException:
        started.kill()
        started.wait()
        raise
    finally:
        for pipe in (started.stdout, started.stderr):
            if pipe is not None:
                pipe.close()
    if status != 0:
        why = said.decode("utf-8", "replace").strip() or f"it ended with {status}"
        raise InterpreterMissing(f"the sandbox's interpreter cannot be prepared ({why}): {_ADVICE}")
    return Path(os.fsdecode(folder))
