"""What a reward worker takes that has judged its first programs, with two worker processes, in a container. Needs root."""
import pathlib, re

from calls import Reflected
from stack import Stack, check

MOST_MIB = 80
PROGRAM = "n = int(input())\nprint(sum(i * i for i in range(n)))"


def verify(client, number):
    tests = [{"kind": "CODE_TEST_KIND_STDIN", "input": str(n), "output": str(sum(i * i for i in range(n)))} for n in (number, 3)]
    item = {"id": str(number), "extracted": PROGRAM, "code": {"tests": {"tests": tests}, "run_all_tests": True}}
    verdict = client.call("evenkeel.v1.Reward/VerifyOne", {"item": item})[0]["verdict"]
    check(verdict["outcome"] == "OUTCOME_CORRECT", f"{verdict}")


def processes(container):
    """The processes of a container, by id, with their command."""
    pid = container["State"]["Pid"]
    children = pathlib.Path(f"/proc/{pid}/task").glob("*/children")
    ids = [pid, *(int(child) for file in children for child in file.read_text().split())]
    return {one: pathlib.Path(f"/proc/{one}/cmdline").read_text().replace("\0", " ").strip() for one in ids}


def mib(pid, field):
    """Of `smaps_rollup`: `Pss` counts a page that several processes share once, over all of them."""
    return int(re.search(rf"^{field}:\s+(\d+) kB$", pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(), re.M)[1]) / 1024


def run():
    with Stack("memory") as stack:
        # One test at once, and a process more for what continues after a second.
        overlay = stack.folder / "two.yml"
        overlay.write_text('services:\n  reward:\n    environment: { EVENKEEL__CODE__THREADS: "1" }\n')
        stack.files.append(str(overlay))
        stack.up("reward")
        address = stack.inner("reward", 50052)[0]

        def answers():
            try:
                with Reflected(address) as client:
                    return client.services()
            except Exception:  # noqa: BLE001: whatever it is, it is not there yet
                return None

        stack.wait_for("the worker", answers, 60)
        container = stack.inspect("reward")[0]
        (pid,) = processes(container)
        before = mib(pid, "Pss")
        with Reflected(address) as client:
            for number in range(16):
                verify(client, number)
        found = {one: (mib(one, "Pss"), mib(one, "Rss")) for one in processes(container)}
        check(len(found) == 3, f"{len(found) - 1} worker processes: {processes(container)}")
        total = sum(pss for pss, _ in found.values())
        check(total < MOST_MIB, f"{total:.0f} MiB, allowed: {MOST_MIB}; Pss and Rss of each process: {found}")
        each = ", ".join(f"{pss:.0f}" for pss, _ in found.values())
        return f"{total:.0f} MiB ({each}), {before:.0f} MiB before the first program"
