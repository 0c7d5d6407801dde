#!/usr/bin/env python3
"""The table of docs/python.md, from what the tests of each trainer have shown (seen/*.json).

    table.py             whether the page has it
    table.py --write     puts it there
"""

import json
import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs/python.md"
NAMES = {"verl": "verl", "trl": "TRL", "skyrl": "SkyRL", "verifiers": "verifiers", "openrlhf": "OpenRLHF", "nemo": "NeMo-RL, from its repository"}
INVALID = {
    "verl": "raises, or a counted score",
    "trl": "`None`: left out",
    "skyrl": "the set reward, counted",
    "verifiers": "an error of the trace",
    "openrlhf": "the set reward, counted",
    "nemo": "the set reward, counted",
}
HEAD = "| trainer, as published | an invalid verdict | largest error of the gradient |\n|---|---|---|\n"
PLACE = re.compile(re.escape(HEAD) + r"(?:\|.*\n)*")


def table():
    rows = {}
    for path in HERE.glob("seen/*.json"):
        seen = json.loads(path.read_text())
        if not seen["rewards"] or not seen["invalid"]:
            sys.exit(f"{path.name} has no test of rewards or of invalid verdicts")
        trainer, tests = seen["trainer"], seen["gradient"]
        error = f"{seen['largest_error']:.1e} in {tests} cases" if tests else ""
        rows[trainer] = f"| {NAMES[trainer]} {seen['version']} | {INVALID[trainer]} | {error} |\n"
    return HEAD + "".join(rows[trainer] for trainer in NAMES if trainer in rows)


def main():
    page, made = PAGE.read_text(), table()
    if "--write" in sys.argv[1:]:
        PAGE.write_text(PLACE.sub(lambda _: made, page))
    elif made not in page:
        sys.exit("docs/python.md has another table than python/peers/seen: run python/peers/table.py --write")
    print(made, end="")


if __name__ == "__main__":
    main()
