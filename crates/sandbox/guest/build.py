"""Builds the guest: `python build.py WIT_FOLDER SOURCE_FOLDER OUTPUT`, in an environment with componentize-py."""

import sys

import componentize_py
from componentize_py import componentize_py as library

import fixed_entropy


def main() -> int:
    wit, source, output = sys.argv[1:]
    if fixed_entropy.supported():
        fixed_entropy.fix(library.__file__)
    else:
        print("the seed of string hashes is specific to this build: it can only be fixed on Linux on x86-64", file=sys.stderr)
    sys.argv = ["componentize-py", "-q", "-d", wit, "-w", "sandbox", "componentize", "guest", "-p", source, "-o", output]
    componentize_py.script()
    return 0


if __name__ == "__main__":
    sys.exit(main())
