#!/usr/bin/env python3
"""What a cluster waits for: the real orchestrator, generation service and reward gateway, over engines, reward workers and a learner that only
take time (one process, `evenkeel-bench cluster`).

    python3 bench/cluster/run.py [--engines 8,16,32,64] [--workers 256] [--steps 6] [--sample 8] [--step 4] [--markdown]

Each line is a run of its own, with 32 samples on each engine at a time: 2,048 of them a step with 64. A sample takes between half of `--sample`
seconds and all of it, a step of the learner `--step` seconds after its last group. So a step takes the longest sample and the learner's time at
least; what it takes beyond them is waiting for the services between, for weights to be announced to every engine, and for this machine, where
all of it shares the processors. The table says in which part of a step: beyond the longest sample until the last one is here (`samples`), until
the last verdict (`verdicts`), beyond the learner's time (`training`), until every engine has the new weights (`weights`). The first two steps of
a run are not counted.

CPU time is that of each process over the steps that count, as a share of one core. The last line of each table has the samples a second at which
each service would have a core to itself, from what a sample costs it: the one with the fewest saturates first. It fails if the orchestrator
takes a core or more at the largest size, or if a step there waits for something else for more than a tenth of its time.
"""
import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import build, free_port  # noqa: E402

TICKS = os.sysconf("SC_CLK_TCK")
SERVICES = ("orchestrator", "generation", "gateway")
# Parts of a step.
BEYOND = ("samples", "verdicts", "training", "weights")
GROUP = 16
# Samples that an engine has at a time.
AT_A_TIME = 32
SKIPPED = 2
MAX_CORES, MAX_WAITING = 1.0, 0.1

RECIPE = """
[run]
steps = {steps}
[model]
path = "{model}"
[sampling]
prompts_per_step = {prompts}
group_size = {group}
max_tokens = {tokens}
[warm_start]
steps = 0
[evaluation]
every = 0
before = false
after = false
[checkpoint]
every = 1000000
[proof]
every = 0
[sampler_audit]
mode = "off"
"""


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


