"""Programs against tests, in a sandbox on this machine.

>>> from evenkeel_rlvr.code import verify_code
>>> verify_code("```python\\nprint(int(input()) + 1)\\n```", {"inputs": ["1"], "outputs": ["2"]}).reward
1.0

The programs run in CPython compiled to WebAssembly, in processes of a small program that comes with the package. Nothing is started before the first
program, or the first `Pool`.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
import weakref
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any

from . import _native
from ._code_loop import LoopPrograms
from ._code_requests import Request, TestsCache, number_within, verdict_of
from ._interpreter import prepare as prepare, program
from .errors import ArgumentTypeError, PoolAfterFork, PoolClosed
from .items import CodeItem, CodeReport, ServiceVerdict

__all__ = ["CodeItem", "CodeReport", "CodeVerdict", "Pool", "prepare", "verify_code"]

CodeVerdict = ServiceVerdict

_MOST_WORKERS = 256
_MOST_QUEUED = 65_536
_MOST_MEMORY_MB = 2**30
#: How long is waited before looking whether another caller made room.
_ROOM_SECONDS = 0.02


class Pool:
    """Worker processes that judge programs.

    `workers` programs run at once, by default as many as there are processors for this process (affinity and control group); as many again may go
    on that take more than a second. `queue` programs are held at a time, further calls wait. `memory_mb` is what all programs may use together, by
    default nine tenths of what there is. With `deterministic` instructions are counted instead of time. `folder` is that of the interpreter; the
    default is that of `prepare`, which is called.

    Threads may share it; a forked child may not (`PoolAfterFork`). Closing it ends its programs and processes, as does the end of this process, however
    it ends.
    """

    def __init__(
        self,
        workers: int | None = None,
        *,
        queue: int | None = None,
        memory_mb: float | None = None,
        deterministic: bool = False,
        folder: str | os.PathLike[str] | None = None,
    ) -> None:
        self._closed = True
        chosen = _native._available_processors() if workers is None else number_within("workers", workers, 1, _MOST_WORKERS)
        self._queue = max(64, 8 * chosen) if queue is None else number_within("queue", queue, 1, _MOST_QUEUED)
        self._deterministic = bool(deterministic)
        memory = None if memory_mb is None else round(number_within("memory_mb", memory_mb, 16, _MOST_MEMORY_MB, whole=False) * 2**20)
        found = prepare(folder)
        if self._deterministic:
            # Workers load the other form first, and both from the image if it has them.
            counted = prepare(folder, deterministic=True)
            found = counted if str(found) == os.environ.get("EVENKEEL_GUEST_IMAGE") else found
        self._native = _native._Pool(str(program()), str(found), chosen, self._queue, memory)
        self._cache = TestsCache()
        self._loops: dict[asyncio.AbstractEventLoop, LoopPrograms] = {}
        self._closed = False
        _open_pools.add(self)

    def verify(
        self, completion: str, tests: Mapping[str, Any], *, partial: bool = False, cpu_s: float | None = None, memory_mb: float | None = None
    ) -> CodeVerdict:
        """Judges one program; the arguments are those of `CodeItem`. Whatever a model wrote has a verdict."""
        return self.verify_batch([CodeItem(completion, tests, partial=partial, cpu_s=cpu_s, memory_mb=memory_mb)])[0]

    def verify_batch(self, items: Iterable[CodeItem]) -> list[CodeVerdict]:
        """Judges many programs, with verdicts in their order. Ctrl-C ends them."""
        batch = self._native.batch(False)
        verdicts: dict[int, CodeVerdict] = {}
        count = 0
        try:
            for count, item in enumerate(items, 1):
                request = self._request(item)
                if isinstance(request, ServiceVerdict):
                    verdicts[count - 1] = request
                    continue
                while not batch.submit(count - 1, *request):
                    self._check_open()
                    self._collect(batch, verdicts, _ROOM_SECONDS, max(1, len(batch) // 4))
            while len(batch):
                self._collect(batch, verdicts, 1.0, len(batch))
        finally:
            batch.close()
        return [verdicts[index] for index in range(count)]

    async def averify(
        self, completion: str, tests: Mapping[str, Any], *, partial: bool = False, cpu_s: float | None = None, memory_mb: float | None = None
    ) -> CodeVerdict:
        """`verify`, awaited. Cancelling it ends the program."""
        return await self._averify(CodeItem(completion, tests, partial=partial, cpu_s=cpu_s, memory_mb=memory_mb))

    async def averify_batch(self, items: Iterable[CodeItem]) -> list[CodeVerdict]:
        """`verify_batch`, awaited. Cancelling it ends the programs."""
        tasks = [asyncio.ensure_future(self._averify(item)) for item in items]
        try:
            return list(await asyncio.gather(*tasks))
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            raise

    def usage(self) -> dict[str, int]:
        """Programs without a verdict, worker processes, those started so far, and those among them that crashed or were killed."""
        return dict(zip(("programs", "processes", "processes_started", "processes_lost"), self._native.usage()))

    def close(self) -> None:
        """Ends programs and processes. Calls that wait for a verdict raise `PoolClosed`. Closing again does nothing."""
        if not self._closed:
            self._closed = True
            self._native.close()

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        try:
            self.close()
        except PoolAfterFork:
            pass

    def __reduce__(self) -> Any:
        raise ArgumentTypeError("a Pool cannot be sent to another process: make one there")

    async def _averify(self, item: CodeItem) -> CodeVerdict:
        loop = asyncio.get_running_loop()
        programs = self._loops.get(loop)
        if programs is None:
            programs = self._loops[loop] = LoopPrograms(loop, self._native.batch(True), self._queue)
        programs.users += 1
        try:
            async with programs.room:
                # Decompressing tests is not for the thread of the loop.
                request = await asyncio.to_thread(self._request, item) if _is_large(item) else self._request(item)
                if isinstance(request, ServiceVerdict):
                    return request
                values = await programs.judge(request, self._check_open)
                return self._checked(verdict_of(values))
        finally:
            programs.users -= 1
            if not programs.users:
                del self._loops[loop]
                programs.close()

    def _request(self, item: CodeItem) -> Request | CodeVerdict:
        if not isinstance(item, CodeItem):
            raise ArgumentTypeError(f"an item is of type {type(item).__name__}, allowed: CodeItem")
        return self._cache.request(item, self._deterministic)

    def _collect(self, batch: _native._Batch, verdicts: dict[int, CodeVerdict], seconds: float, count: int) -> None:
        for key, values in batch.wait(seconds, count):
            verdicts[key] = self._checked(verdict_of(values))

    def _checked(self, verdict: CodeVerdict) -> CodeVerdict:
        # Nothing else cancels a program that somebody waits for.
        if verdict.invalid_reason == "cancelled":
            raise PoolClosed("the pool was closed before the verdict")
        return verdict

    def _check_open(self) -> None:
        if self._closed:
            raise PoolClosed("the pool is closed")


def verify_code(
    completion: str,
    tests: Mapping[str, Any],
    *,
    partial: bool = False,
    cpu_s: float | None = None,
    memory_mb: float | None = None,
    pool: Pool | None = None,
) -> CodeVerdict:
    """Judges one program by a pool, or by the one of this process, which is made with the first program and has a worker for each processor.

    `tests` is a row of LiveCodeBench (`public_test_cases`, `private_test_cases`, `metadata`), or has `inputs`, `outputs` and, for functions, `fn_name`, as
    APPS and verl have them. `partial` rewards the share of tests that passed. `cpu_s` and `memory_mb` are limits of one test.
    """
    chosen = default_pool() if pool is None else pool
    return chosen.verify(completion, tests, partial=partial, cpu_s=cpu_s, memory_mb=memory_mb)


def default_pool(workers: int | None = None) -> Pool:
    """The pool of this process with this number of workers. A forked child has its own."""
    with _defaults_lock:
        pool = _defaults.get(workers)
        if pool is None or pool._closed:
            pool = _defaults[workers] = Pool(workers)
        return pool


def _is_large(item: Any) -> bool:
    private = item.tests.get("private_test_cases") if isinstance(item, CodeItem) and isinstance(item.tests, Mapping) else None
    return isinstance(private, str) and len(private) > 1 << 16


_open_pools: weakref.WeakSet[Pool] = weakref.WeakSet()
_defaults: dict[int | None, Pool] = {}
_defaults_lock = threading.Lock()


def _forget_pools() -> None:
    """In a forked child: the pools are the parent's, and another thread of the parent may have held the lock."""
    global _defaults, _defaults_lock, _open_pools
    _defaults, _defaults_lock, _open_pools = {}, threading.Lock(), weakref.WeakSet()


@atexit.register
def _close_pools() -> None:
    # Before threads are woken that wait for a verdict.
    _native._interpreter_ends()
    for pool in list(_open_pools):
        pool.close()


os.register_at_fork(after_in_child=_forget_pools)
