#!/usr/bin/env python3
"""The Python package beside Math-Verify, on this machine, in one run and one thread.

    python3 bench/python/run.py

Run it with a Python that has evenkeel-rlvr (`.ci/python.sh` leaves one in target/python/test-default) and math-verify; without the second it leaves
the peer out. Both judge the worked solutions of MATH-500 against their answers: right ones, and those of the next row. The data is read from
data/math/math500.jsonl in the folder that EVENKEEL_OUTSIDE_DATA names (default: ../shared beside the project).

Taking turns, the best of several passes of each counts: CPU time of this process. The limits: a batch judges at least 1,000 times as many as
Math-Verify, a single call takes at most 2 µs more than an item of a batch, weights of 2,048 rows take at most 10 ms.
"""

import json
import logging
import os
import sys
import time
from pathlib import Path

from evenkeel_rlvr import verify_math, verify_math_batch

try:
    from math_verify import parse, verify
except ImportError:
    parse = None
try:
    import numpy
    from evenkeel_rlvr import balanced
except ImportError:
    numpy = None

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("EVENKEEL_OUTSIDE_DATA", ROOT.parent / "shared")) / "data/math/math500.jsonl"
PASSES = 7
# Of the peer's pairs, which it judges at some milliseconds each.
PEER_PAIRS = 200


def seconds(call, passes=PASSES):
    """The least CPU time of a call."""
    times = []
    for _ in range(passes):
        begin = time.process_time()
        call()
        times.append(time.process_time() - begin)
    return min(times)


def main():
    logging.disable(logging.CRITICAL)
    rows = [json.loads(line) for line in DATA.open()]
    golds = [row["answer"] for row in rows]
    completions = [row["solution"] for row in rows] * 2
    golds = golds + golds[1:] + golds[:1]
    pairs = list(zip(completions, golds))
    mean = sum(map(len, completions)) / len(completions)
    print(f"{len(pairs)} pairs, completions of {mean:.0f} characters")

    batch = seconds(lambda: verify_math_batch(completions, golds, threads=1)) / len(pairs)
    single = seconds(lambda: [verify_math(completion, gold) for completion, gold in pairs]) / len(pairs)
    print(f"batch        {batch * 1e6:8.2f} µs a pair")
    print(f"single calls {single * 1e6:8.2f} µs a pair, {1e6 * (single - batch):.2f} µs more")
    held = [single - batch <= 2e-6]
    if parse is not None:
        step = len(pairs) // PEER_PAIRS
        some = pairs[::step]
        ours = [bool(verdict) for verdict in verify_math_batch([c for c, _ in some], [g for _, g in some])]
        theirs = []

        def peer():
            theirs[:] = [bool(verify(parse(f"${gold}$"), parse(completion))) for completion, gold in some]

        took = seconds(peer, 2) / len(some)
        few = seconds(lambda: verify_math_batch([c for c, _ in some], [g for _, g in some], threads=1)) / len(some)
        ones = seconds(lambda: [verify_math(completion, gold) for completion, gold in some]) / len(some)
        differing = sum(a != b for a, b in zip(ours, theirs))
        print(f"Math-Verify  {took * 1e6:8.0f} µs a pair ({len(some)} of them): {took / few:.0f} times a batch, {took / ones:.0f} times single calls; {differing} verdicts differ")
        held.append(took / few >= 1000)
    if numpy is not None:
        numbers = numpy.random.default_rng(0)
        arguments = numbers.normal(size=2048), numbers.integers(1, 8192, 2048), numpy.arange(2048) // 8
        weights = seconds(lambda: balanced.weights(*arguments))
        print(f"weights      {weights * 1e3:8.2f} ms for 2,048 rows")
        held.append(weights <= 0.01)
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
