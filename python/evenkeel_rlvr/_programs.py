"""Programs of trainers' samples: judged by a reward service where one is named, and otherwise by a pool of this process."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ._tests import read_tests
from .errors import ArgumentTypeError, ArgumentValueError
from .items import CodeItem, ServiceVerdict

if TYPE_CHECKING:
    from .client import RewardClient

_lock = threading.Lock()
_clients: dict[str, RewardClient] = {}


def _unlock() -> None:
    """In a child: another thread of the parent may have held the lock."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_unlock)


def judge_programs(
    completions: Sequence[str], tests: Sequence[Any], *, address: str | None, partial: bool, workers: int | None = None
) -> list[ServiceVerdict]:
    """Verdicts in order. Tests that are no tests are a fault of the row: an invalid verdict."""
    verdicts: list[ServiceVerdict | None] = []
    items: list[CodeItem] = []
    for completion, row in zip(completions, tests):
        try:
            items.append(CodeItem(completion, _tests(row), partial=partial))
            verdicts.append(None)
        except (ArgumentTypeError, ArgumentValueError) as error:
            verdicts.append(ServiceVerdict.invalid("bad_tests", str(error)))
    chosen = address or os.environ.get("EVENKEEL_REWARD")
    judged = iter(_client(chosen).verify(items) if chosen else _judge_here(items, workers))
    return [next(judged) if verdict is None else verdict for verdict in verdicts]


def judge_program(completion: str, tests: Any, *, address: str | None, partial: bool, workers: int | None = None) -> ServiceVerdict:
    """The verdict on one program."""
    return judge_programs([completion], [tests], address=address, partial=partial, workers=workers)[0]


def _judge_here(items: list[CodeItem], workers: int | None) -> list[ServiceVerdict]:
    from .code import default_pool

    return default_pool(workers).verify_batch(items) if items else []


def _client(address: str) -> RewardClient:
    """The client of this process for an address, which keeps its connection."""
    from .client import RewardClient

    with _lock:
        if address not in _clients:
            _clients[address] = RewardClient(address.split(","), token=os.environ.get("EVENKEEL_REWARD_TOKEN"))
        return _clients[address]


def _tests(row: Any) -> Mapping[str, Any]:
    if isinstance(row, str):
        try:
            row = json.loads(row)
        except (ValueError, RecursionError) as error:
            raise ArgumentValueError(f"tests are no JSON ({error})") from None
    if not isinstance(row, Mapping):
        raise ArgumentTypeError(f"tests are of type {type(row).__name__}, allowed: a mapping, or one as JSON")
    # What is no tests at all is known before anything is judged.
    read_tests(row)
    return row
