#!/usr/bin/env python3
"""What a receipt and a replay cost: python3 bench/replay/run.py [--run RUN] [--binaries FOLDER] [--steps 5] [--rules token,sequence,dr-grpo]

Trains `arithmetic` with all samples kept, or takes RUN, a run that kept its tokens and has the weights from before its first step. Three numbers:

- the receipt: the time of a step's line, made again from what was recorded, beside the time of the step (limit 0.5 %);
- judging again: `evenkeel replay` beside `evenkeel verify math` on the same answers through a reward service, whose CPU time counts, and in one process;
  rows a second of CPU time (limit 0.5 of the first);
- weighing again: CPU time of a further rule at a step beside that of the step's update, which is done again in the same command (limit 3; the aim is 1).

Commands of one comparison take turns. Ends with status 1 beyond a limit.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import build, cpu_seconds, free_port  # noqa: E402

TURNS = 3
LIMITS = {"receipt": 0.005, "judge": 0.5, "weigh": 3.0}
RULES = "learner.objective.aggregation="


def call(*command, output=None, allowed=(0,)):
    """Runs a command. Returns its CPU seconds and its output, which is shown only if it fails."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([str(word) for word in command], stdout=output or subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in allowed:
        sys.exit(f"{' '.join(map(str, command))} ended with status {done.returncode}:\n{(done.stdout or '')[-2000:]}{done.stderr[-4000:]}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def least(*commands):
    """The least CPU seconds of each command over some turns: other programs only add."""
    turns = [[call(*command)[0] for command in commands] for _ in range(TURNS)]
    return [min(of_command) for of_command in zip(*turns)]


def trained(binary, folder):
    settings = ["run.rollout_tokens=true", "checkpoint.keep=0", "evaluation.problems=0", "page.listen=off"]
    call(binary, "train", "arithmetic", "--out", folder / "run", *(word for value in settings for word in ("--set", value)))
    return folder / "run"


def judging(binary, bench, run, folder):
    """Rows a second of CPU time: of a replay, of verify with a reward service, and of verify alone."""
    rows = folder / "answers.jsonl"
    with rows.open("w") as output:
        call(bench, "recorded", "answers", run, output=output)
    count = sum(1 for _ in rows.open())
    verify = (binary, "verify", "math", "--input", rows, "--output", folder / "verdicts.jsonl")
    address = f"127.0.0.1:{free_port()}"
    service = subprocess.Popen([binary, "serve", "reward", "--set", f"server.listen={address}"], stderr=subprocess.DEVNULL)
    try:
        call(*verify, "--endpoint", f"http://{address}")
        before = cpu_seconds(service)
        replay, client, alone = least((binary, "replay", run), (*verify, "--endpoint", f"http://{address}"), verify)
        served = client + (cpu_seconds(service) - before) / TURNS
    finally:
        service.kill()
        service.wait()
    return count, *(count / seconds for seconds in (replay, served, alone))


def weighing(binary, run, steps, rules):
    """CPU seconds of a step's update and of a further rule at it."""

    def replay(last, rules):
        return binary, "replay", run, "--set", RULES + ",".join(rules), "--steps", f"1..{last}"

    # The rule of the run is always among them. What comes once is in each command.
    one, first, more = least(replay(1, rules[:1]), replay(steps, rules[:1]), replay(steps, rules))
    rule = (more - first) / steps / (len(rules) - 1)
    # Two rules were computed besides the update: that of the run, and the first that was asked for.
    return (first - one) / (steps - 1) - 2 * rule, rule


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path)
    parser.add_argument("--binaries", type=Path, help="folder with evenkeel and evenkeel-bench, instead of a build")
    parser.add_argument("--steps", type=int, default=5, help="steps that are weighed")
    parser.add_argument("--rules", default="token,sequence,dr-grpo", help="none of them that of the run")
    arguments = parser.parse_args()
    if arguments.binaries:
        binary, bench = (arguments.binaries / name for name in ("evenkeel", "evenkeel-bench"))
    else:
        binary, bench = build("evenkeel", "evenkeel-bench")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        run = arguments.run or trained(binary, folder)
        receipt = json.loads(call(bench, "recorded", "receipt", run)[1])
        share, largest = receipt["share"], receipt["largest_share"]
        print(f"receipt: {1e3 * receipt['seconds']:.2f} ms of a step of {receipt['step_seconds']:.2f} s, {100 * share:.3f} %", end="")
        print(f" (at most {100 * largest:.3f} %), {receipt['steps']} steps", flush=True)
        count, replayed, served, alone = judging(binary, bench, run, folder)
        judge = replayed / served
        print(f"judging again: {replayed:.0f} rows a CPU second; verify with a service {served:.0f}, alone {alone:.0f}", end="")
        print(f" ({judge:.2f} and {replayed / alone:.2f} of them); {count} rows", flush=True)
        update, rule = weighing(binary, run, arguments.steps, arguments.rules.split(","))
        weigh = rule / update
        print(f"weighing again: {rule:.2f} s of CPU for a rule, {update:.2f} for the update, {weigh:.2f} of it", flush=True)
    beyond = [share > LIMITS["receipt"], judge < LIMITS["judge"], weigh > LIMITS["weigh"]]
    if any(beyond):
        sys.exit("beyond a limit")


if __name__ == "__main__":
    main()
