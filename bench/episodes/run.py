#!/usr/bin/env python3
"""What episodes cost: python3 bench/episodes/run.py [--binary evenkeel] [--episodes 1024] [--slots 64]

    pip install grpcio protobuf

Each service is a process of its own; the engine and the environment are simulated by this program, so that nothing computes but the run.

1. CPU time of the orchestrator in a step with so many episodes of eight turns, whose environment takes 0 to 2 s for each, drawn anew. Printed as
   a share of what the cores of this machine could have computed in the step, and of all services together. Exits with 1 at 2 % or more.
2. Load of an engine with so many slots, a turn taking 250 ms of one, with environments of 100 ms, beside the same number of turns as single
   answers. Exits with 1 below 0.95 of that load.
"""

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import ROOT, build, free_port  # noqa: E402
from services import Services, tail  # noqa: E402

try:
    import grpc
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
except ImportError:
    sys.exit("grpcio and protobuf are not installed: pip install grpcio protobuf")

MOST_CPU, LEAST_LOAD = 0.02, 0.95
TURNS, TOKENS, GROUP, STEPS = 8, 24, 16, 3
TEMPLATE = (
    "{% for t in tools or [] %}[{{ t.function.name }}]{% endfor %}{% for m in messages %}{{ m.role }}\n{{ m.content }}"
    "{% for c in m.tool_calls or [] %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}<eos>\n{% endfor %}"
    "{% if add_generation_prompt %}assistant\n{% endif %}"
)
RECIPE = """
[run]
seed = 1
steps = {steps}
rollouts = "off"

[model.fresh]
hidden_size = 32
intermediate_size = 32
layers = 1
heads = 1
context_tokens = 1024

[data]
{environment}

[turns]
max_turns = {most}

[sampling]
prompts_per_step = {prompts}
group_size = {group}
max_tokens = 640

[evaluation]
problems = 16
before = false
after = false

[proof]
every = 0

[sampler_audit]
mode = "off"

[learner]
old_logp = "rollout"
"""


class Messages:
    """The messages of the protocol, from its descriptors."""

    def __init__(self):
        files = descriptor_pb2.FileDescriptorSet.FromString((ROOT / "proto/src/generated/evenkeel.v1.binpb").read_bytes())
        pool = descriptor_pool.DescriptorPool()
        for file in files.file:
            pool.Add(file)
        self.of = lambda name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"evenkeel.v1.{name}"))


