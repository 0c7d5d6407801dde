"""How long the stack takes from nothing to the first step of a warm start, with its image present."""
import time

import grpc
from calls import Reflected
from stack import Stack, check

MOST_SECONDS = 30


def run():
    with Stack("start", EVENKEEL_RECIPE="arithmetic") as stack:
        began = time.monotonic()
        stack.up()
        up = time.monotonic() - began
        while True:
            try:
                with Reflected(stack.address()) as client:
                    first = next(client.start("evenkeel.v1.Orchestrator/WatchRun", {"run_id": "arithmetic", "from_step": 0}, 120))
                    break
            except (grpc.RpcError, KeyError):
                check(time.monotonic() - began < 10 * MOST_SECONDS, "no step at all")
                time.sleep(0.1)
        seconds = time.monotonic() - began
        check(first["kind"] in ("STEP_KIND_WARM_START", "STEP_KIND_EVALUATION"), f"{first['kind']}")
    limit = f"limit {MOST_SECONDS} s" if seconds < MOST_SECONDS else f"ABOVE the limit of {MOST_SECONDS} s, which is for a quiet machine"
    return f"{seconds:.1f} s from `up` to the first step ({limit}); containers were created within {up:.1f} s"
