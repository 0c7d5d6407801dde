"""`python -m evenkeel_rlvr doctor`: whether each trainer finds this package, and why not."""

from __future__ import annotations

import importlib
import inspect
import os
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path

from ._adapter import TESTED, untested, version


class Trouble(Exception):
    """Why a trainer does not find this package."""


def _verl() -> str:
    policy = os.environ.get("VERL_USE_EXTERNAL_PLUGINS", "auto").strip()
    if policy != "auto" and "evenkeel" not in [name.strip() for name in policy.split(",")]:
        raise Trouble(f"VERL_USE_EXTERNAL_PLUGINS is {policy!r}, allowed: auto, or a list with evenkeel")
    if not any(point.name == "evenkeel" for point in entry_points(group="verl.plugins")):
        raise Trouble("the entry point evenkeel of verl.plugins is not there: the package is on the path and not installed (pip install evenkeel-rlvr)")
    _balanced()
    # It raises what verl hides.
    importlib.import_module("evenkeel_rlvr._verl_plugin")
    core = importlib.import_module("verl.trainer.ppo.core_algos")
    core.get_adv_estimator_fn("balanced")
    importlib.import_module("evenkeel_rlvr.verl")
    return "algorithm.adv_estimator=balanced is registered; reward pkg://evenkeel_rlvr.verl"


def _trl() -> str:
    _balanced()
    importlib.import_module("evenkeel_rlvr._trl_trainer")
    return "evenkeel_rlvr.trl.BalancedGRPOTrainer; reward evenkeel_rlvr.trl.math_reward()"


def _skyrl() -> str:
    _balanced()
    importlib.import_module("evenkeel_rlvr.skyrl").register()
    return "evenkeel_rlvr.skyrl.register() registers evenkeel_math and balanced"


def _verifiers() -> str:
    if not inspect.iscoroutinefunction(importlib.import_module("evenkeel_rlvr.verifiers").math):
        raise Trouble("evenkeel_rlvr.verifiers:math is not asynchronous")
    return "reward evenkeel_rlvr.verifiers:math"


def _openrlhf() -> str:
    path = plugin_path("openrlhf")
    importlib.import_module("torch")
    return f"reward {path}"


def _nemo() -> str:
    importlib.import_module("evenkeel_rlvr.nemo").register()
    _balanced()
    return "evenkeel_rlvr.nemo.register() registers evenkeel_math; fold_advantages goes behind its estimator"


_CHECKS: dict[str, Callable[[], str]] = {
    "nemo-rl": _nemo,
    "openrlhf": _openrlhf,
    "skyrl": _skyrl,
    "trl": _trl,
    "verifiers": _verifiers,
    "verl": _verl,
}
TRAINERS = tuple(_CHECKS)
assert set(TRAINERS) <= set(TESTED)


def plugin_path(trainer: str) -> Path:
    """The file of a trainer's module, for those that take a path."""
    return Path(__file__).with_name(f"{trainer.removesuffix('-rl')}.py")


def doctor(trainers: list[str]) -> int:
    """Says for each trainer whether it finds this package. 0 if all named ones, or all installed ones, do; else 1."""
    failed = False
    for trainer in trainers or TRAINERS:
        if not trainers and version(trainer) is None:
            print(f"{trainer:10} not installed")
            continue
        try:
            why = untested(trainer)
            if why:
                raise Trouble(why)
            print(f"{trainer:10} {version(trainer)}: {_CHECKS[trainer]()}")
        # Whatever a trainer's own code raises is what its user has to know.
        except Exception as error:
            failed = True
            print(f"{trainer:10} {version(trainer) or ''}: FAILED: {type(error).__name__}: {error}")
    return int(failed)


def _balanced() -> None:
    importlib.import_module("evenkeel_rlvr.balanced").weights([1.0, -1.0], [1, 1], [0, 0])
