#!/usr/bin/env python3
"""The recipe `arithmetic` beside its PyTorch peer, on this machine, in one run.

    python3 bench/arithmetic/run.py [ROUNDS]

Both sides train the same Qwen3 (308,064 parameters, tied head) on two threads: a warm start of 400 steps on 64 demonstrations, then 40
GRPO steps on 16 prompts x 16 samples. They take turns; the ratio of the medians over rounds (default 2) is what counts.

- warm start: seconds of a supervised step.
- step: seconds of generation plus training of a GRPO step, and the same for each sampled token, since the tasks differ in length. Ours
  is `timing_s/step`, so that it has gRPC, verification, files and the switch of weights in it; the peer's is only generation and
  training.
- dapo step: the same with four updates a step on both sides, of 4 prompts with their 16 samples each, and old log-probabilities
  recomputed: the recipe `dapo` with dapo.toml over it, and dapo_peer.py.
- services: CPU time for a step of the threads that carry gRPC, HTTP, verification and the loop, beside the CPU time of the peer's whole
  step, which has none of them. Its part of our own step is printed too, without a limit: it is the larger, the faster a processor multiplies
  matrices.
- memory: the process's highest resident size.

TORCH_PYTHON is a Python with torch and transformers (default: the one of ../shared/tools/vllm-cpu if that exists, else python3);
PEER is the PyTorch program (default ../shared/reference/tiny_grpo.py).
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import ROOT, build, torch_python  # noqa: E402

PEER = Path(os.environ.get("PEER", ROOT.parent / "shared/reference/tiny_grpo.py"))
WARM_START, STEPS = 400, 40
LIMITS = {"warm start": 0.7, "step": 0.5, "step, each token": 0.5, "dapo step": 0.5, "dapo step, each token": 0.5}
HERE = Path(__file__).resolve().parent
SERVICES_LIMIT, MEMORY_LIMIT_MIB = 0.08, 1024
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_ticks(pid, seen):
    """Updates `seen`, CPU ticks by (thread, whether it carries the services). A thread that has ended keeps its last value: without it
    the sums would fall when one ends, and a difference of two of them could be below zero."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            name, _, rest = (task / "stat").read_text().partition("(")[2].rpartition(")")
        except (FileNotFoundError, ProcessLookupError):
            continue
        carries = name.startswith("tokio") or task.name == str(pid)
        seen[task.name, carries] = sum(int(field) for field in rest.split()[11:13])


def ours(binary, folder, recipes=(), name="step"):
    out = Path(folder) / name.replace(" ", "-")
    settings = [f"warm_start.steps={WARM_START}", f"learner.supervised.total_updates={WARM_START}", "model.fresh.tied=true",
                "evaluation.problems=0"]
    command = [binary, "train", "--out", out, "--steps", str(STEPS), *(word for s in settings for word in ("--set", s)),
               *(word for recipe in recipes for word in ("--recipe", recipe))]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    metrics, begin, ticks, peak = out / "metrics.jsonl", None, {}, 0
    while process.poll() is None:
        try:
            cpu_ticks(process.pid, ticks)
            if begin is None and metrics.exists() and metrics.stat().st_size:
                begin = dict(ticks)
            status = Path(f"/proc/{process.pid}/status").read_text()
            peak = max(peak, int(status.partition("VmHWM:")[2].split()[0]))
        except (FileNotFoundError, ProcessLookupError, IndexError):
            pass
        time.sleep(0.05)
    if process.returncode:
        sys.exit(f"{' '.join(map(str, command))} ended with {process.returncode}")
    read = lambda name: [json.loads(line) for line in (out / name).read_text().splitlines()]
    steps, warm = read("metrics.jsonl"), read("warm_start.jsonl")
    seconds = [step["timing_s/step"] for step in steps]
    tokens = sum(step["response_length/mean"] * step["rollout/samples"] for step in steps)
    spent = {thread: count - begin.get(thread, 0) for thread, count in ticks.items()}
    carry, total = sum(count for (_, carries), count in spent.items() if carries), sum(spent.values())
    return {"warm start": statistics.mean(line["timing_s/step"] for line in warm), name: statistics.mean(seconds),
            f"{name}, each token": sum(seconds) / tokens, "services": carry / TICKS / STEPS, "CPU": total / TICKS / STEPS, "memory": peak / 1024}


def peer(python, program=PEER, name="step"):
    command = [*python, program, "--steps", str(STEPS), "--warm-start-steps", str(WARM_START)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=os.environ | {"PEER": str(PEER)})
    lines, ticks = [json.loads(process.stdout.readline() or "null")], {}
    cpu_ticks(process.pid, ticks)
    lines += [json.loads(line) for line in process.stdout]
    _, status, usage = os.wait4(process.pid, 0)
    if status or not lines[0]:
        sys.exit(f"{' '.join(map(str, command))} ended with {status}")
    spent = usage.ru_utime + usage.ru_stime - sum(ticks.values()) / TICKS
    seconds = lines[-1]["generation_s"] + lines[-1]["training_s"]
    return {"warm start": lines[0]["warm_start_s"] / WARM_START, name: seconds / STEPS, f"{name}, each token": seconds / lines[-1]["tokens"],
            "CPU": spent / STEPS}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rounds", type=int, nargs="?", default=2)
    rounds = parser.parse_args().rounds
    binary, python, theirs, mine = build("evenkeel"), torch_python(), [], []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds):
            theirs.append(peer(python, HERE / "dapo_peer.py", "dapo step") | peer(python))
            place = Path(folder) / str(number)
            mine.append(ours(binary, place, ["dapo", HERE / "dapo.toml"], "dapo step") | ours(binary, place))
    middle = lambda side, name: statistics.median(run[name] for run in side)
    ok = True
    print("| what | PyTorch | Evenkeel | ratio | limit |\n|---|---|---|---|---|")
    for name, limit in LIMITS.items():
        a, b = middle(theirs, name), middle(mine, name)
        ok &= b / a <= limit
        unit, scale = ("us", 1e6) if "token" in name else ("ms", 1e3)
        print(f"| {name} | {scale * a:.1f} {unit} | {scale * b:.1f} {unit} | {b / a:.2f} | {limit} {'ok' if b / a <= limit else 'TOO SLOW'} |")
    services, total, whole, memory = middle(mine, "services"), middle(mine, "CPU"), middle(theirs, "CPU"), max(run["memory"] for run in mine)
    part = services / whole
    ok &= part <= SERVICES_LIMIT and memory <= MEMORY_LIMIT_MIB
    good = "ok" if part <= SERVICES_LIMIT else "TOO MUCH"
    print(f"| services, CPU time of a step | {1e3 * whole:.0f} ms | {1e3 * services:.0f} ms of {1e3 * total:.0f} ms | {part:.3f} | {SERVICES_LIMIT} {good} |")
    print(f"| peak memory | – | {memory:.0f} MiB | – | {MEMORY_LIMIT_MIB} MiB {'ok' if memory <= MEMORY_LIMIT_MIB else 'TOO MUCH'} |")
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
