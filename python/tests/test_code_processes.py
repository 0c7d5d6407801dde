"""Pools beside threads, forks, event loops and signals: nothing hangs, and nothing is left when a process ends, however it ends."""

import asyncio
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from evenkeel_rlvr import errors
from evenkeel_rlvr.code import CodeItem, Pool, verify_code

SUM = "```python\nprint(sum(map(int, input().split())))\n```"
ENDLESS = "```python\nwhile True: pass\n```"
TESTS = {"inputs": ["1 2", "3 4"], "outputs": ["3", "7"]}
ITEM = CodeItem(SUM, TESTS)


def children(parent=None):
    """The processes that a process started and that live."""
    found = set()
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            state, ppid = open(f"/proc/{process}/stat").read().rpartition(") ")[2].split()[:2]
        except OSError:
            continue
        if int(ppid) == (parent or os.getpid()) and state != "Z":
            found.add(int(process))
    return found


def workers(parent=None):
    """The worker processes among them."""
    return {process for process in children(parent) if "\0worker\0" in command_of(process)}


def command_of(process):
    try:
        return open(f"/proc/{process}/cmdline").read()
    except OSError:
        return ""


def is_running(process):
    try:
        return open(f"/proc/{process}/stat").read().rpartition(") ")[2][0] not in "ZX"
    except OSError:
        return False


def wait_until(condition, seconds=30):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it took too long"
        time.sleep(0.02)


def run(program, timeout=120):
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=timeout)


def judge_once(_=None):
    return verify_code(SUM, TESTS).correct


def test_importing_it_starts_nothing():
    program = """if True:
        import os, sys
        import evenkeel_rlvr.code
        print(len(os.listdir("/proc/self/task")), sorted({"numpy", "torch", "grpc", "google.protobuf", "multiprocessing"} & set(sys.modules)))
    """
    assert run(program).stdout == "1 []\n"


def test_threads_share_a_pool():
    with Pool(2, queue=4) as pool, ThreadPoolExecutor(8) as threads:
        verdicts = threads.map(lambda number: pool.verify(f"```python\nprint({number})\n```", {"inputs": [""], "outputs": [str(number)]}), range(64))
        assert all(verdict.correct for verdict in verdicts)
        batches = threads.map(lambda _: pool.verify_batch([ITEM] * 16), range(4))
        assert all(verdict.correct for batch in batches for verdict in batch)


def test_other_threads_run_while_programs_are_judged():
    with Pool(1) as pool:
        pool.verify(SUM, TESTS)
        ticks, stop = [], threading.Event()

        def tick():
            while not stop.wait(0.001):
                ticks.append(time.perf_counter())

        ticker = threading.Thread(target=tick)
        ticker.start()
        began = time.perf_counter()
        assert pool.verify(ENDLESS, TESTS, cpu_s=0.3).outcome == "time_limit"
        ended = time.perf_counter()
        stop.set()
        ticker.join()
    assert sum(began < at < ended for at in ticks) > 20


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_child_processes_have_pools_of_their_own(method):
    assert judge_once()
    with multiprocessing.get_context(method).Pool(2) as processes:
        assert processes.map_async(judge_once, range(4)).get(timeout=120) == [True] * 4


def test_a_pool_of_the_parent_is_refused_in_a_forked_child_and_still_works_in_the_parent():
    with Pool(1) as pool:
        assert pool.verify(SUM, TESTS).correct
        child = os.fork()
        if child == 0:
            try:
                pool.verify(SUM, TESTS)
                status = 1
            except errors.PoolAfterFork:
                status = 0
            try:
                asyncio.run(pool.averify(SUM, TESTS))
                status += 2
            except errors.PoolAfterFork:
                pass
            # It neither closes nor waits for what is the parent's.
            del pool
            os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert pool.verify(SUM, TESTS).correct


