#!/usr/bin/env python3
"""Runs the first block of Python of a page, line by line, and fails where a value is another one than its comment says.

    python_readme.py python/README.md
"""

import ast
import re
import sys


def main():
    with open(sys.argv[1], encoding="utf-8") as page:
        block = re.search(r"^```python\n(.*?)^```", page.read(), re.DOTALL | re.MULTILINE)
    if not block:
        sys.exit(f"{sys.argv[1]} has no block of Python")
    names, compared = {}, 0
    for line in block.group(1).splitlines():
        print(f">>> {line}" if line else "")
        code, _, said = line.partition("  # ")
        if said:
            value = eval(code, names)
            print(repr(value))
            if value != ast.literal_eval(said.strip()):
                sys.exit(f"{sys.argv[1]} says {said.strip()}")
            compared += 1
        elif line:
            exec(code, names)
    if not compared:
        sys.exit(f"{sys.argv[1]} says of no line what it gives")


if __name__ == "__main__":
    main()
