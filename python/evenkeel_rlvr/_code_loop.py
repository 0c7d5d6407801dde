"""The programs that an event loop awaits: no thread of the loop's process waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from . import _native
from ._code_requests import Request

#: How long is waited before looking whether another caller made room in the pool.
_ROOM_SECONDS = 0.01


class LoopPrograms:
    """The programs of one loop. The native part makes a file descriptor readable when one has a verdict."""

    def __init__(self, loop: asyncio.AbstractEventLoop, batch: _native._Batch, queue: int) -> None:
        self.users = 0
        #: Programs that are submitted; the others cost a future only.
        self.room = asyncio.Semaphore(queue)
        self._loop, self._batch, self._file = loop, batch, batch.fileno()
        self._waiting: dict[int, asyncio.Future[tuple[Any, ...]]] = {}
        self._next = 0
        assert self._file is not None
        loop.add_reader(self._file, self._deliver)

    async def judge(self, request: Request, check_open: Callable[[], None]) -> tuple[Any, ...]:
        """The values of a verdict. Cancelling the call ends the program."""
        key, self._next = self._next, self._next + 1
        while not self._batch.submit(key, *request):
            check_open()
            await asyncio.sleep(_ROOM_SECONDS)
        future = self._waiting[key] = self._loop.create_future()
        try:
            values: tuple[Any, ...] = await future
            return values
        finally:
            if self._waiting.pop(key, None) is not None:
                self._batch.cancel(key)

    def close(self) -> None:
        """Takes the descriptor from the loop, when nobody waits."""
        if self._file is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._file)
        self._batch.close()

    def _deliver(self) -> None:
        for key, values in self._batch.wait(0.0):
            future = self._waiting.pop(key, None)
            if future is not None and not future.done():
                future.set_result(values)
