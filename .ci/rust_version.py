#!/usr/bin/env python3
"""Prints the oldest supported version of Rust, and fails if a page or an image names another.

Clippy reads the same `rust-version` and refuses functions of newer standard libraries (`incompatible_msrv`).
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Where the version is named, and how.
PLACES = {
    "README.md": r"Rust toolchain \((\d+\.\d+) or newer\)",
    "docs/start.md": r"Rust (\d+\.\d+) or newer",
    "deploy/Dockerfile": r"ARG RUST=rust:(\d+\.\d+)-",
    "deploy/Dockerfile.cuda": r"ARG RUST=rust:(\d+\.\d+)-",
}


def main():
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["rust-version"]
    wrong = []
    for place, pattern in PLACES.items():
        named = re.findall(pattern, (ROOT / place).read_text())
        if not named:
            wrong.append(f"{place}: names no version of Rust (looked for {pattern})")
        wrong += [f"{place}: Rust {other}, but Cargo.toml has rust-version = {version}" for other in named if other != version]
    print("\n".join(wrong), file=sys.stderr, end="\n" if wrong else "")
    print(version)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
