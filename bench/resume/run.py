#!/usr/bin/env python3
"""Kills at random moments of a run, compared with the undisturbed run: python3 bench/resume/run.py [--kills 30] [--processes] [--recipe RECIPE] [--set KEY=VALUE ...]

Trains once undisturbed. Then starts the same run again and again with --resume in one run directory and kills it with SIGKILL at a random
moment, until it was killed so often; the last start runs to its end. Every line of metrics, of evaluations and of the warm start must equal
that of the undisturbed run, but for what measures time (`timing_s/`, `perf/`, `pipeline/*_waited_s`), counts repetitions
(`rollout/begun_again`, `rollout/verified_again`) or is of proofs and audits (`proof/`, `sampler_audit/`, which begin anew); so must
`prompts.jsonl`, and the published weights must be the same bytes. A run that finishes before all kills are spent begins again in a new
directory. Exits with 1 where something differs.

With --processes each service is a process of its own: once undisturbed, which must equal the run in one process, and then killed. At each
moment one of the five is killed, whichever chance takes, and started again. With --switches it is the engine, within SWITCH seconds after
weights were published: while it is on its way to them.

The moments are uniform over the time that the undisturbed run took, from a fixed seed (--seed).

    python3 bench/resume/run.py --lag 2               thirty kills of a run that samples two steps ahead
    python3 bench/resume/run.py --lag 2 --processes   thirty kills of its services
    python3 bench/resume/run.py --lag 2 --switches    thirty kills of its engine in the middle of a switch of weights
"""

import argparse
import hashlib
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import ROOT, build  # noqa: E402
from services import NAMES, Services, tail  # noqa: E402

FILES = ["metrics.jsonl", "evaluation.jsonl", "warm_start.jsonl", "prompts.jsonl"]
# What differs between two runs of the same seed by nature, as `may_differ` of the orchestrator has it.
OF_TIME = ("timing_s/", "perf/", "pipeline/learner_waited_s", "pipeline/sampling_waited_s")
OF_REPETITION = ("rollout/begun_again", "rollout/verified_again")
OF_PROOFS = ("proof/", "sampler_audit/")
# Services that are killed oftener than this share of the run's time would never let it get anywhere.
SHORTEST = 0.15
# Seconds from the moment at which weights are there to that at which the engines of a small model have them, about.
SWITCH = 0.06


def start(binary, options, folder, resume):
    command = [binary, "train"]
    command += ["--resume", folder] if resume else [*options, "--out", folder]
    log = (folder.parent / f"{folder.name}.log").open("ab")
    return subprocess.Popen([str(word) for word in command], stdout=log, stderr=log)


def train(binary, options, folder, resume=False):
    began = time.monotonic()
    status = start(binary, options, folder, resume).wait()
    if status:
        sys.exit(f"the run ended with status {status}:\n{tail(folder.parent / f'{folder.name}.log')}")
    return time.monotonic() - began


