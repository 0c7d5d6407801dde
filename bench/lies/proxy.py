"""A proxy before an engine that passes everything on, but for one lie."""

import http.client
import json
import random
import shutil
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from weights import rewrite, with_bits, with_row


# More than the check of an engine takes, and fewer than the first step.
HONEST_SAMPLES = 40


class Lie:
    """Tells the truth. Subclasses change requests for samples, their answers, or the folder of an update."""

    # Further settings of its run, engines beside it that tell the truth, and whether requests for scores are refused.
    run_settings, beside, refuses_scores = (), 0, False
    # The folder of the model that the run starts from.
    model = None

    def request(self, body):
        return body

    def answer(self, body, choice, ask):
        """Changes the choice in place. `body` is the request as it came, `ask` sends another one to the engine."""

    def folder(self, path):
        """The folder that the engine loads instead; None for no load at all."""
        return path


class Sampling(Lie):
    """Other settings of sampling. With `hidden` the log-probabilities are those of the model, as if nothing had been changed.

    The check of an engine when it is connected finds a lie that is hidden from the first sample on, so such a lie begins later."""

    def __init__(self, hidden=False, **settings):
        self.settings, self.hidden = settings, hidden
        self.honest = HONEST_SAMPLES if hidden else 0

    def request(self, body):
        self.honest -= 1
        return body if self.honest >= 0 else {**body, **self.settings}

    def answer(self, body, choice, ask):
        if self.hidden and self.honest < 0:
            ids = choice["token_ids"]
            choice["logprobs"]["token_logprobs"] = scores(ask, body, body["prompt"], ids)


class OneSeed(Lie):
    def request(self, body):
        return {**body, "seed": 7}


class DroppedToken(Lie):
    def request(self, body):
        # The check of an engine has prompts of one token, and none is left of these.
        return {**body, "prompt": body["prompt"][1:] or body["prompt"]}

    def answer(self, body, choice, ask):
        choice["prompt_token_ids"] = body["prompt"]


def without(choice, at):
    """Takes a token out of an answer."""
    del choice["token_ids"][at]
    for name in ("token_logprobs", "tokens", "top_logprobs", "text_offset"):
        if choice["logprobs"].get(name):
            del choice["logprobs"][name][at]


class MissingToken(Lie):
    """Answers lack their first token."""

    def answer(self, body, choice, ask):
        if len(choice["token_ids"]) > 2:
            without(choice, 0)


class ExchangedIds(Lie):
    """One token in ten, but for the last."""

    def answer(self, body, choice, ask):
        ids, draw = choice["token_ids"], random.Random(body["seed"])
        for at in range(len(ids) - 1):
            if draw.random() < 0.1:
                ids[at] = draw.choice(ids)


class LogProbabilities(Lie):
    def __init__(self, change):
        self.change = change

    def answer(self, body, choice, ask):
        found = choice["logprobs"]
        found["token_logprobs"] = self.change(found["token_logprobs"])


class Cached(Lie):
    """Every fourth answer is one to another prompt."""

    def __init__(self):
        self.lock, self.kept, self.count = threading.Lock(), None, 0

    def answer(self, body, choice, ask):
        with self.lock:
            self.count += 1
            kept = self.kept
            if kept is None or self.count % 16 == 0:
                self.kept = json.loads(json.dumps(choice))
            if self.count % 4 == 0 and kept is not None and kept["prompt_token_ids"] != body["prompt"]:
                choice.update({**json.loads(json.dumps(kept)), "prompt_token_ids": body["prompt"]})


class Later(Lie):
    """Begins after the check of an engine when it is connected, which would find it."""

    def __init__(self):
        self.lock, self.honest = threading.Lock(), HONEST_SAMPLES

    def answer(self, body, choice, ask):
        with self.lock:
            self.honest -= 1
            is_honest = self.honest >= 0
        if not is_honest:
            self.lie(body, choice, ask)


def another_draw(body, ask):
    return ask({**body, "seed": body["seed"] ^ 0x5BD1E995})["choices"][0]


class MissingEnd(Later):
    """The token that ends an answer is left out, though the answer is said to have stopped."""

    def lie(self, body, choice, ask):
        if choice["finish_reason"] == "stop" and len(choice["token_ids"]) > 1:
            without(choice, -1)


class BetterOfTwo(Later):
    """Answers twice, and returns the answer that is worth more."""

    def __init__(self, worth):
        super().__init__()
        self.worth = worth

    def lie(self, body, choice, ask):
        other = another_draw(body, ask)
        if self.worth(other) > self.worth(choice):
            choice.update(other)


