#!/usr/bin/env python3
"""Runs the cells of a notebook, in order and in one namespace, and compares what they print with the stored outputs.

    run_notebook.py verdicts.ipynb            fails where an output is another one
    run_notebook.py verdicts.ipynb --write    stores the outputs
"""

import contextlib
import difflib
import io
import json
import sys
from pathlib import Path


def run(path):
    """The notebook with the outputs of its cells."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    names, count = {"__name__": "__main__"}, 0
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        count += 1
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("".join(cell["source"]), f"{path.name}[{count}]", "exec"), names)
        lines = printed.getvalue().splitlines(keepends=True)
        cell["execution_count"] = count
        cell["outputs"] = [{"name": "stdout", "output_type": "stream", "text": lines}] if lines else []
    return notebook


def main():
    path = Path(sys.argv[1])
    made = json.dumps(run(path), indent=1, ensure_ascii=False) + "\n"
    stored = path.read_text(encoding="utf-8")
    if "--write" in sys.argv[2:]:
        path.write_text(made, encoding="utf-8")
    elif made != stored:
        sys.stdout.writelines(difflib.unified_diff(stored.splitlines(True), made.splitlines(True), "stored", "as run"))
        sys.exit(f"{path.name}: other outputs than those that are stored; see them with --write")
    print(f"{path.name}: {sum(cell['cell_type'] == 'code' for cell in json.loads(made)['cells'])} cells, outputs as stored")


if __name__ == "__main__":
    main()
