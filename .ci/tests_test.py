#!/usr/bin/env python3
"""What tests.sh says of tests that pass, fail once, fail twice, are not run again, or die, with a stand-in for cargo."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).with_name("tests.sh")
FAILED = "error: test failed, to rerun pass `-p x`"


def run(first: list, second: list, first_status: int = 101, second_status: int = 0) -> tuple:
    """The status and the last lines of the script, where cargo prints these lines, and others for chosen tests."""
    with tempfile.TemporaryDirectory() as folder:
        for name, lines in (("first", first), ("second", second)):
            Path(folder, name).write_text("".join(f"{line}\n" for line in lines))
        cargo = Path(folder, "cargo")
        cargo.write_text(
            f'#!/bin/sh\ncase "$*" in *--exact*) cat {folder}/second; exit {second_status} ;; esac\n'
            f"cat {folder}/first; exit {first_status}\n"
        )
        cargo.chmod(0o755)
        path = f"{folder}:{os.environ['PATH']}"
        done = subprocess.run([SCRIPT], env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


class Tests(unittest.TestCase):
    def test_all_pass(self):
        self.assertEqual(run([], [], first_status=0)[0], 0)

    def test_a_test_that_fails_once_is_named_as_flaky(self):
        for name in ("test a::b ... FAILED", "test [needs data] a::b       ... FAILED", "test a::b - should panic ... FAILED"):
            passed = name.replace("FAILED", "ok")
            status, said = run([name, "test result: FAILED. 1 failed", FAILED], [passed, "test result: ok."])
            self.assertEqual(status, 0, said)
            self.assertTrue(said.endswith("flaky tests, which failed once and passed when they were run again:\na::b\n"), said)

    def test_a_test_that_fails_twice_fails(self):
        lines = ["test a::b ... FAILED", "test result: FAILED. 1 failed", FAILED]
        status, said = run(lines, lines, second_status=101)
        self.assertEqual(status, 1)
        self.assertTrue(said.endswith("failed twice, or not run again:\na::b\n"), said)

    def test_a_test_that_is_not_run_again_fails(self):
        lines = ["test a::b ... FAILED", "test result: FAILED. 1 failed", FAILED]
        self.assertEqual(run(lines, ["test result: ok. 0 passed"])[0], 1)

    def test_a_program_of_tests_that_dies_and_many_failures_fail_at_once(self):
        died = ["test a::b ... FAILED", "test result: FAILED. 1 failed", FAILED, FAILED]
        many = [f"test a::b{number} ... FAILED" for number in range(4)] + ["test result: FAILED. 4 failed", FAILED]
        for lines in (died, many, ["error: could not compile"]):
            self.assertEqual(run(lines, ["test a::b ... ok"])[0], 1)


if __name__ == "__main__":
    unittest.main()
