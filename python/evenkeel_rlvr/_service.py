"""Programs of trainers' samples, judged by the reward service of the node."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from .client import CodeItem, RewardClient, ServiceVerdict
from .errors import ArgumentTypeError, ArgumentValueError

_lock = threading.Lock()
_clients: dict[str, RewardClient] = {}


def _unlock() -> None:
    """In a child, as in `client`."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_unlock)


def judge_programs(completions: Sequence[str], tests: Sequence[Any], *, address: str | None, partial: bool) -> list[ServiceVerdict]:
    """Verdicts in order. Tests that are no tests are a fault of the row: an invalid verdict."""
    verdicts: list[ServiceVerdict | None] = []
    items: list[CodeItem] = []
    for completion, row in zip(completions, tests):
        try:
            items.append(CodeItem(completion, _tests(row), partial=partial))
            verdicts.append(None)
        except (ArgumentTypeError, ArgumentValueError) as error:
            verdicts.append(ServiceVerdict.invalid("bad_tests", str(error)))
    judged = iter(_client(address).verify(items))
    return [next(judged) if verdict is None else verdict for verdict in verdicts]


def judge_program(completion: str, tests: Any, *, address: str | None, partial: bool) -> ServiceVerdict:
    """The verdict on one program."""
    return judge_programs([completion], [tests], address=address, partial=partial)[0]


def _client(address: str | None) -> RewardClient:
    """The client of this process for an address, which keeps its connection."""
    chosen = address or os.environ.get("EVENKEEL_REWARD")
    if not chosen:
        raise ArgumentValueError("address is absent, required: HOST:PORT of a reward service, as an argument or in EVENKEEL_REWARD")
    with _lock:
        if chosen not in _clients:
            _clients[chosen] = RewardClient(chosen.split(","), token=os.environ.get("EVENKEEL_REWARD_TOKEN"))
        return _clients[chosen]


def _tests(row: Any) -> Mapping[str, Any]:
    if isinstance(row, str):
        try:
            row = json.loads(row)
        except (ValueError, RecursionError) as error:
            raise ArgumentValueError(f"tests are no JSON ({error})") from None
    if not isinstance(row, Mapping):
        raise ArgumentTypeError(f"tests are of type {type(row).__name__}, allowed: a mapping, or one as JSON")
    # Whether it can be sent is known before anything is.
    checked = CodeItem("", row)
    checked.fill(_scratch())
    return row


def _scratch() -> Any:
    from ._messages import message

    return message("VerifyItem")()