def test_a_process_may_fork_while_other_threads_judge():
    with Pool(2) as pool, ThreadPoolExecutor(4) as others:
        running = [others.submit(lambda: pool.verify_batch([ITEM] * 40)) for _ in range(4)]
        for _ in range(3):
            child = os.fork()
            if child == 0:
                os._exit(0 if judge_once() else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert all(verdict.correct for batch in running for verdict in batch.result(timeout=120))


def test_a_pool_cannot_be_sent_to_another_process():
    import pickle

    with Pool(1) as pool, pytest.raises(errors.ArgumentTypeError, match="^a Pool cannot be sent"):
        pickle.dumps(pool)


def test_an_event_loop_awaits_hundreds_of_programs():
    async def judge(pool):
        one = await pool.averify(SUM, TESTS)
        many = await pool.averify_batch([ITEM] * 50)
        singles = await asyncio.gather(*(pool.averify(f"```python\nprint({n})\n```", {"inputs": [""], "outputs": [str(n)]}) for n in range(200)))
        return [one, *many, *singles]

    with Pool(2, queue=16) as pool:
        verdicts = asyncio.run(judge(pool))
        assert len(verdicts) == 251 and all(verdict.correct for verdict in verdicts)
        # Another loop, after the first one was closed.
        assert asyncio.run(pool.averify(SUM, TESTS)).correct
        assert not pool._loops


def test_a_cancelled_await_ends_its_program():
    async def judge(pool):
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(pool.averify(ENDLESS, TESTS, cpu_s=60), 0.5)
        with pytest.raises(errors.ArgumentTypeError):
            await pool.averify_batch([CodeItem(ENDLESS, TESTS, cpu_s=60), "x"])
        return await pool.averify(SUM, TESTS)

    with Pool(1) as pool:
        began = time.monotonic()
        assert asyncio.run(judge(pool)).correct
        assert time.monotonic() - began < 20
        wait_until(lambda: pool.usage()["programs"] == 0)


def test_a_closed_pool_says_so_and_is_left_by_those_who_wait():
    before = workers()
    pool = Pool(1)
    with ThreadPoolExecutor(1) as other:
        waiting = other.submit(pool.verify, ENDLESS, TESTS, cpu_s=60)
        wait_until(lambda: pool.usage()["processes"] > 0)
        time.sleep(0.2)
        own = workers() - before
        assert own
        pool.close()
        with pytest.raises(errors.PoolClosed):
            waiting.result(timeout=30)
    wait_until(lambda: not any(map(is_running, own)))
    with pytest.raises(errors.PoolClosed):
        pool.verify(SUM, TESTS)
    with pytest.raises(errors.PoolClosed):
        asyncio.run(pool.averify(SUM, TESTS))
    pool.close()


def test_a_killed_worker_costs_no_verdict():
    with Pool(1) as pool:
        assert pool.verify(SUM, TESTS).correct
        for _ in range(3):
            for worker in workers():
                os.kill(worker, signal.SIGKILL)
            assert pool.verify(SUM, TESTS).correct
        assert pool.usage()["processes_lost"] > 0


def test_a_worker_that_is_killed_again_and_again_gives_no_reward():
    with Pool(1) as pool, ThreadPoolExecutor(1) as other:
        waiting = other.submit(pool.verify, ENDLESS, TESTS, cpu_s=60)
        while not waiting.done():
            for worker in workers():
                os.kill(worker, signal.SIGKILL)
            time.sleep(0.05)
        verdict = waiting.result()
    assert (verdict.outcome, verdict.invalid_reason, verdict.reward) == ("invalid", "overloaded", None)


WAITS = """if True:
    import sys
    from evenkeel_rlvr.code import CodeItem, Pool
    tests = {"inputs": ["1"], "outputs": ["1"]}
    pool = Pool(2)
    pool.verify("```python\\nprint(1)\\n```", tests)
    print("ready", flush=True)
    pool.verify_batch([CodeItem("```python\\nwhile True: pass\\n```", tests, cpu_s=60)] * 20)
"""


def started(program):
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    # Each of the two has a program that never ends.
    wait_until(lambda: len(workers(process.pid)) >= 2)
    return process, workers(process.pid)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_of_a_process_that_is_interrupted_or_killed(number):
    process, own = started(WAITS)
    process.send_signal(number)
    _, said = process.communicate(timeout=30)
    assert process.returncode != 0 and ("KeyboardInterrupt" in said) == (number == signal.SIGINT)
    wait_until(lambda: not any(map(is_running, own)))


def test_nothing_is_left_of_a_killed_process_whose_forked_child_lives():
    forks = WAITS.replace('    print("ready"', '    import os, time\n    if os.fork() == 0:\n        time.sleep(600)\n    print("ready"')
    process, own = started(forks)
    (child,) = children(process.pid) - workers(process.pid)
    try:
        process.kill()
        process.wait()
        wait_until(lambda: not any(map(is_running, own)))
        assert is_running(child)
    finally:
        os.kill(child, signal.SIGKILL)
        process.stdout.close()
        process.stderr.close()


def test_ctrl_c_ends_a_batch_and_the_pool_goes_on():
    with Pool(1) as pool:
        pool.verify(SUM, TESTS)
        timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            pool.verify_batch([CodeItem(ENDLESS, TESTS, cpu_s=60)] * 10)
        assert pool.verify(SUM, TESTS).correct


def test_a_process_may_end_while_a_daemon_thread_judges_and_without_closing():
    program = """if True:
        import threading, time
        from evenkeel_rlvr.code import Pool, verify_code
        tests = {"inputs": ["1"], "outputs": ["1"]}
        verify_code("```python\\nprint(1)\\n```", tests)
        pool = Pool(1)
        def judge():
            try:
                pool.verify("```python\\nwhile True: pass\\n```", tests, cpu_s=60)
            except Exception:
                pass
        threading.Thread(target=judge, daemon=True).start()
        time.sleep(0.5)
        print("ends")
    """
    began = time.monotonic()
    done = run(program)
    assert (done.returncode, done.stdout) == (0, "ends\n"), done.stderr
    assert time.monotonic() - began < 30


def test_ray_actors_judge():
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        remote = ray.remote(lambda: judge_once())
        assert ray.get([remote.remote() for _ in range(4)], timeout=180) == [True] * 4
    finally:
        ray.shutdown()
