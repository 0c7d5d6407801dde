#!/usr/bin/env python3
"""Samples a second with and without a lag: python3 bench/pipeline/run.py [--binary evenkeel] [--steps 12] [--set KEY=VALUE ...]

Runs the same recipe with `pipeline.max_lag` 0 and 1, taking turns. Each service is a process of its own; the engine is pinned to one core and
the learner to another, each with one thread. All answers have the same length, so that a step has no tail.

Printed for each lag: samples a second from the end of the third step to that of the last. What a lag can gain depends on how equal the costs
of both sides are, so what sampling and training took without a lag is printed as well, and with it the ideal: the sum of both over the larger
one, 2 where they are equal. Exits with 1 where lag 1 reaches less than 0.85 of the ideal (1.7 of 2).
"""

import argparse
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 0.85
WARM_UP = 3
TURNS = 2
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
old_logp = "proximal"

[learner.compute]
threads = 1

[engine]
threads = 1
"""


def build():
    command = ["cargo", "build", "--release", "--workspace", "--bin", "evenkeel", "--message-format", "json-render-diagnostics"]
    lines = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    artifacts = (json.loads(line) for line in lines)
    return next(a["executable"] for a in artifacts if a.get("executable") and a["target"]["name"] == "evenkeel")


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def processes(binary, folder, recipe, model, options):
    """Starts the services, with the run of the recipe, and returns their processes."""
    engine, generation, reward, learner, orchestrator = free_ports(5)
    address = "127.0.0.1:{}".format
    services = [
        ("orchestrator", None, [
            f"server.listen={address(orchestrator)}", f"runs={folder / 'runs'}", f'start.set=["model.path={model}"]',
            f"endpoints.generation=http://{address(generation)}", f'endpoints.reward=["http://{address(reward)}"]',
            f"endpoints.learner=http://{address(learner)}",
        ]),
        ("learner", 1, [f"server.listen={address(learner)}", f"model={model}", f"checkpoints={folder / 'checkpoints'}", f"weights={folder / 'weights'}"]),
        ("reward", None, [f"server.listen={address(reward)}"]),
        ("generation", None, [f"server.listen={address(generation)}", f'endpoints=["http://{address(engine)}"]']),
        ("engine", 0, [f"listen={address(engine)}", f"model={model}"]),
    ]
    started = []
    for service, core, settings in services:
        command = ["taskset", "-c", str(core)] if core is not None else []
        command += [binary, "serve", service, "--recipe", recipe, *options]
        command += [word for setting in settings for word in ("--set", setting)]
        log = (folder / f"{service}.log").open("wb")
        started.append(subprocess.Popen([str(word) for word in command], stdout=log, stderr=log))
    return started


def run(binary, folder, lag, steps, options):
    """The end of each step on this clock, and its line."""
    folder.mkdir()
    recipe, model = folder / "pipeline.toml", folder / "model"
    recipe.write_text(RECIPE.format(lag=lag, steps=steps))
    subprocess.run([binary, "model", "--recipe", recipe, "--out", model], check=True, stdout=subprocess.DEVNULL)
    metrics, ends = folder / "runs/pipeline/metrics.jsonl", []
    started = processes(binary, folder, recipe, model, options)
    try:
        while len(ends) < steps:
            for process, name in zip(started, ("orchestrator", "learner", "reward", "generation", "engine")):
                if process.poll() is not None:
                    sys.exit(f"{name} ended:\n{(folder / f'{name}.log').read_text(errors='replace')[-2000:]}")
            lines = metrics.read_text().count("\n") if metrics.exists() else 0
            ends += [time.monotonic()] * (lines - len(ends))
            time.sleep(0.01)
    finally:
        for process in started:
            process.kill()
        for process in started:
            process.wait()
    return ends, [json.loads(line) for line in metrics.read_text().splitlines()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, help="evenkeel, instead of a build")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="of every service")
    arguments = parser.parse_args()
    if not shutil.which("taskset"):
        sys.exit("taskset is not installed (util-linux)")
    binary = arguments.binary.resolve() if arguments.binary else build()
    options = [word for one in arguments.set for word in ("--set", one)]
    rates, costs = {0: [], 1: []}, []
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(TURNS):
            for lag in rates:
                ends, lines = run(binary, Path(folder) / f"{turn}-{lag}", lag, arguments.steps, options)
                samples = sum(line["rollout/samples"] for line in lines[WARM_UP:])
                rates[lag].append(samples / (ends[-1] - ends[WARM_UP - 1]))
                if lag == 0:
                    parts = [(line["timing_s/gen"] + line["timing_s/reward"], line["timing_s/update_actor"]) for line in lines[WARM_UP:]]
                    costs += parts
    sampling, training = (sum(part) / len(costs) for part in zip(*costs))
    ideal = (sampling + training) / max(sampling, training)
    best = {lag: max(of_lag) for lag, of_lag in rates.items()}
    gain = best[1] / best[0]
    print(f"a step without a lag: sampling {sampling:.2f} s, training {training:.2f} s, ideal gain {ideal:.2f}")
    for lag in rates:
        print(f"lag {lag}: {best[lag]:.1f} samples/s (turns: {', '.join(f'{rate:.1f}' for rate in rates[lag])})")
    print(f"lag 1 over lag 0: {gain:.2f}, {gain / ideal:.2f} of the ideal (limit {LIMIT})")
    sys.exit(0 if gain / ideal >= LIMIT else 1)


if __name__ == "__main__":
    main()
