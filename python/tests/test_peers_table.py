"""docs/python.md has the table of what the tests of the trainers have shown."""

import subprocess
import sys
from pathlib import Path


def test_the_page_has_the_table_of_what_was_seen():
    table = Path(__file__).parents[1] / "peers/table.py"
    done = subprocess.run([sys.executable, table], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") > 2
