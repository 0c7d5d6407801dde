#!/usr/bin/env python3
"""Serves reward functions of a Python file to Evenkeel: one file, which needs grpcio and protobuf.

    pip install "grpcio>=1.60" "protobuf>=4.25"
    python evenkeel_verifier.py reward.py --listen 127.0.0.1:50060

A run starts it by itself where its recipe has `data.verifiers.NAME.path = "reward.py"`. The file has one of

    def reward(completion, row) -> float | None             # one completion, and the columns of its row
    def reward_batch(completions, rows) -> list              # several at once; not those of one group
    def reward(prompts, completions, **columns) -> list      # as trl.GRPOTrainer calls it
    def compute_score(data_source, solution_str, ground_truth, extra_info=None) -> float | dict   # as verl calls it

`completion` is a str with `.token_ids` and `.finish_reason` ("stop", "length"). None, NaN, an exception, a crash and a call that takes too
long are no reward: the sample is left out, with the reason, and never counts as wrong. A file of one's own may also serve itself:

    from evenkeel_verifier import serve
    serve(reward)
"""

import argparse
import hashlib
import importlib.util
import inspect
import json
import math
import os
import queue
import subprocess
import sys
import threading
import traceback

DEFAULTS = ("reward", "reward_batch", "compute_score")
MAX_BATCH = 64
MAX_DETAIL = 400
MAX_COMPONENTS = 30
RESERVED = ("correctness", "length", "format")
FINISH = {1: "stop", 2: "length", 3: "repetition"}
CORRECT, INCORRECT, INVALID = 1, 2, 11
# The functions were called as often as they may be: another request would fail alike.
ATTEMPTS_EXHAUSTED = 13


class Completion(str):
    """The text that the policy sampled, with its tokens and why it ended."""

    token_ids: list
    finish_reason: str

    def __new__(cls, text, token_ids=(), finish_reason=""):
        self = super().__new__(cls, text)
        self.token_ids = list(token_ids)
        self.finish_reason = finish_reason
        return self


# ---- The process that calls the functions.


class Function:
    """A function and how it is called, which its parameters say."""

    def __init__(self, name, call):
        self.name, self.call = name, call
        if inspect.iscoroutinefunction(call):
            raise TypeError(f"{name} is a coroutine (async def), allowed: a plain function")
        names = list(inspect.signature(call).parameters)
        if {"data_source", "solution_str", "ground_truth"} <= set(names):
            self.style = "verl"
        elif "completions" in names and "rows" in names:
            self.style = "rows"
        elif "completions" in names:
            self.style = "trl"
        elif len(names) >= 2:
            self.style = "one"
        else:
            raise TypeError(f"{name}({', '.join(names)}) is no reward function, allowed: ({{completion, row}}), (completions, rows), "
                            "(prompts, completions, **columns), (data_source, solution_str, ground_truth, extra_info)")
        self.is_batch = self.style in ("rows", "trl")

    def __call__(self, items):
        """The values of items, each with its further components."""
        if self.style == "rows":
            values = self.call([completion for completion, _ in items], [row for _, row in items])
        elif self.style == "trl":
            values = self.of_trl(items)
        elif self.style == "verl":
            values = [self.of_verl(*item) for item in items]
        else:
            values = [self.call(completion, row) for completion, row in items]
        values = list(values)
        if len(values) != len(items):
            raise ValueError(f"{self.name} gave {len(values)} rewards for {len(items)} completions")
        return values

    def of_trl(self, items):
        prompts = [row.get("prompt") for _, row in items]
        # Of a conversation TRL has a message for an answer.
        answers = [[{"role": "assistant", "content": str(completion)}] if isinstance(prompt, list) else completion
                   for (completion, _), prompt in zip(items, prompts)]
        names = {name for _, row in items for name in row if name not in ("prompt", "completion", "completions")}
        columns = {name: [row.get(name) for _, row in items] for name in sorted(names)}
        given = dict(prompts=prompts, completions=answers,
                     completion_ids=[completion.token_ids for completion, _ in items], **columns)
        parameters = inspect.signature(self.call).parameters
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
            given = {name: value for name, value in given.items() if name in parameters}
        return self.call(**given)

    def of_verl(self, completion, row):
        model = row.get("reward_model")
        truth = model.get("ground_truth") if isinstance(model, dict) else row.get("ground_truth", row.get("answer"))
        given = dict(data_source=row.get("data_source", ""), solution_str=completion, ground_truth=truth,
                     extra_info=row.get("extra_info") or {})
        parameters = inspect.signature(self.call).parameters
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
            given = {name: value for name, value in given.items() if name in parameters}
        return self.call(**given)


