#!/usr/bin/env python3
"""Which lies of an engine a run finds, and when: python3 bench/lies/run.py [--steps 8] [--honest 3] [--lies NAME ...] [--recipe RECIPE] [--set KEY=VALUE ...]

A proxy before the embedded engine tells one lie: about the weights that it loads, or about the samples that it draws. Each lie is a run of
its own, and so is each honest run, which must end by itself. The table says after how many steps, and with how many audited tokens, each lie
was found, and by which check. Lies about weights run at each learning rate of --rates ("recipe" is that of the recipe).

    python3 bench/lies/run.py                                     the tiny recipe, after its own warm start
    python3 bench/lies/run.py --set model.path=FOLDER --set warm_start.steps=0    another model

The table has two halves. In the first the learner compares each token with its own, to the bit; in the second all is found by evidence, as
with other engines. --half with-bits or --half without-bits prints one of them.

With --warn every lie runs to the last step and the table has every check that it failed. Exits with 1 where an honest run is accused.
"""

import argparse
import json
import random
import re
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))
import proxy  # noqa: E402
from common import ROOT, build, free_port  # noqa: E402
from proxy import (  # noqa: E402
    AnotherPrompt,
    BetterOfTwo,
    Cached,
    DroppedToken,
    ExchangedIds,
    FabricatedEvaluations,
    FewBits,
    FirstChange,
    LastMiniBatch,
    Lie,
    LogProbabilities,
    LongestAgain,
    MissingEnd,
    MissingToken,
    OneSeed,
    OtherSettings,
    RefusesProofs,
    Row,
    Sampling,
    Split,
    Weights,
)


# A run that samples a step ahead.
LAG = ("pipeline.max_lag=1", "learner.old_logp=proximal", "learner.objective.correction=token-truncate")


def with_settings(lie, *settings):
    """The lie in a run with further settings."""
    lie.run_settings = settings
    return lie


def shuffled(found):
    found = list(found)
    random.Random(len(found)).shuffle(found)
    return found


SAMPLES = {
    "temperature 0.5": lambda _: Sampling(temperature=0.5),
    "temperature 0.5, hidden": lambda _: Sampling(hidden=True, temperature=0.5),
    "temperature 1.02": lambda _: Sampling(temperature=1.02),
    "temperature 1.02, hidden": lambda _: Sampling(hidden=True, temperature=1.02),
    "temperature 1.3": lambda _: Sampling(temperature=1.3),
    "temperature 1.3, hidden": lambda _: Sampling(hidden=True, temperature=1.3),
    "top-p 0.95": lambda _: Sampling(top_p=0.95),
    "top-p 0.95, hidden": lambda _: Sampling(hidden=True, top_p=0.95),
    "top-p 0.5": lambda _: Sampling(top_p=0.5),
    "top-p 0.5, hidden": lambda _: Sampling(hidden=True, top_p=0.5),
    "top-k 5": lambda _: Sampling(top_k=5),
    "top-k 5, hidden": lambda _: Sampling(hidden=True, top_k=5),
    "top-k 1": lambda _: Sampling(top_k=1),
    "min-p 0.1": lambda _: Sampling(min_p=0.1),
    "min-p 0.1, hidden": lambda _: Sampling(hidden=True, min_p=0.1),
    "greedy, hidden": lambda _: Sampling(hidden=True, temperature=0.0),
    "one seed": lambda _: OneSeed(),
    "first prompt token dropped": lambda _: DroppedToken(),
    "first answer token missing": lambda _: MissingToken(),
    "ids exchanged": lambda _: ExchangedIds(),
    "log-probabilities constant": lambda _: LogProbabilities(lambda found: [-1.0] * len(found)),
    "log-probabilities shuffled": lambda _: LogProbabilities(shuffled),
    "log-probabilities scaled": lambda _: LogProbabilities(lambda found: [0.9 * value for value in found]),
    "cached answers": lambda _: Cached(),
    "temperature 0.98, hidden": lambda _: Sampling(hidden=True, temperature=0.98),
    "min-p 0.01, hidden": lambda _: Sampling(hidden=True, min_p=0.01),
    "temperature 0.5 in 5 % of answers": lambda _: OtherSettings(0.05, temperature=0.5),
    "likelier of two draws": lambda _: BetterOfTwo(lambda choice: sum(choice["logprobs"]["token_logprobs"])),
    "shorter of two draws": lambda _: BetterOfTwo(lambda choice: -len(choice["token_ids"])),
    "longer of two draws": lambda _: BetterOfTwo(lambda choice: len(choice["token_ids"])),
    "longest eighth drawn again": lambda _: LongestAgain(),
    "5 % of answers after another prompt's token": lambda _: AnotherPrompt(0.05),
    "end tokens left out": lambda _: MissingEnd(),
    "log-probabilities of three decimals": lambda _: LogProbabilities(lambda found: [round(value, 3) for value in found]),
    "evaluation answers fabricated": lambda _: FabricatedEvaluations(),
    "temperature 0.5 in the last mini-batch": lambda _: LastMiniBatch(),
    "temperature 0.5, with a lag": lambda _: with_settings(Sampling(temperature=0.5), *LAG),
}
WEIGHTS = {
    "nothing loaded": lambda scratch: Weights(scratch, nothing=True),
    "MLPs stale": lambda scratch: Weights(scratch, replaced="mlp"),
    "attention stale": lambda scratch: Weights(scratch, replaced="attention"),
    "norms stale": lambda scratch: Weights(scratch, replaced="norms"),
    "embeddings stale": lambda scratch: Weights(scratch, replaced="embeddings"),
    "head stale": lambda scratch: Weights(scratch, replaced="head"),
    "one layer stale": lambda scratch: Weights(scratch, replaced="layer"),
    "60 % of each change": lambda scratch: Weights(scratch, share=0.6),
    "80 % of each change": lambda scratch: Weights(scratch, share=0.8),
    "one version behind": lambda scratch: Weights(scratch, behind=True),
    "102 % of each change": lambda scratch: Weights(scratch, share=1.02),
    "first change kept": lambda scratch: FirstChange(scratch),
    "one projection stale": lambda scratch: Weights(scratch, replaced="projection"),
    "head row of the end x 0.9": lambda scratch: Row(scratch, 0.9),
    "head row of a token x 1.02": lambda scratch: Row(scratch, 1.02, row=21),
    "8 bits": lambda scratch: FewBits(scratch, 8),
    "4 bits": lambda scratch: FewBits(scratch, 4),
    "samples of the start, right scores": lambda scratch: Split(Weights(scratch, nothing=True)),
    "samples with stale MLPs, right scores": lambda scratch: Split(Weights(scratch, replaced="mlp")),
    "3 bits": lambda scratch: FewBits(scratch, 3),
    "nothing loaded, with a lag": lambda scratch: with_settings(Weights(scratch, nothing=True), *LAG),
    "nothing loaded, proofs refused": lambda scratch: RefusesProofs(scratch),
}
AUDIT = re.compile(r"step (\d+): the samples of engine \S+ fail the audit of their ([a-z -]+):")
PROOF = re.compile(r"engine \S+ does not have version (\d+) of the weights")
# By rule: an answer that stops without an end is none, and too many of those end the run.
ENDLESS = re.compile(r"step (\d+): .*it has stopped after token")
# Nothing speaks against the engine, and the run is undecided.
UNDECIDED = re.compile(r"undecided: .*no proof has reached")
# The probe of an engine when it is connected: before anything is sampled.
EQUAL = re.compile(r"step (\d+).*: groups\[\d+\]\.responses\[\d+\]: the engine reported")
PROBE = re.compile(r"engine \S+: log_probabilities is raw, allowed: processed|error: the generation service: no engine answered")


