#!/usr/bin/env python3
"""The summaries that README.md and the picture of the terminal show, held against a run of README's first command with the program that was just
built (about a minute).

    .ci/readme_numbers.py [PROGRAM]

Times differ between machines; every other number is the same to the bit on x86-64 processors with AVX2 and FMA.
"""
import html
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
TIMES = re.compile(r"^(\d+ steps in ).*$", re.M)


def shown(readme):
    """The lines of the block that shows a summary."""
    blocks = [block for block in re.findall(r"^```.*\n((?:(?!```).*\n)*)```$", readme, re.M) if TIMES.match(block)]
    if len(blocks) != 1:
        sys.exit(f"README.md has {len(blocks)} summaries of a run, allowed: one")
    return comparable(blocks[0].splitlines())


def pictured(svg):
    """The lines of the summary in a picture of the terminal."""
    lines = [html.unescape(line) for line in re.findall(r"<text[^>]*>([^<]*)</text>", svg)]
    begin = next((number for number, line in enumerate(lines) if TIMES.match(line)), None)
    if begin is None:
        sys.exit("docs/pictures/terminal.svg shows no summary of a run")
    return comparable(lines[begin:])


def comparable(lines):
    lines = [re.sub(r"\s+", " ", TIMES.sub(r"\1", line)).strip() for line in lines]
    # Where the report lies depends on the folder.
    return [line for line in lines if not line.startswith("report ")]


def differences(promised, printed):
    """Lines that are promised and that the run did not print."""
    return [line for line in promised if line not in printed]


def main():
    promised = shown((ROOT / "README.md").read_text()) + pictured((ROOT / "docs/pictures/terminal.svg").read_text())
    # The check finds a number that is off by one in its last digit.
    changed = [re.sub(r"\d(?=\D*$)", lambda digit: str((int(digit[0]) + 1) % 10), line) for line in promised]
    assert differences(changed, promised), "a changed number is not found"
    program = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "target/release/evenkeel").resolve()
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run([program, "train"], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if run.returncode:
        sys.exit(f"evenkeel train ended with {run.returncode}:\n{run.stderr[-2000:]}")
    printed = comparable((run.stdout + run.stderr).splitlines())
    missing = differences(promised, printed)
    if missing:
        sys.exit("README.md or docs/pictures/terminal.svg shows what the run did not print:\n  " + "\n  ".join(missing) + "\nit printed:\n  " + "\n  ".join(printed[-12:]))
    print(f"readme  {len(promised)} lines of the summary, in README.md and docs/pictures/terminal.svg, are as printed")


if __name__ == "__main__":
    main()