class Run:
    """One size: the processes, and what they took."""

    def __init__(self, evenkeel, cluster, folder, engines, options):
        self.folder, self.processes, self.engines, self.options = folder, {}, engines, options
        self.samples = engines * AT_A_TIME
        model = folder / "model"
        recipe = folder / "recipe.toml"
        recipe.write_text(RECIPE.format(steps=options.steps + SKIPPED, model=model, prompts=self.samples // GROUP, group=GROUP, tokens=options.tokens))
        shape = ["--set", "model.fresh.context_tokens=4096", "--set", "model.fresh.tied=false"]
        subprocess.run([evenkeel, "model", *shape, "--out", str(model)], check=True, stdout=subprocess.DEVNULL)
        milliseconds = [str(int(1000 * seconds)) for seconds in (options.sample, options.verdict, options.step)]
        self.cluster = subprocess.Popen([cluster, "cluster", str(model), str(engines), str(options.workers), *milliseconds], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        place = json.loads(self.cluster.stdout.readline())
        port = {name: free_port() for name in SERVICES}
        listen = lambda name: f"server.listen=127.0.0.1:{port[name]}"
        self.start(evenkeel, "generation", listen("generation"), f"endpoints={json.dumps(place['engines'])}", "weights.check_folder=false",
                   f"max_in_flight={2 * AT_A_TIME}")
        self.start(evenkeel, "gateway", listen("gateway"), f"endpoints={json.dumps(place['workers'])}")
        self.start(evenkeel, "orchestrator", listen("orchestrator"), f"runs={folder / 'runs'}", f'start.recipe=["{recipe}"]', "start.name=simulation",
                   f"endpoints.generation=http://127.0.0.1:{port['generation']}", f'endpoints.reward=["http://127.0.0.1:{port["gateway"]}"]',
                   f"endpoints.learner={place['learner']}")

    def start(self, evenkeel, name, *settings):
        command = [evenkeel, "serve", name, *(word for setting in settings for word in ("--set", setting))]
        with (self.folder / f"{name}.log").open("wb") as log:
            self.processes[name] = subprocess.Popen(command, stdout=log, stderr=log)

    def until(self, steps):
        metrics, began = self.folder / "runs/simulation/metrics.jsonl", time.monotonic()
        most = 120 + 4 * steps * (self.options.sample + self.options.step)
        while len(lines(metrics)) < steps:
            for name, process in {**self.processes, "cluster": self.cluster}.items():
                if process.poll() is not None or time.monotonic() - began > most:
                    log = self.folder / f"{name}.log"
                    sys.exit(f"{name} ended, or took too long:\n{log.read_text()[-3000:] if log.exists() else ''}")
            time.sleep(0.05)
        return lines(metrics)

    def measure(self):
        everything = {name: process.pid for name, process in self.processes.items()} | {"simulated": self.cluster.pid}
        self.until(SKIPPED)
        before, began = {name: cpu_seconds(pid) for name, pid in everything.items()}, time.monotonic()
        steps = self.until(SKIPPED + self.options.steps)[SKIPPED:]
        took = time.monotonic() - began
        cpu = {name: cpu_seconds(pid) - before[name] for name, pid in everything.items()}
        mean = lambda name: sum(line[f"timing_s/{name}"] for line in steps) / len(steps)
        step = mean("step")
        return {"engines": self.engines, "samples": self.samples, "step": step, "waiting": step - self.options.sample - self.options.step,
                "beyond": {"samples": mean("gen") - self.options.sample, "verdicts": mean("reward"),
                           "training": mean("update_actor") - self.options.step, "weights": mean("update_weights")},
                "rate": len(steps) * self.samples / took, "cores": {name: seconds / took for name, seconds in cpu.items()},
                "per_sample": {name: seconds / (len(steps) * self.samples) for name, seconds in cpu.items()}}

    def end(self):
        for process in [*self.processes.values(), self.cluster]:
            process.send_signal(signal.SIGKILL)
            process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engines", default="8,16,32,64")
    parser.add_argument("--workers", type=int, default=256)
    parser.add_argument("--steps", type=int, default=6, help="that count")
    parser.add_argument("--sample", type=float, default=8.0, help="seconds of the longest sample")
    parser.add_argument("--step", type=float, default=4.0, help="seconds of the learner")
    parser.add_argument("--verdict", type=float, default=0.02, help="seconds of a verdict")
    parser.add_argument("--tokens", type=int, default=512, help="of a response")
    parser.add_argument("--program", help="an evenkeel that is built already")
    parser.add_argument("--cluster", help="an evenkeel-bench that is built already")
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    evenkeel, cluster = (options.program, options.cluster) if options.program and options.cluster else build("evenkeel", "evenkeel-bench")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    found = []
    for engines in map(int, options.engines.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            run = Run(evenkeel, cluster, Path(folder), engines, options)
            try:
                found.append(run.measure())
            finally:
                run.end()
        print(json.dumps(found[-1]), file=sys.stderr)
    line = "| {} |" if options.markdown else "{}"
    between = " | " if options.markdown else "  "
    head = ["engines", "samples a step", "step", "beyond engines and learner", *BEYOND, "samples a second", *(f"{name}: cores" for name in SERVICES)]
    print(line.format(between.join(head)))
    if options.markdown:
        print("|" + "---|" * len(head))
    for one in found:
        cores = [f"{one['cores'][name]:.2f}" for name in SERVICES]
        beyond = [f"{one['beyond'][name]:.2f} s" for name in BEYOND]
        print(line.format(between.join([str(one["engines"]), str(one["samples"]), f"{one['step']:.2f} s", f"{one['waiting']:.2f} s", *beyond,
                                        f"{one['rate']:.0f}", *cores])))
    last = found[-1]
    most = {name: 1 / last["per_sample"][name] for name in SERVICES}
    print("a core each at, in samples a second: " + ", ".join(f"{name} {rate:.0f}" for name, rate in sorted(most.items(), key=lambda pair: pair[1])))
    share = last["waiting"] / last["step"]
    print(f"orchestrator: {last['cores']['orchestrator']:.2f} cores (limit {MAX_CORES}); waiting for something else: {share:.1%} (limit {MAX_WAITING:.0%})")
    return 1 if last["cores"]["orchestrator"] >= MAX_CORES or share > MAX_WAITING else 0


if __name__ == "__main__":
    sys.exit(main())
