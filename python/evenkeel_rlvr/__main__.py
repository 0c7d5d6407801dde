"""`python -m evenkeel_rlvr`: a verdict on the command line, the sandbox made ready, the paths of plug-ins, and whether trainers find them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from . import __version__, verify_math
from ._doctor import TRAINERS, doctor, plugin_path
from .errors import EvenkeelError


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m evenkeel_rlvr", description=__doc__)
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True)
    verify = commands.add_parser("verify", help="judge one completion; the exit status is 0 if it is correct, 1 if not, 3 if invalid")
    verify.add_argument("completion")
    verify.add_argument("gold")
    verify.add_argument("--profile", default="default")
    ready = commands.add_parser("prepare", help="compile the sandbox's interpreter, which the first program does otherwise, and print its folder")
    ready.add_argument("--to", metavar="DIR", help="the folder, for EVENKEEL_GUEST_DIR or EVENKEEL_GUEST_IMAGE; by default that of this user")
    ready.add_argument("--deterministic", action="store_true", help="the form that counts instructions instead of time, too")
    check = commands.add_parser("doctor", help="whether trainers find this package, and why not; the exit status is 1 if one does not")
    check.add_argument("trainer", nargs="*", metavar="TRAINER", help=f"{', '.join(TRAINERS)}; all that are installed by default")
    path = commands.add_parser("path", help="the file of a trainer's module, for trainers that take a path")
    path.add_argument("trainer", choices=[*TRAINERS, "openrlhf_code"])
    chosen = parser.parse_args(arguments)
    if chosen.command == "doctor":
        unknown = set(chosen.trainer) - set(TRAINERS)
        if unknown:
            parser.error(f"TRAINER is {unknown.pop()!r}, allowed: {', '.join(TRAINERS)}")
        return doctor(chosen.trainer)
    if chosen.command == "path":
        print(plugin_path(chosen.trainer))
        return 0
    if chosen.command == "prepare":
        return _prepare(chosen.to, chosen.deterministic)
    try:
        verdict = verify_math(chosen.completion, chosen.gold, profile=chosen.profile)
    except EvenkeelError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{verdict.outcome}  {verdict.reason}  {verdict.extracted or ''}".rstrip())
    return {True: 0, False: 1, None: 3}[verdict.correct]


def _prepare(to: str | None, deterministic: bool) -> int:
    from .code import prepare

    try:
        for form in (False, True) if deterministic else (False,):
            folder = prepare(to, deterministic=form, progress=lambda line: print(line, file=sys.stderr))
    except EvenkeelError as error:
        print(error, file=sys.stderr)
        return 2
    print(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
