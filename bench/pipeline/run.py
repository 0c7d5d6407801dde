#!/usr/bin/env python3
"""What a lag gains and what it costs: python3 bench/pipeline/run.py [--binary evenkeel] [--steps 12] [--set SECTION.KEY=VALUE ...]

Runs the same recipe with `pipeline.max_lag` 0 and 1, taking turns. Each service is a process of its own; the engine is pinned to one core and
the learner to another, each with one thread. A first run shows what sampling and training cost, and the cheaper side is then throttled to the
cost of the other: it is stopped for a share of every PERIOD. All answers have the same length, so that a step has no tail. A step has an
update for each group, so that the learner cannot begin before it has been sampled: where it has one update, it trains the first groups while
later ones are sampled, and the two sides overlap without a lag.

Printed for each lag: samples a second from the end of the third step to that of the last, and the ideal gain for what sampling and training
took without a lag: the sum of both over the larger one, 2 where they are equal. Exits with 1 where lag 1 reaches less than 0.85 of the ideal
(1.7 of 2).

Printed beside it: the processor time of the orchestrator for a step with and without a lag, and the difference as a share of the step; the
limit is 1 %.
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import build  # noqa: E402
from services import Services  # noqa: E402

LIMIT = 0.85
LIMIT_CPU = 0.01
WARM_UP = 3
TURNS = 2
# Seconds in which a throttled process is stopped once.
PERIOD = 0.02
RECIPE = """
[run]
seed = 1
steps = {steps}

[model.fresh]
hidden_size = 128
intermediate_size = 384
layers = 4
heads = 4
context_tokens = 256

[sampling]
prompts_per_step = 16
group_size = 8
min_tokens = 96
max_tokens = 96

[pipeline]
max_lag = {lag}

[evaluation]
problems = 16
before = false
after = false

[checkpoint]
every = 1000

[proof]
every = 0

[learner]
old_logp = "rollout"
mini_batch_groups = 1

[learner.objective]
# So that answers of a model that solves nothing go through it as well.
entropy_coefficient = 1e-6

[learner.compute]
threads = 1

[engine]
threads = 1
"""


def processor_seconds(process):
    """Of a process so far, in user and system mode."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def throttled(process, share):
    """Lets a process run for that share of the time."""
    over = threading.Event()

    def throttle():
        while not over.is_set():
            process.send_signal(signal.SIGCONT)
            time.sleep(PERIOD * share)
            process.send_signal(signal.SIGSTOP)
            time.sleep(PERIOD * (1 - share))

    thread = threading.Thread(target=throttle)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        process.send_signal(signal.SIGCONT)


def costs_of(lines):
    """Mean seconds that sampling and training take of a step."""
    def mean(*names):
        return sum(line[name] for line in lines[WARM_UP:] for name in names) / len(lines[WARM_UP:])

    return mean("timing_s/gen", "timing_s/reward"), mean("timing_s/update_actor")


def run(binary, folder, lag, steps, changes, shares):
    """The end of each step on this clock, its line, and the processor seconds of the orchestrator from the end of the warm-up on. Services that
    are throttled have a share of the time in `shares`."""
    folder.mkdir()
    recipe, model = folder / "pipeline.toml", folder / "model"
    recipe.write_text(changed(RECIPE.format(lag=lag, steps=steps), changes))
    subprocess.run([binary, "model", "--recipe", recipe, "--out", model], check=True, stdout=subprocess.DEVNULL)
    metrics, ends, cpu = folder / "runs/pipeline/metrics.jsonl", [], 0.0
    with Services(binary, folder, recipe, model, cores={"engine": 0, "learner": 1}) as services, contextlib.ExitStack() as stack:
        for name, share in shares.items():
            stack.enter_context(throttled(services.processes[name], share))
        while len(ends) < steps:
            services.check()
            lines = metrics.read_text().count("\n") if metrics.exists() else 0
            if len(ends) < WARM_UP <= lines:
                cpu -= processor_seconds(services.processes["orchestrator"])
            ends += [time.monotonic()] * (lines - len(ends))
            time.sleep(0.01)
        cpu += processor_seconds(services.processes["orchestrator"])
    return ends, [json.loads(line) for line in metrics.read_text().splitlines()], cpu


def changed(recipe, changes):
    """The recipe with other values. Every key that is set must be in it."""
    for change in changes:
        key, _, value = change.partition("=")
        section, _, name = key.rpartition(".")
        before, found, rest = recipe.partition(f"[{section}]\n")
        body, gap, after = rest.partition("\n\n")
        lines = [f"{name} = {value}" if line.startswith(f"{name} = ") else line for line in body.splitlines()]
        if not found or lines == body.splitlines():
            sys.exit(f"{key} is not in the recipe of this bench, or has this value")
        recipe = before + found + "\n".join(lines) + gap + after
    return recipe


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, help="evenkeel, instead of a build")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="another value in the recipe of this bench")
    arguments = parser.parse_args()
    binary = arguments.binary.resolve() if arguments.binary else build("evenkeel")
    rates, costs, cpu, seconds = {0: [], 1: []}, [], {0: [], 1: []}, []
    with tempfile.TemporaryDirectory() as folder:
        _, lines, _ = run(binary, Path(folder) / "costs", 0, arguments.steps, arguments.set, {})
        sampling, training = costs_of(lines)
        cheaper, left = ("engine", sampling / training) if sampling < training else ("learner", training / sampling)
        shares = {cheaper: left}
        print(f"a step without a lag: sampling {sampling:.2f} s, training {training:.2f} s; the {cheaper} gets {left:.2f} of the time", flush=True)
        for turn in range(arguments.turns):
            for lag in rates:
                ends, lines, used = run(binary, Path(folder) / f"{turn}-{lag}", lag, arguments.steps, arguments.set, shares)
                samples = sum(line["rollout/samples"] for line in lines[WARM_UP:])
                rates[lag].append(samples / (ends[-1] - ends[WARM_UP - 1]))
                cpu[lag].append(used / (len(ends) - WARM_UP))
                if lag == 0:
                    costs.append(costs_of(lines))
                else:
                    seconds.append((ends[-1] - ends[WARM_UP - 1]) / (len(ends) - WARM_UP))
    sampling, training = (sum(part) / len(costs) for part in zip(*costs))
    ideal = (sampling + training) / max(sampling, training)
    best = {lag: max(of_lag) for lag, of_lag in rates.items()}
    gain = best[1] / best[0]
    print(f"throttled: sampling {sampling:.2f} s, training {training:.2f} s, ideal gain {ideal:.2f}")
    for lag in rates:
        print(f"lag {lag}: {best[lag]:.1f} samples/s (turns: {', '.join(f'{rate:.1f}' for rate in rates[lag])})")
    print(f"lag 1 over lag 0: {gain:.2f}, {gain / ideal:.2f} of the ideal (limit {LIMIT})")
    least = {lag: min(of_lag) for lag, of_lag in cpu.items()}
    share = (least[1] - least[0]) / min(seconds)
    print(f"processor time of the orchestrator: {1000 * least[0]:.0f} ms a step without a lag, {1000 * least[1]:.0f} ms with one: "
          f"{100 * share:.2f} % of a step more (limit {100 * LIMIT_CPU:.0f} %)")
    sys.exit(0 if gain / ideal >= LIMIT and share <= LIMIT_CPU else 1)


if __name__ == "__main__":
    main()
