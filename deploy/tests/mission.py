"""All of it at once: a real vLLM on the CPU, mathematics and programs mixed, reward workers from one to three while the run goes on, and a
client that knows nothing but reflection watching. Without VLLM_IMAGE, VLLM_ENV and VLLM_PYTHON (docs/deployment.md) this is said and left out.
"""
import json, os, re, threading, urllib.request

from calls import Reflected
from stack import Stack, check

RECIPE = """
base = "arithmetic"

[run]
steps = 120

[data]
kind = "files"
program_prompt = "plain"

[[data.sources]]
name = "mathematics"
files = ["data/mathematics.jsonl"]

[[data.sources]]
name = "programs"
files = ["data/programs.jsonl"]

[reward.code]
deterministic = true

[sampling]
prompts_per_step = 4
group_size = 8
max_tokens = 48

[warm_start]
steps = 200
examples_per_step = 32

[learner.supervised]
total_updates = 200

[evaluation]
problems = 16

[checkpoint]
every = 4
"""
WORKERS = 3


def mathematics():
    for a in range(1, 13):
        for b in range(1, 13):
            yield {"problem": f"{a}+{b}=", "answer": str(a + b), "demonstration": f"\\boxed{{{a + b}}}"}


def programs():
    for name, sign, result in [("add", "+", int.__add__), ("times", "*", int.__mul__), ("less", "-", int.__sub__)]:
        for n in range(1, 41):
            tests = [{"input": str(x), "output": str(result(x, n))} for x in (1, 7)]
            yield {"prompt": f"{name} {n}:", "tests": tests, "demonstration": f"```python\nprint(int(input()){sign}{n})\n```"}


class Watcher(threading.Thread):
    """Follows a run from its first line."""

    def __init__(self, stack):
        super().__init__(daemon=True)
        self.stack, self.lines, self.error = stack, [], None

    def run(self):
        try:
            with Reflected(self.stack.address()) as client:
                self.lines.extend(client.start("evenkeel.v1.Orchestrator/WatchRun", {"run_id": "mixed", "from_step": 0}, 3600))
        except Exception as error:  # noqa: BLE001: reported by the test
            self.error = error


def judged(stack):
    """Verdicts of each worker by task."""
    counts = []
    for address in stack.inner("reward", 9090):
        text = urllib.request.urlopen(f"http://{address}/metrics", timeout=10).read().decode()
        of = lambda task: sum(float(value) for value in re.findall(rf'^evenkeel_verdicts_total{{.*task="{task}".*}} (\S+)$', text, re.M))
        counts.append({"math": of("math"), "code": of("code")})
    return counts


def run():
    if not {"VLLM_IMAGE", "VLLM_ENV", "VLLM_PYTHON"} <= set(os.environ):
        return "left out: VLLM_IMAGE, VLLM_ENV and VLLM_PYTHON name no vLLM"
    with Stack("mission", files=["deploy/compose.vllm-cpu.yml"], EVENKEEL_RECIPE="data/mixed.toml") as stack:
        (stack.folder / "mixed.toml").write_text(RECIPE)
        for name, rows in [("mathematics", mathematics()), ("programs", programs())]:
            (stack.folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        stack.up()
        # `up` waits until vLLM has loaded.
        return watched(stack)


def watched(stack):
    """The run, from its start to its end."""
    stack.wait_for("the run", lambda: stack.run("mixed"), 60)
    engine = stack.orchestrator("GetStatus")
    check(all(one.get("connected") for one in engine["dependencies"]), f"{engine['dependencies']}")
    watcher = Watcher(stack)
    watcher.start()
    stack.wait_for("step 2", lambda: (run := stack.run("mixed")) and int(run.get("step", 0)) >= 2, 1200, 1)
    stack.up("--no-recreate", "--no-deps", "--scale", f"reward={WORKERS}", "reward")
    at = int(stack.run("mixed").get("step", 0))
    # Those that were added need something to judge.
    check(at < 100, f"the run is at step {at} already")
    run = stack.wait_for_end(1800, "mixed")
    check(run["state"] == "RUN_STATE_COMPLETED", f"{run}")
    watcher.join(60)
    check(not watcher.is_alive() and watcher.error is None, f"the watcher: {watcher.error or 'its stream did not end with the run'}")
    steps = [line for line in stack.metrics("mixed") if line["kind"] == "train"]
    seen = [line for line in watcher.lines if line["kind"] == "STEP_KIND_TRAIN"]
    check([int(line.get("step", 0)) for line in seen] == [line["step"] for line in steps], f"{len(seen)} steps were watched, {len(steps)} written")
    for source in ("mathematics", "programs"):
        rewards = [line[f"data_source/{source}/score/mean"] for line in steps]
        check(any(0 < reward < 1 for reward in rewards), f"nothing of {source} is learnt from: {rewards}")
    counts = judged(stack)
    check(len(counts) == WORKERS and all(one["math"] and one["code"] for one in counts), f"verdicts by worker: {counts}")
    workers = ", ".join(f"{one['math']:.0f} + {one['code']:.0f}" for one in counts)
    return f"{len(steps)} steps with vLLM, watched; from one to {WORKERS} workers after step {at}; answers + programs by worker: {workers}"
