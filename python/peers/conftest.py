"""What the tests of a trainer have shown, for the table in docs/python.md: with EVENKEEL_SEEN=1 a run whose tests all pass writes seen/TRAINER.json.

A test says by `@pytest.mark.shows("rewards", "invalid")` what it is about; `gradient_error` holds an error to the limit and notes it.
"""

import datetime
import importlib.metadata
import json
import os
import platform
from pathlib import Path

import pytest

LIMIT = 1e-6
KINDS = ("rewards", "invalid", "gradient")
_seen = {kind: [] for kind in KINDS}
_errors, _failed, _trainers = [], [], set()


def pytest_configure(config):
    config.addinivalue_line("markers", f"shows(kinds): what the test shows of a trainer, of {', '.join(KINDS)}")


@pytest.fixture
def gradient_error(request):
    """Checks the error of a gradient, relative to its largest entry, and notes it."""

    def check(error):
        request.node.user_properties.append(("gradient_error", error))
        assert error < LIMIT

    return check


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.failed:
        _failed.append(item.nodeid)
    if report.when != "call" or not report.passed:
        return
    _trainers.add(item.path.stem.removeprefix("test_"))
    errors = [value for name, value in item.user_properties if name == "gradient_error"]
    _errors.extend(errors)
    for kind in {kind for mark in item.iter_markers("shows") for kind in mark.args} | ({"gradient"} if errors else set()):
        _seen[kind].append(item.nodeid)


def pytest_sessionfinish(session):
    if os.environ.get("EVENKEEL_SEEN") != "1" or _failed or len(_trainers) != 1:
        return
    (trainer,) = _trainers
    folder = Path(__file__).with_name("seen")
    folder.mkdir(exist_ok=True)
    seen = {
        "trainer": trainer,
        "version": _version(trainer),
        "date": datetime.date.today().isoformat(),
        "python": platform.python_version(),
        **{kind: len(tests) for kind, tests in _seen.items()},
        "largest_error": float(f"{max(_errors):.1e}") if _errors else None,
    }
    (folder / f"{trainer}.json").write_text(json.dumps(seen, indent=2) + "\n")


def _version(trainer):
    if trainer == "nemo":
        from nemo_rl import __version__

        return __version__.split("+")[0]
    return importlib.metadata.version(trainer)
