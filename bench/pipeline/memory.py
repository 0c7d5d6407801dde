#!/usr/bin/env python3
"""The memory of rollouts that wait for the learner: python3 bench/pipeline/memory.py [--binary evenkeel] [--samples 2048] [--tokens 8192]

Starts a run with a lag of 1, each service a process of its own, with an engine that answers from memory. The learner is stopped (SIGSTOP) at
the first sample, so that the rollouts of two steps wait in the orchestrator: half of the samples in each. Printed is by how much its resident
memory has grown once all of them are there, and by how much at most on the way. Exits with 1 above 400 MiB.
"""

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import build  # noqa: E402
from services import Services  # noqa: E402

LIMIT_MIB = 400
GROUP = 16
RECIPE = """
[run]
seed = 1
steps = 2

[model.fresh]
hidden_size = 32
intermediate_size = 32
layers = 1
heads = 1
context_tokens = {context}

[sampling]
prompts_per_step = {prompts}
group_size = {group}
max_tokens = {tokens}

[pipeline]
max_lag = 1

[evaluation]
problems = 16
before = false
after = false

[proof]
every = 0

[learner]
old_logp = "rollout"
"""


class Engine(ThreadingHTTPServer):
    """What a run needs of vLLM's API. Every answer has as many tokens as it may have."""

    daemon_threads = True
    request_queue_size = 1024

    def __init__(self, port):
        super().__init__(("127.0.0.1", port), Answers)
        self.version, self.bodies, self.lock, self.answered = "default", {}, threading.Lock(), 0
        self.began = threading.Event()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def completion(self, request):
        # The probe expects certainty.
        most, is_certain = request["max_tokens"], request.get("top_k") == 1
        with self.lock:
            key = (most, is_certain)
            if key not in self.bodies:
                self.bodies[key] = completion(most, is_certain)
            self.answered += not is_certain
        if not is_certain:
            self.began.set()
        return self.bodies[key]


def completion(most, is_certain):
    ids = [4 + place * 7 % 90 for place in range(most)]
    logp = [0.0 if is_certain else -token / 64 - 0.123456789 for token in ids]
    texts = [str(token) for token in ids]
    logprobs = {"text_offset": [0] * most, "token_logprobs": logp, "tokens": texts, "top_logprobs": None}
    choice = {"index": 0, "text": "", "finish_reason": "length", "stop_reason": None, "token_ids": ids, "logprobs": logprobs, "prompt_token_ids": None}
    usage = {"prompt_tokens": 8, "completion_tokens": most, "total_tokens": 8 + most}
    return json.dumps({"id": "c", "object": "text_completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}).encode()


class Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        model = {"id": "m", "object": "model", "root": "/nowhere/m", "max_model_len": 65536}
        known = {
            "/health": {}, "/version": {"version": "0.32.0"}, "/v1/models": {"object": "list", "data": [model]},
            "/weight_info": {"weight_version": self.server.version}, "/is_paused": {"is_paused": False}, "/is_sleeping": {"is_sleeping": False},
        }
        path = self.path.partition("?")[0]
        self.answer(200 if path in known else 404, json.dumps(known.get(path, {})).encode())

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        path = self.path.partition("?")[0]
        if path == "/v1/completions":
            return self.answer(200, self.server.completion(json.loads(body)))
        if path == "/update_weight_version":
            self.server.version = json.loads(body)["new_version"]
        self.answer(200, b"{}")

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def resident_mib(process, what="VmRSS"):
    for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith(what):
            return int(line.split()[1]) / 1024
    sys.exit(f"no {what} of the orchestrator")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, help="evenkeel, instead of a build")
    parser.add_argument("--samples", type=int, default=2048)
    parser.add_argument("--tokens", type=int, default=8192)
    arguments = parser.parse_args()
    binary = arguments.binary.resolve() if arguments.binary else build("evenkeel")
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        recipe, model = folder / "memory.toml", folder / "model"
        prompts = arguments.samples // 2 // GROUP
        recipe.write_text(RECIPE.format(context=arguments.tokens + 256, prompts=prompts, group=GROUP, tokens=arguments.tokens))
        subprocess.run([binary, "model", "--recipe", recipe, "--out", model], check=True, stdout=subprocess.DEVNULL)
        with Services(binary, folder, recipe, model, own_engine=False) as services:
            engine, orchestrator = Engine(services.ports["engine"]), services.processes["orchestrator"]
            while not engine.began.wait(0.1):
                services.check()
            services.processes["learner"].send_signal(signal.SIGSTOP)
            before = resident_mib(orchestrator)
            # What is in flight settles once the last answer is verified.
            last = (0, 0.0)
            while engine.answered < arguments.samples or abs(resident_mib(orchestrator) - last[1]) > 0.5:
                last = (engine.answered, resident_mib(orchestrator))
                time.sleep(2.0)
                services.check()
            grown, most = resident_mib(orchestrator) - before, resident_mib(orchestrator, "VmHWM") - before
    tokens = 2 * prompts * GROUP * arguments.tokens
    print(f"{2 * prompts * GROUP} rollouts of {arguments.tokens} tokens wait: {grown:.0f} MiB, {most:.0f} MiB at most on the way "
          f"(ids and log-probabilities alone are {tokens * 8 / 2**20:.0f}; limit {LIMIT_MIB})")
    sys.exit(0 if most <= LIMIT_MIB else 1)


if __name__ == "__main__":
    main()