def load(path, names):
    """The functions of a file: those that are named, or the first of the usual ones that it has."""
    folder, stem = os.path.split(os.path.abspath(path))
    sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(os.path.splitext(stem)[0], path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = names or [name for name in DEFAULTS if callable(getattr(module, name, None))][:1]
    if not found:
        defined = [name for name, value in vars(module).items() if inspect.isfunction(value) and not name.startswith("_")]
        raise LookupError(f"{path} has none of {', '.join(DEFAULTS)}, it has: {', '.join(defined) or 'no function'} "
                          "(data.verifiers.NAME.functions names others)")
    functions = []
    for name in found:
        call = getattr(module, name, None)
        if not callable(call):
            raise LookupError(f"{path} has no function {name}")
        functions.append(Function(name, call))
    return functions


def number(value):
    """A reward as a float; None where there is none; an error in words where it is neither."""
    if value is None:
        return None, None
    try:
        value = float(value)
    except (TypeError, ValueError):
        return None, f"gave a {type(value).__name__}, allowed: a number or None"
    return (value, None) if math.isfinite(value) else (None, f"gave {value}, allowed: a finite number or None")


def judged(functions, items):
    """Of each item by function: a value, or why there is none; and further components."""
    results = [{"values": {}, "errors": {}, "extras": {}} for _ in items]
    for function in functions:
        groups = [list(range(len(items)))] if function.is_batch else [[index] for index in range(len(items))]
        for indices in groups:
            try:
                values = function([items[index] for index in indices])
            except Exception as error:  # the user's own code
                frames = traceback.extract_tb(error.__traceback__)
                line = next((frame.lineno for frame in reversed(frames) if frame.filename != __file__), 0)
                words = f"{type(error).__name__}: {error} (line {line})"[:MAX_DETAIL]
                for index in indices:
                    results[index]["errors"][function.name] = ["reward_exception", words]
                continue
            for index, value in zip(indices, values):
                if isinstance(value, dict) and "score" in value:
                    extras = {name: number(other)[0] for name, other in value.items()
                              if name != "score" and not isinstance(other, (str, list, dict))}
                    results[index]["extras"].update({name: other for name, other in extras.items() if other is not None})
                    value = value["score"]
                value, wrong = number(value)
                if wrong:
                    results[index]["errors"][function.name] = ["reward_not_a_number", f"{function.name} {wrong}"]
                else:
                    results[index]["values"][function.name] = value
    return results


def limit_memory(limit):
    try:
        import resource
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    except (ImportError, ValueError, OSError) as error:
        print(f"the memory of reward functions is not limited: {error}", file=sys.stderr)


def work(functions, source, sink):
    """Answers a JSON line with a JSON line until there are no more."""
    sink.write(json.dumps({"functions": [function.name for function in functions],
                           "batch": any(function.is_batch for function in functions)}) + "\n")
    sink.flush()
    for line in source:
        items = [(Completion(item["text"], item["ids"], item["finish"]), item["row"]) for item in json.loads(line)]
        sink.write(json.dumps(judged(functions, items)) + "\n")
        sink.flush()


def run_worker(options):
    # What the functions print must not be taken for an answer.
    sink = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    source = os.fdopen(os.dup(0), encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    if options.memory:
        limit_memory(options.memory)
    try:
        functions = load(options.file, [name for name, _ in options.functions])
    except BaseException as error:
        words = "".join(traceback.format_exception_only(type(error), error)).strip()
        sink.write(json.dumps({"error": f"{options.file}: {words}"}) + "\n")
        sink.flush()
        sys.exit(1)
    work(functions, source, sink)


# ---- The process that speaks with the run.


class Gone(Exception):
    """There is no answer, and why."""

    def __init__(self, code, detail):
        super().__init__(detail)
        self.code, self.detail = code, detail


class Worker:
    """A process that calls the functions, started anew whenever it is gone."""

    def __init__(self, options, digest):
        self.options, self.digest, self.process = options, digest, None

    def start(self):
        """Starts the process; returns the names of its functions, and whether it takes several items at once."""
        if digest_of(self.options.file) != self.digest:
            raise Gone("reward_file_changed", f"{self.options.file} is not the file that the run was begun with")
        given = [f"--function={name}={weight!r}" for name, weight in self.options.functions]
        command = [sys.executable, "-u", os.path.abspath(__file__), self.options.file, "--worker",
                   f"--memory={self.options.memory}", *given]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")
        self.lines = queue.Queue()
        threading.Thread(target=self.read, args=(self.process.stdout, self.lines), daemon=True).start()
        said = self.answer(self.options.start_timeout)
        if "error" in said:
            self.stop()
            raise Gone("reward_file_fails", said["error"])
        return said["functions"], said["batch"]

    @staticmethod
    def read(stdout, lines):
        for line in stdout:
            lines.put(line)
        lines.put(None)

    def answer(self, timeout):
        try:
            line = self.lines.get(timeout=timeout)
        except queue.Empty:
            self.stop()
            raise Gone("reward_timeout", f"a call took longer than {timeout:g} s (data.verifiers.NAME.timeout)") from None
        if line is None:
            status = self.process.wait()
            self.process = None
            how = f"signal {-status}" if status < 0 else f"status {status}"
            raise Gone("reward_crashed", f"the process of the reward functions ended with {how}")
        return json.loads(line)

    def judge(self, items):
        if self.process is None:
            self.start()
        try:
            self.process.stdin.write(json.dumps(items) + "\n")
            self.process.stdin.flush()
        except OSError:
            pass  # It is gone, which its answer says.
        return self.answer(self.options.timeout)

    def stop(self):
        process, self.process = self.process, None
        if process is not None:
            process.kill()
            process.wait()


class InProcess:
    """Functions of a program that serves itself. Nothing ends a call that hangs but the run's own deadline."""

    def __init__(self, functions):
        self.functions = functions

    def start(self):
        return [function.name for function in self.functions], any(function.is_batch for function in self.functions)

    def judge(self, items):
        items = [(Completion(item["text"], item["ids"], item["finish"]), item["row"]) for item in items]
        return judged(self.functions, items)

    def stop(self):
        pass


def digest_of(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


class Service:
    """evenkeel.v1.Reward, as far as custom verifiers have it."""

    def __init__(self, workers, options):
        self.options, self.items = options, queue.Queue()
        names, self.is_batch = workers[0].start()
        for worker in workers[1:]:
            worker.start()
        self.weights = dict(options.functions) or {name: 1.0 for name in names}
        reserved = [name for name in names if name in RESERVED]
        if len(names) > 1 and reserved:
            raise Gone("reward_file_fails", f"a function is called {reserved[0]}, which is a component of every reward; rename it")
        self.components = list(names) if len(names) > 1 else []
        for worker in workers:
            threading.Thread(target=self.serve_items, args=(worker,), daemon=True).start()

    def serve_items(self, worker):
        while True:
            batch = [self.items.get()]
            while self.is_batch and len(batch) < MAX_BATCH:
                try:
                    batch.append(self.items.get_nowait())
                except queue.Empty:
                    break
            try:
                results = worker.judge([given for given, _, _ in batch])
            except Gone as gone:
                results = [gone] * len(batch)
            except Exception as error:
                results = [Gone("reward_crashed", f"{type(error).__name__}: {error}")] * len(batch)
            for (_, id, answer), result in zip(batch, results):
                answer(self.verdict(id, result))

    def submit(self, item, answer):
        try:
            row = json.loads(item.custom.payload or b"{}")
        except ValueError:
            row = item.custom.payload.decode("utf-8", "replace")
        row = row if isinstance(row, dict) else {"payload": row}
        given = {"text": item.completion, "ids": list(item.token_ids), "finish": FINISH.get(item.finish_reason, ""), "row": row}
        self.items.put((given, item.id, answer))

    def verdict(self, id, result):
        if isinstance(result, Gone):
            return invalid(id, result.code, result.detail)
        values, errors = result["values"], result["errors"]
        for code, detail in errors.values():
            return invalid(id, code, detail)
        given = {name: value for name, value in values.items() if value is not None}
        if not given or (self.options.require_all and len(given) < len(values)):
            missing = ", ".join(name for name, value in values.items() if value is None)
            return invalid(id, "reward_none", f"{missing} gave None")
        low, high = self.options.range
        for name, value in given.items():
            if not low <= value <= high:
                return invalid(id, "reward_out_of_range",
                               f"{name} gave {value:g}, allowed: {low:g} to {high:g} (data.verifiers.NAME.range)")
        unit = {name: (value - low) / (high - low) for name, value in given.items()}
        total = sum(self.weights[name] for name in unit)
        reward = min(max(sum(self.weights[name] * value for name, value in unit.items()) / total, 0.0), 1.0)
        verdict = Verdict(id=id, reward=reward, outcome=CORRECT if reward == 1.0 else INCORRECT, reason_code="reward_function")
        components = {name: unit[name] for name in self.components if name in unit}
        for name, value in result["extras"].items():
            plain = name.replace("_", "").replace("-", "").replace(".", "").isalnum() and len(name) <= 64
            if plain and name.isascii() and name not in RESERVED and -1.0 <= value <= 1.0:
                components.setdefault(name, value)
        for name, value in sorted(components.items())[:MAX_COMPONENTS]:
            verdict.components[name] = value
        return verdict

    # The three calls.

    def get_status(self, request, context):
        return Status(custom=True, components=self.components)

    def verify(self, requests, context):
        context.send_initial_metadata(())  # at once: it says that the stream is open
        answers, state = queue.Queue(), {"left": 0, "ended": False}
        lock = threading.Lock()

        def answered(verdict):
            answers.put(verdict)

        def read():
            try:
                for request in requests:
                    if request.HasField("item"):
                        with lock:
                            state["left"] += 1
                        self.submit(request.item, answered)
            except Exception:  # the stream is gone
                pass
            with lock:
                state["ended"] = True
            answers.put(None)

        threading.Thread(target=read, daemon=True).start()
        while True:
            verdict = answers.get()
            if verdict is not None:
                with lock:
                    state["left"] -= 1
                yield verdict
            with lock:
                if state["ended"] and state["left"] == 0:
                    return

    def verify_one(self, request, context):
        answers = queue.Queue()
        self.submit(request.item, answers.put)
        return OneResponse(verdict=answers.get())


def invalid(id, code, detail):
    return Verdict(id=id, outcome=INVALID, invalid_reason=ATTEMPTS_EXHAUSTED, reason_code=code, detail=detail[:MAX_DETAIL])


def messages():
    """The messages of evenkeel/v1/reward.proto that a custom verifier needs, with their numbers."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    text, data, flag, real, count, kind, message = 9, 12, 8, 1, 13, 5, 11
    fields = {
        "CancelItem": [("id", 1, text)],
        "CustomTask": [("verifier", 1, text), ("payload", 2, data)],
        "VerifyItem": [("id", 1, text), ("completion", 3, text), ("custom", 8, "CustomTask"), ("token_ids", 10, count, 3),
                       ("finish_reason", 11, kind)],
        "VerifyRequest": [("item", 1, "VerifyItem"), ("cancel", 2, "CancelItem")],
        "Verdict.ComponentsEntry": [("key", 1, text), ("value", 2, real)],
        "Verdict": [("id", 1, text), ("outcome", 2, kind), ("invalid_reason", 3, kind), ("reason_code", 4, text),
                    ("detail", 5, text), ("reward", 6, real, 1, True), ("components", 13, "Verdict.ComponentsEntry", 3)],
        "VerifyOneRequest": [("item", 1, "VerifyItem")],
        "VerifyOneResponse": [("verdict", 1, "Verdict")],
        "RewardGetStatusRequest": [],
        "RewardGetStatusResponse": [("custom", 8, flag), ("components", 9, text, 3)],
    }
    # A package of its own: a program may have the generated messages as well.
    package = "evenkeel_verifier"
    file = descriptor_pb2.FileDescriptorProto(name="evenkeel_verifier.proto", package=package, syntax="proto3")
    made = {}
    for name, entries in fields.items():
        if "." not in name:
            made[name] = file.message_type.add(name=name)
    entry = made["Verdict"].nested_type.add(name="ComponentsEntry")
    entry.options.map_entry = True
    made["Verdict.ComponentsEntry"] = entry
    for name, entries in fields.items():
        for field, number_, type_, *more in entries:
            label, is_optional = more[0] if more else 1, len(more) > 1
            added = made[name].field.add(name=field, number=number_, label=label, json_name=field)
            if isinstance(type_, str):
                added.type, added.type_name = message, f".{package}.{type_}"
            else:
                added.type = type_
            if is_optional:
                added.proto3_optional = True
                added.oneof_index = len(made[name].oneof_decl)
                made[name].oneof_decl.add(name=f"_{field}")
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    get = lambda name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}"))
    return {name: get(name) for name in fields if "." not in name}


def serve_with(workers, options):
    """Listens until standard input ends, where it is a pipe of the run, or for ever."""
    try:
        import grpc
        from concurrent import futures

        made = messages()
    except ImportError as error:
        raise Gone("reward_file_fails", f"{error}: {sys.executable} has no grpcio or protobuf (pip install \"grpcio>=1.60\" "
                   "\"protobuf>=4.25\"; data.verifiers.NAME.python names another interpreter)") from None
    globals().update(Verdict=made["Verdict"], Status=made["RewardGetStatusResponse"], OneResponse=made["VerifyOneResponse"])
    service = Service(workers, options)

    def method(kind, call, request):
        return kind(call, request_deserializer=made[request].FromString, response_serializer=lambda answer: answer.SerializeToString())

    handlers = {
        "GetStatus": method(grpc.unary_unary_rpc_method_handler, service.get_status, "RewardGetStatusRequest"),
        "Verify": method(grpc.stream_stream_rpc_method_handler, service.verify, "VerifyRequest"),
        "VerifyOne": method(grpc.unary_unary_rpc_method_handler, service.verify_one, "VerifyOneRequest"),
    }
    limit = [("grpc.max_receive_message_length", 64 << 20), ("grpc.max_send_message_length", 64 << 20), ("grpc.so_reuseport", 0)]
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=16), options=limit)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("evenkeel.v1.Reward", handlers),))
    port = server.add_insecure_port(options.listen)
    server.start()
    print(f"reward functions {', '.join(service.weights)}: listening on port {port}", flush=True)
    if options.with_parent:
        sys.stdin.buffer.read()
    else:
        server.wait_for_termination()
    for worker in workers:
        worker.stop()
    os._exit(0)


def arguments(given=None):
    def function(text):
        name, _, weight = text.partition("=")
        return name, float(weight or 1)

    def pair(text):
        low, high = (float(part) for part in text.split(","))
        return low, high

    listen = os.environ.get("EVENKEEL_VERIFIER_LISTEN")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", help="the Python file with the functions")
    parser.add_argument("--listen", default=listen or "127.0.0.1:50060", help="HOST:PORT")
    parser.add_argument("--function", dest="functions", action="append", type=function, default=[], metavar="NAME=WEIGHT")
    parser.add_argument("--range", type=pair, default=(0.0, 1.0), metavar="LOW,HIGH", help="what functions may give; counts as 0 and 1")
    parser.add_argument("--require-all", action="store_true", help="no reward as soon as one of several functions gives none")
    parser.add_argument("--timeout", type=float, default=10.0, metavar="SECONDS", help="longest call of a function")
    parser.add_argument("--start-timeout", type=float, default=120.0, help=argparse.SUPPRESS)
    parser.add_argument("--memory", type=int, default=8 << 30, metavar="BYTES", help="address space of each process")
    parser.add_argument("--processes", type=int, default=1, help="processes that call the functions side by side")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(given)
    options.with_parent = listen is not None
    return options


def serve(*functions, **settings):
    """Serves functions of the calling program: `serve(reward)`. `settings` are listen, range and require_all."""
    options = arguments([])
    for name, value in settings.items():
        setattr(options, name, value)
    options.functions = []
    serve_with([InProcess([Function(function.__name__, function) for function in functions])], options)


def main():
    options = arguments()
    if not options.file:
        sys.exit("the Python file with the functions is missing")
    if options.worker:
        return run_worker(options)
    workers = [Worker(options, digest_of(options.file)) for _ in range(options.processes)]
    try:
        serve_with(workers, options)
    except Gone as gone:
        print(gone.detail, file=sys.stderr, flush=True)
        for worker in workers:
            worker.stop()
        os._exit(1)


if __name__ == "__main__":
    main()