ARITHMETIC = ROOT / "deploy/recipes/arithmetic.toml"
# The model that all runs start from has had its warm start, and nothing but steps is of interest where a lie does not say otherwise.
STARTED = ["warm_start.steps=0", "evaluation.before=false", "evaluation.after=false", "evaluation.every=0"]


def started(lie):
    own = [setting.split("=")[0] for setting in lie.run_settings]
    settings = [setting for setting in STARTED if setting.split("=")[0] not in own] + list(lie.run_settings)
    return [word for setting in settings for word in ("--set", setting)]


def write_start(binary, arguments, options, folder, model):
    """The model that all runs start from: that of the recipe after its warm start and one step."""
    run = folder / "start"
    only_start = ["--set", "run.steps=1", "--set", "evaluation.before=false", "--set", "evaluation.after=false"]
    train = [binary, "train", "--recipe", arguments.recipe, *options, *only_start, "--out", run]
    done = subprocess.run([str(word) for word in train], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        sys.exit(f"the run that writes the first model ended with status {done.returncode}:\n{done.stdout[-3000:]}")
    subprocess.run([str(word) for word in [binary, "export", run, "--to", model]], check=True, stdout=subprocess.DEVNULL)


def wait_for(serving, port, log):
    """Until the engine listens."""
    while True:
        if serving.poll() is not None:
            sys.exit(f"the engine ended with status {serving.returncode}:\n{log.read_text()[-3000:]}")
        with socket.socket() as connection:
            if connection.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)