class Simulated:
    """An engine with slots and an environment with delays, in a thread of their own."""

    def __init__(self, ports, status, messages, slots, turn_seconds, delay, turns):
        self.ports, self.status, self.messages, self.turns = ports, status, messages, turns
        self.slots, self.turn_seconds, self.delay = slots, turn_seconds, delay
        self.version, self.random = "default", random.Random(1)
        self.busy, self.busy_seconds, self.changed, self.answered = 0, 0.0, time.monotonic(), 0
        ready = threading.Event()
        threading.Thread(target=lambda: asyncio.run(self.serve(ready)), daemon=True).start()
        ready.wait()

    async def serve(self, ready):
        self.free = asyncio.Semaphore(self.slots)
        http = await asyncio.start_server(self.connection, "127.0.0.1", self.ports[0], backlog=4096)
        server = grpc.aio.server()
        one, other = self.messages.of("EnvironmentRequest"), self.messages.of("EnvironmentGetStatusRequest")
        handlers = {
            "Run": grpc.stream_stream_rpc_method_handler(self.run, one.FromString, lambda event: event.SerializeToString()),
            "GetStatus": grpc.unary_unary_rpc_method_handler(self.get_status, other.FromString, lambda status: status.SerializeToString()),
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("evenkeel.v1.Environment", handlers),))
        server.add_insecure_port(f"127.0.0.1:{self.ports[1]}")
        await server.start()
        ready.set()
        await http.serve_forever()

    def load(self):
        """Slot seconds so far."""
        now = time.monotonic()
        return self.busy_seconds + self.busy * (now - self.changed)

    def change(self, by):
        now = time.monotonic()
        self.busy_seconds += self.busy * (now - self.changed)
        self.busy, self.changed = self.busy + by, now

    async def get_status(self, _, __):
        return self.status

    async def run(self, requests, call):
        # Headers at once: the orchestrator waits for them before it sends anything.
        await call.send_initial_metadata(())
        events, tasks = asyncio.Queue(), set()
        make, observed, message = (self.messages.of(name) for name in ("EnvironmentEvent", "Observed", "EnvironmentMessage"))

        def said(request, **kind):
            events.put_nowait(make(episode_id=request.episode_id, attempt=request.attempt, **kind))

        def score(request):
            right = self.random.random() < 0.5
            verdict = self.messages.of("Verdict")(id=request.episode_id, reason_code="simulated", reward=float(right))
            verdict.outcome = 1 if right else 2
            said(request, scored=self.messages.of("Scored")(verdict=verdict))

        async def step(act):
            pause = self.delay(self.random)
            await asyncio.sleep(pause)
            done = act.turn >= self.turns
            answer = [] if done else [message(role=2, content=f"{act.turn}", tool_call_id="call_1_1", name="calculator")]
            said(act, observed=observed(turn=act.turn, messages=answer, done=done, work_us=int(pause * 1e6)))
            if done:
                score(act)

        async def read():
            async for request in requests:
                kind = request.WhichOneof("kind")
                if kind == "open":
                    said(request.open, opened=self.messages.of("Opened")())
                elif kind == "act":
                    task = asyncio.create_task(step(request.act))
                    tasks.add(task)
                    task.add_done_callback(tasks.discard)
                elif kind == "close" and request.close.reason == 1:
                    score(request.close)
            events.put_nowait(None)

        reader = asyncio.create_task(read())
        while (event := await events.get()) is not None:
            yield event
        await reader

    async def connection(self, reader, writer):
        try:
            while line := await reader.readline():
                method, path, _ = line.decode().split(" ", 2)
                length = 0
                while (header := await reader.readline()).strip():
                    name, _, value = header.decode().partition(":")
                    if name.lower() == "content-length":
                        length = int(value)
                body = await reader.readexactly(length) if length else b""
                status, answer = await self.answer(method, path.partition("?")[0], body)
                head = f"HTTP/1.1 {status} -\r\ncontent-type: application/json\r\ncontent-length: {len(answer)}\r\n\r\n"
                writer.write(head.encode() + answer)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def answer(self, method, path, body):
        if path == "/v1/completions":
            return 200, await self.completion(json.loads(body))
        if path == "/update_weight_version":
            self.version = json.loads(body)["new_version"]
        model = {"id": "m", "object": "model", "root": "/nowhere/m", "max_model_len": 1024}
        known = {
            "/health": {}, "/version": {"version": "0.32.0"}, "/v1/models": {"object": "list", "data": [model]},
            "/weight_info": {"weight_version": self.version}, "/is_paused": {"is_paused": False}, "/is_sleeping": {"is_sleeping": False},
        }
        return (404 if method == "GET" and path not in known else 200), json.dumps(known.get(path, {})).encode()

    async def completion(self, request):
        most, is_certain = request["max_tokens"], request.get("top_k") == 1
        count = most if is_certain else min(most, TOKENS)
        if not is_certain:
            async with self.free:
                self.change(1)
                await asyncio.sleep(self.turn_seconds)
                self.change(-1)
            self.answered += 1
        ids = [4 + place * 7 % 90 for place in range(count)]
        ends = not is_certain and most >= TOKENS
        if ends:
            # A turn of its own each time: equal answers would be found out.
            ids = [4 + self.random.randrange(90) for _ in range(count - 1)] + [1]
        logp = [0.0 if is_certain else -4.5] * count
        logprobs = {"text_offset": [0] * count, "token_logprobs": logp, "tokens": [str(token) for token in ids], "top_logprobs": None}
        choice = {"index": 0, "text": "", "finish_reason": "stop" if ends else "length", "stop_reason": None, "token_ids": ids,
                  "logprobs": logprobs, "prompt_token_ids": None}
        usage = {"prompt_tokens": 8, "completion_tokens": count, "total_tokens": 8 + count}
        return json.dumps({"id": "c", "object": "text_completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}).encode()


def real_status(binary, folder, messages):
    """What a worker of this program says of its environments, which simulated ones must have as well."""
    port = free_port()
    with (folder / "environment.log").open("ab") as log:
        worker = subprocess.Popen([binary, "serve", "environment", "--set", f"server.listen=127.0.0.1:{port}"], stdout=log, stderr=log)
    try:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            answer = messages.of("EnvironmentGetStatusResponse").FromString
            call = channel.unary_unary("/evenkeel.v1.Environment/GetStatus", lambda message: message.SerializeToString(), answer)
            status = call(messages.of("EnvironmentGetStatusRequest")(), timeout=60, wait_for_ready=True)
    except grpc.RpcError as error:
        sys.exit(f"the environment worker does not answer: {error.details()}\n{tail(folder / 'environment.log')}")
    finally:
        worker.kill()
        worker.wait()
    status.max_episodes = 1 << 20
    return status


def cpu_seconds(process):
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measured(binary, episodes, slots, turn_seconds, delay, turns):
    """Wall time of the last steps, CPU time of each service, slot seconds of the engine while they were sampled, and the time of that."""
    with tempfile.TemporaryDirectory() as folder:
        folder, messages = Path(folder), Messages()
        recipe, model = folder / "episodes.toml", folder / "model"
        environment = 'environment = "calculator"' if turns > 1 else 'suffix = ""'
        prompts = episodes // GROUP
        recipe.write_text(RECIPE.format(steps=STEPS, environment=environment, most=turns + 1, prompts=prompts, group=GROUP))
        subprocess.run([binary, "model", "--recipe", recipe, "--out", model], check=True, stdout=subprocess.DEVNULL)
        (model / "chat_template.jinja").write_text(TEMPLATE)
        status, port = real_status(binary, folder, messages), free_port()
        services = Services(binary, folder, recipe, model, own_engine=False)
        simulated = Simulated((services.ports["engine"], port), status, messages, slots, turn_seconds, delay, turns)
        services.settings["orchestrator"].append(f'endpoints.environment=["http://127.0.0.1:{port}"]')
        services.settings["generation"].append(f"max_in_flight={max(slots * 2, episodes)}")
        with services:
            return observe(services, simulated, folder / "runs", episodes * turns)


def observe(services, simulated, runs, turns):
    def lines():
        return sum(path.read_text().count('"kind":"train"') for path in runs.glob("*/metrics.jsonl"))

    def sample():
        return time.monotonic(), {name: cpu_seconds(process) for name, process in services.processes.items()}

    # The first step has the start in it.
    while lines() < 1:
        services.check()
        time.sleep(0.02)
    began, before = sample()
    first, sampling, slot_seconds = simulated.answered, 0.0, 0.0
    for step in range(1, STEPS):
        while simulated.answered < first + (step - 1) * turns + 1:
            services.check()
            time.sleep(0.005)
        at, load = time.monotonic(), simulated.load()
        while simulated.answered < first + step * turns:
            services.check()
            time.sleep(0.005)
        sampling += time.monotonic() - at
        slot_seconds += simulated.load() - load
        while lines() < step + 1:
            if any(process.poll() not in (None, 0) for process in services.processes.values()):
                services.check()
            time.sleep(0.02)
    ended, after = sample()
    return ended - began, {name: after[name] - before[name] for name in after}, slot_seconds, sampling


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, help="evenkeel, instead of a build")
    parser.add_argument("--episodes", type=int, default=1024)
    parser.add_argument("--slots", type=int, default=64)
    arguments = parser.parse_args()
    binary = arguments.binary.resolve() if arguments.binary else build("evenkeel")
    episodes, slots, cores = arguments.episodes, arguments.slots, os.cpu_count()

    wall, cpu, _, _ = measured(binary, episodes, episodes, 0.2, lambda draw: draw.uniform(0.0, 2.0), TURNS)
    share, of_all = cpu["orchestrator"] / (wall * cores), cpu["orchestrator"] / sum(cpu.values())
    steps = STEPS - 1
    print(f"{episodes} episodes of {TURNS} turns, environments of 0 to 2 s: {wall / steps:.1f} s a step, of which the orchestrator computed "
          f"{cpu['orchestrator'] / steps:.2f} s: {100 * share:.2f} % of {cores} cores, {100 * of_all:.0f} % of all services")

    loads = {}
    for turns, delay in ((1, 0.0), (TURNS, 0.1)):
        several = 8 * slots * TURNS // turns
        _, _, slot_seconds, seconds = measured(binary, several, slots, 0.25, lambda _: delay, turns)
        loads[turns] = slot_seconds / (slots * seconds)
        print(f"{several} episodes of {turns} turn{'s' * (turns > 1)}: the engine's {slots} slots are busy {100 * loads[turns]:.1f} % of the time")
    ratio = loads[TURNS] / loads[1]
    print(f"load beside single answers: {ratio:.3f}")
    sys.exit(0 if share < MOST_CPU and ratio >= LEAST_LOAD else 1)


if __name__ == "__main__":
    main()
