"""Threads in an interpreter without threads: `start` runs the target.

Contest programs start a thread to get a deep stack, and join it. That works; two threads that wait for each other raise an error.
"""

import sys
import threading


def _start(self: threading.Thread) -> None:
    if not self._initialized:
        raise RuntimeError("thread.__init__() not called")
    if self._started.is_set():
        raise RuntimeError("threads can only be started once")
    self._started.set()
    self._ident = id(self)
    threading._active[self._ident] = self
    try:
        self.run()
    except SystemExit:
        pass
    except BaseException:
        threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), self)))
    finally:
        threading._active.pop(self._ident, None)
        self._evenkeel_done = True


def _join(self: threading.Thread, timeout: float | None = None) -> None:
    if not self._started.is_set():
        raise RuntimeError("cannot join thread before it is started")


def _is_alive(self: threading.Thread) -> bool:
    return self._started.is_set() and not getattr(self, "_evenkeel_done", False)


def _stack_size(size: int = 0) -> int:
    if size and size < 32768:
        raise ValueError(f"size not valid: {size} bytes")
    return 0


def _start_new_thread(function, args, kwargs={}, /) -> int:
    try:
        function(*args, **kwargs)
    except SystemExit:
        pass
    except BaseException:
        sys.excepthook(*sys.exc_info())
    return 1


def _submit(self, fn, /, *args, **kwargs):
    from concurrent.futures import Future

    if self._shutdown:
        raise RuntimeError("cannot schedule new futures after shutdown")
    future = Future()
    future.set_running_or_notify_cancel()
    try:
        future.set_result(fn(*args, **kwargs))
    except BaseException as error:
        future.set_exception(error)
    return future


def _shut_down(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
    self._shutdown = True


def patch_executor(module) -> None:
    """Makes `submit` of the executors of `concurrent.futures.thread` run the task."""
    executor = module.ThreadPoolExecutor
    executor.submit, executor.shutdown = _submit, _shut_down


def install() -> None:
    """Replaces the functions that would start a thread."""
    import _thread

    threading.Thread.start = _start
    threading.Thread.join = _join
    threading.Thread.is_alive = _is_alive
    threading.stack_size = _thread.stack_size = _stack_size
    _thread.start_new_thread = _thread.start_new = _start_new_thread