class LongestAgain(Later):
    """The longest eighth of the last 256 answers is drawn again, once; of equally long ones any."""

    def __init__(self):
        super().__init__()
        self.lengths, self.draw = [], random.Random(3)

    def lie(self, body, choice, ask):
        length = len(choice["token_ids"])
        with self.lock:
            self.lengths = [*self.lengths[-255:], length]
            longer = sum(other > length for other in self.lengths)
            equal = sum(other == length for other in self.lengths)
            is_long = longer + self.draw.random() * equal < len(self.lengths) / 8
        if is_long:
            choice.update(another_draw(body, ask))


class OtherSettings(Later):
    """A share of the answers is drawn with other settings, which its log-probabilities say."""

    def __init__(self, share, **settings):
        super().__init__()
        self.share, self.settings = share, settings

    def lie(self, body, choice, ask):
        if random.Random(body["seed"]).random() < self.share:
            choice.update(ask({**body, **self.settings})["choices"][0])


class AnotherPrompt(Later):
    """A share of the answers is drawn after a prompt of which one token, the first that can be, is that of another prompt."""

    def __init__(self, share):
        super().__init__()
        self.share, self.last = share, []

    def lie(self, body, choice, ask):
        prompt = body["prompt"]
        with self.lock:
            last, self.last = self.last, prompt
        places = [at for at, (one, other) in enumerate(zip(prompt, last)) if one != other]
        if places and random.Random(body["seed"]).random() < self.share:
            changed = [*prompt]
            changed[places[0]] = last[places[0]]
            choice.update({**ask({**body, "prompt": changed})["choices"][0], "prompt_token_ids": prompt})


class FewBits(Lie):
    """Loads every version with few bits."""

    def __init__(self, scratch, bits):
        self.scratch, self.bits = Path(scratch), bits

    def folder(self, path):
        return with_bits(path, self.scratch / f"lie-{Path(path).name}", self.bits)


class Row(Lie):
    """Loads every version with one row of the head scaled; without a number that of the token that ends an answer."""

    def __init__(self, scratch, by, row=None):
        self.scratch, self.by, self.row = Path(scratch), by, row

    def folder(self, path):
        row = self.row
        if row is None:
            ends = json.loads((Path(path) / "config.json").read_text())["eos_token_id"]
            row = ends[0] if isinstance(ends, list) else ends
        return with_row(path, self.scratch / f"lie-{Path(path).name}", row, self.by)


class FirstChange(Lie):
    """Loads the first change, and that again for every later one."""

    def __init__(self, scratch):
        self.scratch, self.loads = Path(scratch), 0

    def folder(self, path):
        self.loads += 1
        kept = self.scratch / "first-change"
        if self.loads == 2:
            shutil.copytree(path, kept, dirs_exist_ok=True)
        return path if self.loads <= 2 else str(kept)


class Weights(Lie):
    """Updates of which something does not arrive: `replaced` is a group of tensors, `share` of every change since the first load."""

    def __init__(self, scratch, replaced=None, share=None, behind=False, nothing=False):
        self.scratch, self.replaced, self.share, self.behind, self.nothing = Path(scratch), replaced, share, behind, nothing
        self.first = self.last = None

    def folder(self, path):
        first, last, self.last = self.first or path, self.last, path
        if self.first is None:
            # The engine and the lie agree on where the run begins.
            self.first = self.keep(path, "first")
            return path
        if self.nothing:
            return None
        if self.behind:
            found, self.kept = getattr(self, "kept", self.first), self.keep(path, f"kept-{Path(path).name}")
            return found
        return rewrite(path, first, self.scratch / f"lie-{Path(path).name}", self.replaced, self.share)

    def keep(self, path, name):
        shutil.copytree(path, self.scratch / name, dirs_exist_ok=True)
        return str(self.scratch / name)


class RefusesProofs(Weights):
    """Loads nothing and scores no given text, beside an engine that does both."""

    beside, refuses_scores = 1, True

    def __init__(self, scratch):
        super().__init__(scratch, nothing=True)


class LastMiniBatch(Lie):
    """The last quarter of the prompts of each step, a mini-batch of its own, is answered at another temperature."""

    # Of the recipe `arithmetic`: sixteen prompts a step.
    run_settings = ("learner.mini_batch_groups=4",)

    def __init__(self):
        self.lock, self.places = threading.Lock(), {}

    def answer(self, body, choice, ask):
        # The check of an engine has prompts of one token.
        if len(body["prompt"]) == 1:
            return
        with self.lock:
            place = self.places.setdefault(tuple(body["prompt"]), len(self.places))
        if place % 16 >= 12:
            choice.update(ask({**body, "temperature": 0.5})["choices"][0])


