"""Many reward workers behind one address."""
import time

from calls import Reflected
from stack import Stack, check

WORKERS = 50


def judged(stack):
    """Verdicts of each worker, asked itself."""
    counts = []
    for address in stack.inner("reward", 50052):
        with Reflected(address) as client:
            counts.append(int(client.call("evenkeel.v1.Reward/GetStatus", {})[0].get("verdicts", {}).get("correct", 0)))
    return counts


def run():
    with Stack("scale") as stack:
        began = time.monotonic()
        stack.up("--scale", f"reward={WORKERS}", "reward", "gateway")
        started = time.monotonic() - began
        check(len(stack.containers("reward")) == WORKERS, "not every worker was created")
        sent = 0
        with Reflected(stack.address("EVENKEEL_REWARD_PORT")) as client:
            while True:
                for number in range(WORKERS):
                    item = {"id": str(number), "extracted": str(number), "math": {"gold": str(number)}}
                    verdict = client.call("evenkeel.v1.Reward/VerifyOne", {"item": item})[0]["verdict"]
                    check(verdict["outcome"] == "OUTCOME_CORRECT" and verdict["id"] == str(number), f"{verdict}")
                sent += WORKERS
                # Names are resolved every three seconds, and the last workers are still starting.
                if all(judged(stack)):
                    break
                check(sent < 100 * WORKERS, f"verdicts by worker: {judged(stack)}")
                time.sleep(1)
            counts = judged(stack)
            check(sum(counts) == sent, f"{sent} items, {sum(counts)} verdicts")
            together = client.call("evenkeel.v1.Reward/GetStatus", {})[0]
            check(int(together["verdicts"]["correct"]) == sent, f"{together['verdicts']}")
        check(all(one["State"]["Running"] for one in stack.inspect("reward")), "a worker has ended")
        return f"{WORKERS} workers started in {started:.0f} s; {sent} verdicts, {min(counts)} to {max(counts)} from each worker"