def lines(folder):
    """The lines of each file, without what differs by nature."""
    found = {}
    for name in FILES:
        path = folder / name
        # A line that is being written is none yet.
        rows = [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")] if path.exists() else []
        found[name] = [{key: value for key, value in row.items() if not key.startswith(OF_TIME + OF_REPETITION + OF_PROOFS)} for row in rows]
    return found


def published(folder):
    """The folder of the newest published weights, if any are."""
    versions = [path for path in folder.glob("step-*")] if folder.is_dir() else []
    return max(versions, key=lambda path: int(path.name.rpartition("-")[2]), default=None)


def weights(folder):
    """Digest of the newest published weights."""
    newest = published(folder)
    digest = hashlib.sha256()
    for path in sorted(newest.rglob("*.safetensors")):
        digest.update(path.read_bytes())
    return newest.name, digest.hexdigest()


def differences(one, other):
    for name in FILES:
        if len(one[name]) != len(other[name]):
            yield f"{name}: {len(one[name])} lines, killed {len(other[name])}"
        for number, (left, right) in enumerate(zip(one[name], other[name])):
            for key in sorted(left.keys() | right.keys()):
                if left.get(key) != right.get(key):
                    yield f"{name}:{number + 1}: {key} is {left.get(key)}, killed {right.get(key)}"


def other_weights(expected, folder):
    return [] if weights(folder) == expected else [f"weights: {expected}, killed {weights(folder)}"]


class Kills:
    """Moments at which something is killed."""

    def __init__(self, seed, kills, seconds, at_switches=False):
        self.random, self.left, self.spent, self.seconds = random.Random(seed), kills, 0, seconds
        self.at_switches = at_switches

    def moment(self, shortest=0.0):
        return self.random.uniform(shortest * self.seconds, self.seconds)

    def note(self, what, run):
        self.left -= 1
        self.spent += 1
        steps = len(lines(run)["metrics.jsonl"]) if run.exists() else 0
        print(f"kill {self.spent}: {what}, {steps} steps are written", flush=True)


def kill_run(binary, options, folder, kills):
    """A run in one process, killed again and again. Returns its directory and that of its weights."""
    while kills.left:
        # Before the directory holds a run there is nothing to resume.
        process = start(binary, options, folder, (folder / "run.json").exists())
        try:
            status = process.wait(kills.moment())
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            kills.note("the run", folder)
            continue
        if status:
            sys.exit(f"the run ended with status {status}:\n{tail(folder.parent / f'{folder.name}.log')}")
        break
    train(binary, options, folder, resume=(folder / "run.json").exists())
    return folder, folder / "weights"


def kill_services(binary, recipe, options, folder, kills):
    """A run of five processes, one of which is killed again and again. Returns the same."""
    folder.mkdir()
    model = folder / "model"
    command = [binary, "model", "--recipe", recipe, *options, "--out", model]
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)
    run = folder / "runs" / Path(recipe).stem

    def is_over():
        summary = run / "summary.json"
        try:
            state = json.loads(summary.read_text())["state"] if summary.exists() else ""
        except json.JSONDecodeError:
            return False
        if state == "failed":
            sys.exit(f"the run failed:\n{tail(folder / 'orchestrator.log')}")
        return state == "completed"

    def next_victim():
        """Waits for the next moment, or for a while. Returns whom it takes, if anybody."""
        nonlocal moment, switched
        if not kills.left:
            time.sleep(0.02)
        elif kills.at_switches:
            time.sleep(0.002)
            newest, before = published(folder / "weights"), switched
            switched = newest
            if newest != before and before is not None:
                time.sleep(kills.random.uniform(0, SWITCH))
                return "engine"
        else:
            time.sleep(0.02)
            if time.monotonic() >= moment:
                moment = time.monotonic() + kills.moment(SHORTEST)
                return kills.random.choice(NAMES)
        return None

    with Services(binary, folder, recipe, model, options) as services:
        moment, switched = time.monotonic() + kills.moment(SHORTEST), None
        while not is_over():
            services.check()
            name = next_victim()
            if name:
                services.kill(name)
                services.start(name)
                kills.note(name, run)
    return run, folder / "weights"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, help="evenkeel, instead of a build")
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--processes", action="store_true", help="kill the services of a run, each a process of its own")
    parser.add_argument("--switches", action="store_true", help="kill the engine in the middle of switches of weights")
    parser.add_argument("--lag", type=int, default=0, help="pipeline.max_lag, with what it needs")
    parser.add_argument("--recipe", type=Path, default=ROOT / "cli/tests/suite/small.toml")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    arguments = parser.parse_args()
    binary, recipe = arguments.binary or build("evenkeel"), arguments.recipe
    processes = arguments.processes or arguments.switches
    lag = [f"pipeline.max_lag={arguments.lag}", "learner.old_logp=proximal", f"checkpoint.keep_weights={arguments.lag + 1}"]
    settings = (lag if arguments.lag else []) + arguments.set
    found, completed = [], 0
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        # The services read their settings from the recipe: what is set besides is appended as a recipe of its own.
        if settings and processes:
            recipe = with_settings(recipe, settings, folder)
            settings = []
        options = [word for one in settings for word in ("--set", one)]
        alone = ["--recipe", recipe, *options]
        seconds = train(binary, alone, folder / "undisturbed")
        expected, expected_weights = lines(folder / "undisturbed"), weights(folder / "undisturbed/weights")
        print(f"undisturbed: {seconds:.1f} s, {len(expected['metrics.jsonl'])} steps", flush=True)
        if processes:
            began = time.monotonic()
            run, found_weights = kill_services(binary, recipe, options, folder / "processes", Kills(0, 0, 0.0))
            seconds = time.monotonic() - began
            print(f"undisturbed, five processes: {seconds:.1f} s", flush=True)
            found += [*differences(expected, lines(run)), *other_weights(expected_weights, found_weights)]
        kills = Kills(arguments.seed, arguments.kills, seconds, arguments.switches)
        while kills.left:
            killed = folder / f"killed-{completed}"
            if processes:
                run, found_weights = kill_services(binary, recipe, options, killed, kills)
            else:
                run, found_weights = kill_run(binary, alone, killed, kills)
            completed += 1
            found += [*differences(expected, lines(run)), *other_weights(expected_weights, found_weights)]
    for line in found[:20]:
        print(line)
    print(f"{kills.spent} kills in {completed} runs, {len(found)} differences")
    sys.exit(1 if found else 0)


def with_settings(recipe, settings, folder):
    """A recipe of the same name that builds on another one."""
    path = folder / recipe.name
    text = [f'base = "{recipe}"']
    for one in settings:
        key, _, value = one.partition("=")
        section, _, name = key.rpartition(".")
        plain = value in ("true", "false") or value.replace(".", "", 1).lstrip("-").isdigit()
        text.append(f"[{section}]\n{name} = {value if plain else json.dumps(value)}")
    path.write_text("\n".join(text) + "\n")
    return path


if __name__ == "__main__":
    main()
