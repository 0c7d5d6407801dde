"""`python -m evenkeel_rlvr`: a verdict on the command line, the paths of plug-ins, and whether trainers find them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from . import __version__, verify_math
from .errors import EvenkeelError


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m evenkeel_rlvr", description=__doc__)
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True)
    verify = commands.add_parser("verify", help="judge one completion; the exit status is 0 if it is correct, 1 if not, 3 if invalid")
    verify.add_argument("completion")
    verify.add_argument("gold")
    verify.add_argument("--profile", default="default")
    chosen = parser.parse_args(arguments)
    try:
        verdict = verify_math(chosen.completion, chosen.gold, profile=chosen.profile)
    except EvenkeelError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{verdict.outcome}  {verdict.reason}  {verdict.extracted or ''}".rstrip())
    return {True: 0, False: 1, None: 3}[verdict.correct]


if __name__ == "__main__":
    sys.exit(main())
