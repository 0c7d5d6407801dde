#!/usr/bin/env python3
"""What the first hour on a card left, as one JSON file and one page.

    bench/gpu/page.py OUT

Reads OUT/steps.tsv (name, needs, result, seconds, last line) and the JSON file of each part. Writes OUT/first-hour.json
and OUT/first-hour.md.
"""

import json
import sys
from pathlib import Path

MADE = "first-hour"
FIELDS = ("name", "needs", "result", "seconds", "last_line")


def read(out: Path) -> dict:
    rows = [line.split("\t", len(FIELDS) - 1) for line in (out / "steps.tsv").read_text().splitlines()]
    steps = [dict(zip(FIELDS, row)) for row in rows]
    for step in steps:
        step["seconds"] = int(step["seconds"])
    files = {}
    for path in sorted(out.glob("*.json")):
        if path.stem == MADE:
            continue
        try:
            files[path.stem] = json.loads(path.read_text())
        except ValueError as error:
            files[path.stem] = {"unreadable": str(error)}
    return {"steps": steps, "files": files}


def cell(value) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text.replace("|", "\\|")


def table(head: list, rows: list) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(map(cell, line)) + " |\n" for line in lines)


def parts(found: dict):
    for name, content in found["files"].items():
        for part in content.get("parts", []) if isinstance(content, dict) else []:
            yield name, part


def page(found: dict) -> str:
    text = "# The first hour on a card\n\n"
    text += table(list(FIELDS), [[step[field] for field in FIELDS] for step in found["steps"]])
    checks = [
        [name, check["name"], check["value"], check["bound"].replace("_", " "), check["limit"], "ok" if check["passed"] else "FAILED"]
        for name, part in parts(found)
        for check in part["checks"]
    ]
    # A check that failed is read first.
    checks.sort(key=lambda check: check[-1] == "ok")
    if checks:
        text += "\n## Checks\n\n" + table(["part", "check", "value", "", "limit", ""], checks)
    failures = [[name, failure] for name, part in parts(found) for failure in [part["error"], *part["failures"]] if failure]
    if failures:
        text += "\n## Failures\n\n" + table(["part", "failure"], failures)
    kinds: dict = {}
    for name, part in parts(found):
        for fact in part["facts"]:
            if fact.get("what"):
                kinds.setdefault((name, fact["what"]), []).append(fact)
    for (name, what), facts in kinds.items():
        keys = list(dict.fromkeys(key for fact in facts for key in fact if key != "what"))
        text += f"\n## {name}: {what}\n\n" + table(keys, [[fact.get(key, "") for key in keys] for fact in facts])
    return text


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    out = Path(sys.argv[1])
    found = read(out)
    (out / f"{MADE}.json").write_text(json.dumps(found, indent=1) + "\n")
    (out / f"{MADE}.md").write_text(page(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