class FabricatedEvaluations(Lie):
    """Right answers in evaluations, which have a temperature of 0, with the log-probabilities that the model gives them."""

    run_settings = ("evaluation.before=true", "evaluation.every=1")

    def answer(self, body, choice, ask):
        vocabulary = json.loads((Path(self.model) / "tokenizer.json").read_text())["model"]["vocab"]
        characters = {number: text for text, number in vocabulary.items()}
        problem = "".join(characters.get(id, "") for id in body["prompt"]).strip().rstrip("=").split("+")
        if body["temperature"] > 0 or len(problem) != 2:
            return
        ends = json.loads((Path(self.model) / "config.json").read_text())["eos_token_id"]
        answer = "\\boxed{" + str(sum(map(int, problem))) + "}"
        ids = [vocabulary[character] for character in answer] + [ends[0] if isinstance(ends, list) else ends]
        choice.update(ask({**body, "max_tokens": len(ids), "min_tokens": len(ids), "ignore_eos": True})["choices"][0])
        choice["token_ids"], choice["logprobs"]["token_logprobs"] = ids, scores(ask, body, body["prompt"], ids)
        choice["finish_reason"] = "stop"


class Split(Lie):
    """Answers requests for scores with the right weights. Samples come from another engine, whose updates are those of a lie about weights."""

    def __init__(self, of_samples):
        self.of_samples, self.port = of_samples, None


def scores(ask, body, prompt, ids):
    """The model's own log-probabilities of an answer, at temperature 1."""
    request = {**body, "prompt": [prompt + ids], "max_tokens": 1, "min_tokens": 0, "temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0}
    request.update({"prompt_logprobs": 0, "ignore_eos": True, "stop_token_ids": [], "stream": False})
    found = ask(request)["choices"][0]["prompt_logprobs"]
    return [found[at][str(id)]["logprob"] for at, id in enumerate(prompt + ids) if at >= len(prompt)]


def start(engine_port, lie, hides_bits=False):
    """Serves on a port of its own, which is returned. With `hides_bits` the engine does not say that it computes as the learner does."""

    samples_port = getattr(lie, "port", None) or engine_port

    def send(method, path, body, headers=(), port=engine_port):
        connection = http.client.HTTPConnection("127.0.0.1", port)
        kept = {name: value for name, value in headers if name.lower() in ("content-type", "traceparent", "authorization", "x-request-id")}
        try:
            connection.request(method, path, body, kept)
            response = connection.getresponse()
            return response.status, response.getheader("Content-Type", "application/json"), response.read()
        except (OSError, http.client.HTTPException):
            # The engine is stopped while a run ends.
            return 503, "application/json", b'{"error": "the engine does not answer"}'
        finally:
            connection.close()

    def ask(body):
        status, _, answer = send("POST", "/v1/completions", json.dumps(body), [("Content-Type", "application/json")])
        if status != 200:
            raise RuntimeError(answer.decode())
        return json.loads(answer)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def handle(self):
            try:
                super().handle()
            except ConnectionResetError:
                # The run has ended.
                pass

        def reply(self, status, kind, answer):
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(answer)))
            try:
                self.end_headers()
                self.wfile.write(answer)
            except (BrokenPipeError, ConnectionResetError):
                # The run has ended.
                self.close_connection = True

        def do_GET(self):
            status, kind, answer = send("GET", self.path, None, self.headers.items())
            if hides_bits and self.path.startswith("/server_info") and status == 200:
                info = json.loads(answer)
                info["vllm_config"]["model_config"].pop("arithmetic", None)
                answer = json.dumps(info).encode()
            self.reply(status, kind, answer)

        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            parsed = json.loads(body) if body else {}
            if self.path == "/collective_rpc" and parsed.get("method") == "reload_weights":
                if samples_port != engine_port and (other := lie.of_samples.folder(parsed["kwargs"]["weights_path"])):
                    send("POST", self.path, json.dumps({**parsed, "kwargs": {**parsed["kwargs"], "weights_path": other}}), self.headers.items(), samples_port)
                folder = lie.folder(parsed["kwargs"]["weights_path"])
                if folder is None:
                    return self.reply(200, "application/json", b'{"results": [null]}')
                parsed["kwargs"]["weights_path"] = folder
                return self.reply(*send("POST", self.path, json.dumps(parsed), self.headers.items()))
            if lie.refuses_scores and parsed.get("prompt_logprobs") is not None:
                return self.reply(503, "application/json", b'{"error": "no scores"}')
            # Samples, not scores of given tokens.
            if self.path == "/v1/completions" and isinstance(parsed["prompt"][0], int) and not parsed.get("stream"):
                status, kind, answer = send("POST", self.path, json.dumps(lie.request(dict(parsed))), self.headers.items(), samples_port)
                if status == 200:
                    completion = json.loads(answer)
                    for choice in completion["choices"]:
                        lie.answer(parsed, choice, ask)
                    completion["usage"]["completion_tokens"] = sum(len(choice["token_ids"]) for choice in completion["choices"])
                    answer = json.dumps(completion).encode()
                return self.reply(status, kind, answer)
            return self.reply(*send("POST", self.path, body, self.headers.items()))

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]
