"""Imports, threads and processes: nothing runs after a call, so that a process may fork, end or be signalled at any time."""

import asyncio
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from evenkeel_rlvr import verify_math, verify_math_batch

COMPLETIONS = [f"\\boxed{{{n}}}" for n in range(2_000)]
GOLDS = [str(n) for n in range(2_000)]


def judge_all(_=None):
    return sum(verdict.correct for verdict in verify_math_batch(COMPLETIONS, GOLDS, threads=2))


def in_new_process(program):
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_starts_no_thread_and_imports_no_large_package():
    program = """if True:
        import os, sys, threading
        import evenkeel_rlvr
        heavy = {"numpy", "torch", "grpc", "trl", "verl", "asyncio", "multiprocessing"} & set(sys.modules)
        print(len(os.listdir("/proc/self/task")), threading.active_count(), sorted(heavy))
    """
    assert in_new_process(program) == "1 1 []"


def test_importing_takes_less_than_50_ms():
    program = "import time; t = time.process_time(); import evenkeel_rlvr; print(time.process_time() - t)"
    assert min(float(in_new_process(program)) for _ in range(3)) < 0.05


def test_no_thread_is_left_after_a_batch():
    assert judge_all() == 2_000
    assert "evenkeel" not in " ".join(thread.name for thread in threading.enumerate())
    program = """if True:
        import os
        from evenkeel_rlvr import verify_math_batch
        verify_math_batch(["x"] * 5000, ["4"] * 5000, threads=4)
        print(len(os.listdir("/proc/self/task")))
    """
    assert in_new_process(program) == "1"


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_batches_work_in_child_processes_after_one_in_the_parent(method):
    assert judge_all() == 2_000
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map_async(judge_all, range(4)).get(timeout=120) == [2_000] * 4


def test_a_process_may_fork_while_another_thread_judges():
    with ThreadPoolExecutor(1) as other:
        running = other.submit(lambda: [judge_all() for _ in range(5)])
        child = os.fork()
        if child == 0:
            os._exit(0 if judge_all() == 2_000 else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert running.result(timeout=120) == [2_000] * 5


def test_many_threads_have_the_same_verdicts():
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(judge_all, range(16))) == [2_000] * 16
        singles = threads.map(lambda pair: verify_math(*pair).correct, zip(COMPLETIONS, GOLDS))
        assert all(singles)


def test_a_process_may_end_while_a_daemon_thread_judges():
    program = """if True:
        import threading, time
        from evenkeel_rlvr import verify_math_batch
        def judge():
            while True:
                verify_math_batch(["\\\\boxed{x^2+1}"] * 2000, ["1+x^2"] * 2000, threads=2)
        threading.Thread(target=judge, daemon=True).start()
        time.sleep(0.2)
        print("ends")
    """
    assert in_new_process(program) == "ends"


def test_a_batch_lets_other_threads_run():
    # Each takes some milliseconds: the answer is hard and long.
    hard = [r"\boxed{" + "+".join(f"x^{{{n}}}" for n in range(300)) + "}"] * 200
    golds = ["+".join(f"x^{{{299 - n}}}" for n in range(300))] * 200
    ticks, stop = [], threading.Event()

    def tick():
        while not stop.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    ticker = threading.Thread(target=tick)
    ticker.start()
    begin = time.perf_counter()
    verify_math_batch(hard, golds, threads=1)
    end = time.perf_counter()
    stop.set()
    ticker.join()
    assert sum(begin < at < end for at in ticks) > (end - begin) * 100, "a tenth of the ticks at least"


def test_verdicts_may_be_awaited_in_threads():
    async def judge():
        return await asyncio.gather(*(asyncio.to_thread(verify_math, c, g) for c, g in zip(COMPLETIONS[:50], GOLDS)))

    assert all(verdict.correct for verdict in asyncio.run(judge()))
