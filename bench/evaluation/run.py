#!/usr/bin/env python3
"""How busy evaluation keeps the embedded engine, beside training: python3 bench/evaluation/run.py [--binary PATH] [--problems 256]

Serves a fresh model (the recipe `arithmetic`) with `evenkeel serve engine`, in a process of its own, and asks it

- an evaluation: `evenkeel eval`, two benchmarks of sums with 8 samples for each problem, every answer verified and written;
- training: GRPO steps of the same recipe without an evaluation.

The engine says how long it had nothing to compute (`evenkeel_engine_idle_seconds_total`): a share of the time from the first token of the
evaluation to the last one. In training it has nothing to do while the learner trains, so that what it computed is compared with the seconds
of generation of all steps (`timing_s/gen`). Fails where the evaluation leaves the engine idle for 5 % of the time or more.
"""

import argparse
import json
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import build, free_port  # noqa: E402

LIMIT = 0.05
STEPS = 12
# Seconds between two looks at the engine.
INTERVAL = 0.01


def look(url):
    """Tokens that the engine has generated, and seconds in which it had nothing to compute."""
    text = urllib.request.urlopen(f"{url}/metrics", timeout=10).read().decode()
    value = lambda name: float(re.search(rf"^{name}\{{.*\}} (\S+)$", text, re.MULTILINE)[1])
    return value("vllm:generation_tokens_total"), value("evenkeel_engine_idle_seconds_total")


class Watch:
    """Polls the engine until it is stopped."""

    def __init__(self, url):
        self.url, self.seen, self.ended = url, [], threading.Event()
        self.thread = threading.Thread(target=self.watch)

    def watch(self):
        while not self.ended.is_set():
            self.seen.append((time.monotonic(), *look(self.url)))
            time.sleep(INTERVAL)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()

    def idle(self):
        """Share of the time between the first and the last token in which the engine had nothing to compute, and that time."""
        moves = [index for index in range(1, len(self.seen)) if self.seen[index][1] > self.seen[index - 1][1]]
        (began, _, before), (ended, _, after) = self.seen[moves[0]], self.seen[moves[-1]]
        return (after - before) / (ended - began), ended - began


def run(command):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(str(word) for word in command)}\nended with status {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def sums(path, first, problems):
    rows = ((first + number // 10, 10 + number % 10) for number in range(problems))
    path.write_text("".join(json.dumps({"prompt": f"{a}+{b}=\n", "answer": a + b}) + "\n" for a, b in rows))
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, help="evenkeel, instead of a build")
    parser.add_argument("--problems", type=int, default=256, help="of each of the two benchmarks")
    arguments = parser.parse_args()
    binary = arguments.binary or build("evenkeel")
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        run([binary, "model", "--recipe", "arithmetic", "--out", folder / "model"])
        url = f"http://127.0.0.1:{free_port()}"
        command = [binary, "serve", "engine", "--set", f"model={folder / 'model'}", "--set", f"listen={url[7:]}",
                   "--set", f"weights_roots=[\"{folder}\"]", "--set", "threads=2"]
        engine = subprocess.Popen([str(word) for word in command], stderr=(folder / "engine.log").open("w"))
        try:
            for _ in range(200):
                try:
                    urllib.request.urlopen(f"{url}/health", timeout=1)
                    break
                except OSError:
                    time.sleep(0.1)
            else:
                sys.exit(f"the engine does not serve:\n{(folder / 'engine.log').read_text()[-2000:]}")
            benchmarks = [f"{name}={sums(folder / f'{name}.jsonl', first, arguments.problems)}" for name, first in (("small", 10), ("large", 50))]
            with Watch(url) as watch:
                run([binary, "eval", "--model", folder / "model", "--engine", url, "--samples", "8", "--max-tokens", "80",
                     "--output", folder / "answers", *(word for name in benchmarks for word in ("--benchmark", name))])
            idle, seconds = watch.idle()
            _, before = look(url)
            settings = (f'generation.endpoints=["{url}"]', f'model.path="{folder / "model"}"', "warm_start.steps=0", "evaluation.problems=0")
            began = time.monotonic()
            run([binary, "train", "--recipe", "arithmetic", "--steps", STEPS, "--out", folder / "run",
                 *(word for setting in settings for word in ("--set", setting))])
            # A request of one token, so that the wait since the last one is counted.
            body = json.dumps({"prompt": [3], "max_tokens": 1}).encode()
            urllib.request.urlopen(urllib.request.Request(f"{url}/v1/completions", body, {"content-type": "application/json"}), timeout=10).read()
            (_, after), whole = look(url), time.monotonic() - began
            lines = [json.loads(line) for line in (folder / "run/metrics.jsonl").read_text().splitlines()]
            generation = sum(line["timing_s/gen"] for line in lines)
        finally:
            engine.send_signal(signal.SIGTERM)
            engine.wait()
    print(f"evaluation: {2 * arguments.problems * 8} samples in {seconds:.1f} s, the engine idle for {idle:.1%} (limit {LIMIT:.0%})")
    print(f"training:   {STEPS} steps, {generation:.1f} s of generation, the engine idle for {1 - (whole - after + before) / generation:.1%}")
    sys.exit(idle >= LIMIT)


if __name__ == "__main__":
    main()