def lines(folder):
    path = folder / "metrics.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def train(binary, arguments, start, options, lie, seed, hides_bits):
    """Runs one lie. Returns what ended it (check, step), the tokens audited until then, and the share of the audit in the steps."""
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        told = lie(scratch)
        told.model = start["model"]
        ports = [free_port() for _ in range(1 + isinstance(told, Split) + told.beside)]
        # An engine has no learner.
        of_engine = [word for setting in options[1::2] if not setting.startswith("learner.") for word in ("--set", setting)]
        engine = [binary, "serve", "engine", "--recipe", arguments.recipe, *of_engine]
        engine += ["--set", f"model={start['model']}", "--set", "logprobs_mode=processed_logprobs"]
        serving = []
        with (scratch / "engine.log").open("wb") as log:
            for port in ports:
                serving.append(subprocess.Popen([str(word) for word in [*engine, "--set", f"listen=127.0.0.1:{port}"]], stdout=log, stderr=log))
        try:
            for served, port in zip(serving, ports):
                wait_for(served, port, scratch / "engine.log")
            if isinstance(told, Split):
                told.port = ports[1]
            fronts = [proxy.start(ports[0], told, hides_bits)]
            fronts += [proxy.start(port, Lie(), hides_bits) for port in ports[len(ports) - told.beside :]]
            endpoints = json.dumps([f"http://127.0.0.1:{front}" for front in fronts])
            command = [binary, "train", "--recipe", arguments.recipe, *options, *started(told), "--set", f"model.path={start['model']}"]
            if arguments.recipe == ARITHMETIC:
                command += ["--set", 'data.kind="arithmetic"']
            command += ["--set", f"generation.endpoints={endpoints}", "--set", f"run.steps={arguments.steps}"]
            command += ["--set", "proof.tolerance=0.01", "--set", f"run.seed={seed}"]
            command += ["--set", f'sampler_audit.mode="{"warn" if arguments.warn else "stop"}"', "--out", scratch / "run"]
            done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        finally:
            for served in serving:
                served.kill()
                served.wait()
        rows = lines(scratch / "run")
        found = [(f"sampler: {check}", int(step)) for step, check in AUDIT.findall(done.stdout)]
        # The weights after step N are version N more than those at the start.
        first = rows[0]["policy_version"] - 1 if rows else 0
        found += [("weights", max(int(version) - first, 0)) for version in PROOF.findall(done.stdout)]
        found += [("probe at the start", 0) for _ in PROBE.findall(done.stdout)]
        found += [("each trained token", int(step)) for step in EQUAL.findall(done.stdout)]
        found += [("stop without an end", int(step)) for step in ENDLESS.findall(done.stdout)]
        if not found and UNDECIDED.search(done.stdout):
            found.append(("undecided", len(rows)))
        if done.returncode and not found:
            sys.exit(f"the run ended with status {done.returncode}:\n{done.stdout[-3000:]}\n{(scratch / 'engine.log').read_text()[-1000:]}")
        tokens = rows[-1].get("sampler_audit/tokens", 0) if rows else 0
        steps = sum(row["timing_s/step"] for row in rows)
        share = sum(row.get("timing_s/sampler_audit_compute", 0) for row in rows) / steps if steps else 0
        return found, tokens, share


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--honest", type=int, default=3, help="honest runs, each with a seed of its own")
    parser.add_argument("--lies", nargs="*", help="names of lies, or beginnings of them")
    parser.add_argument("--rates", nargs="*", default=["recipe", "1e-6"])
    parser.add_argument("--recipe", default=ARITHMETIC)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--warn", action="store_true")
    parser.add_argument("--half", choices=["both", "with-bits", "without-bits"], default="both", help="whether the engine says that it computes as the learner does")
    parser.add_argument("--binary", help="evenkeel, built already")
    arguments = parser.parse_args()
    binary = arguments.binary or build("evenkeel")
    options = [word for setting in arguments.set for word in ("--set", setting)]
    wanted = lambda name: not arguments.lies or any(name.startswith(start) for start in arguments.lies)  # noqa: E731
    halves = {"with-bits": False, "without-bits": True}
    accused = 0
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model"
        write_start(binary, arguments, options, Path(folder), model)
        for half, hides_bits in halves.items():
            if arguments.half in ("both", half):
                accused += table(binary, arguments, {"model": model}, options, wanted, half, hides_bits)
    sys.exit(1 if accused else 0)


def table(binary, arguments, start, options, wanted, half, hides_bits):
    """Prints one half of the table: returns how many honest runs were accused."""
    print(f"\n{half}, {time.strftime('%Y-%m-%d')}, {arguments.steps} steps\n\n| engine | found after step | by | tokens audited before |\n|---|---|---|---|", flush=True)

    def row(name, lie, options, seed=0):
        found, tokens, share = train(binary, arguments, start, options, lie, seed, hides_bits)
        after = ", ".join(dict.fromkeys(str(step) for _, step in found)) or "not found"
        by = ", ".join(dict.fromkeys(check for check, _ in found)) or "–"
        print(f"| {name} | {after} | {by} | {tokens:.0f} |", flush=True)
        return found, share

    lies = found_lies = 0
    for name, lie in SAMPLES.items():
        if wanted(name):
            lies += 1
            found_lies += bool(row(name, lie, options)[0])
    for rate in arguments.rates:
        at = options if rate == "recipe" else [*options, "--set", f"learner.optimizer.learning_rate={rate}"]
        for name, lie in WEIGHTS.items():
            if wanted(name):
                lies += 1
                found_lies += bool(row(f"{name}, learning rate {'of the recipe' if rate == 'recipe' else rate}", lie, at)[0])
    honest = [row(f"honest, seed {seed}", lambda _: Lie(), options, seed) for seed in range(arguments.honest)]
    accused = sum(bool(found) for found, _ in honest)
    print(f"\n{found_lies} of {lies} lies were found; false alarms: {accused} of {len(honest)} honest runs")
    if honest:
        print(f"the audit takes {100 * sum(share for _, share in honest) / len(honest):.1f} % of a step in honest runs")
    return accused


if __name__ == "__main__":
    main()
