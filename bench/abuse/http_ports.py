#!/usr/bin/env python3
"""The ports that speak HTTP under abuse: the engine, Tinker's API, /run_code and the chat endpoint for agents, on loopback.

    python3 bench/abuse/http_ports.py [--binaries DIR]

Starts them with 1,024 descriptors each, and attacks one after the other, for about three minutes in all:

1. requests that a web page can have a browser send: under a name of its own, and with an Origin;
2. a control route of the engine with a body that a page may send without asking;
3. large bodies under episode names that nobody knows;
4. large bodies that are announced and do not come;
5. connections of which nothing comes, more than a port takes.

What must hold: 1 is answered 403, 2 400 and 3 404; after 4 and 5 an honest request is answered within the time limits of bodies and headers;
no process grows by more than 96 MiB, and none ends. Exits with 1 where one does not. Needs Linux and about 1 GB of memory.
"""

import argparse
import http.client
import json
import resource
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import ROOT, build, free_port  # noqa: E402

RECIPE = ROOT / "cli/tests/suite/small.toml"
DESCRIPTORS = 1024
# More than half of them.
SILENT = 600
MIB = 1 << 20
LARGE = 27 * MIB
GROWTH_MIB = 96
# Time limits of the ports: of headers, and of bodies.
HEADER_S, BODY_S = 15, 30
# Beyond a limit, for a machine that does other things as well.
SLACK_S = 10
# Ports, and an honest request to each: method, path, body and status.
HONEST = {
    "engine": ("GET", "/v1/models", None, 200),
    "tinker": ("POST", "/api/v1/create_session", {}, 200),
    "run_code": ("GET", "/v1/ping", None, 200),
    "chat": ("GET", "/unknown/v1/models", None, 404),
}
# Where each takes a large body.
LARGE_BODY = {"engine": "/v1/completions", "tinker": "/api/v1/asample", "run_code": "/run_code"}


class Server:
    def __init__(self, name, command, folder):
        self.name, self.log = name, folder / f"{name}.log"
        limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
        with self.log.open("wb") as log:
            self.process = subprocess.Popen([str(word) for word in command], stdout=log, stderr=log, cwd=folder, preexec_fn=limit)
        self.port = None

    def resident_mib(self):
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:")) / 1024

    def listening(self):
        """The ports that the process listens on."""
        own = set()
        for descriptor in Path(f"/proc/{self.process.pid}/fd").iterdir():
            try:
                own.add(str(descriptor.readlink()))
            except OSError:
                pass
        rows = [line.split() for line in Path(f"/proc/{self.process.pid}/net/tcp").read_text().splitlines()[1:]]
        return {int(row[1].split(":")[1], 16) for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in own}

    def check(self):
        if self.process.poll() is not None:
            sys.exit(f"{self.name} ended:\n{self.log.read_text(errors='replace')[-3000:]}")

    def end(self):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()


def start(binary, folder):
    model = folder / "model"
    subprocess.run([binary, "model", "--recipe", RECIPE, "--out", model], check=True, stdout=subprocess.DEVNULL)
    agent = folder / "agent.py"
    agent.write_text("")
    ports = {name: free_port() for name in ("engine", "tinker", "run_code", "reward", "environment")}
    at = {name: f"127.0.0.1:{port}" for name, port in ports.items()}
    settings = {
        "engine": ["engine", f"model={model}", f"listen={at['engine']}"],
        "tinker": [
            "tinker", f"model={model}", f"tinker.listen={at['tinker']}", f"tinker.folder={folder}/tinker", "tinker.model_name=tiny",
            "tinker.unembed=frozen", "learner.lora.rank=4", "learner.lora.alpha=4", "engine.max_model_len=64", "engine.kv_cache_tokens=1024",
        ],
        "run_code": ["reward", f"server.listen={at['reward']}", f"http.listen={at['run_code']}", "code.sandbox=off"],
        "chat": ["environment", f"server.listen={at['environment']}", f'agents=["{agent}"]'],
    }
    servers = {}
    for name, (kind, *values) in settings.items():
        servers[name] = Server(name, [binary, "serve", kind, *(word for value in values for word in ("--set", value))], folder)
    end = time.time() + 120
    for name, server in servers.items():
        while server.port is None and time.time() < end:
            server.check()
            # The chat endpoint takes any free port.
            found = server.listening() - {ports["environment"]} if name == "chat" else server.listening() & {ports[name]}
            server.port = min(found, default=None)
            time.sleep(0.1)
        if server.port is None:
            sys.exit(f"{name} does not listen")
    return servers


def ask(port, method, path, body=None, headers=(), timeout=5):
    """The status of an answer; None where there is none."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request(method, path, data, {"Content-Type": "application/json", **dict(headers)})
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def honest_within(name, port, limit):
    """The time until an honest request is answered; None where it is not within the limit."""
    method, path, body, status = HONEST[name]
    begun = time.time()
    while time.time() - begun < limit:
        if ask(port, method, path, body) == status:
            return time.time() - begun
        time.sleep(0.2)
    return None


def announced(port, path, count):
    """Connections that announce a large body and send none of it; and the statuses of those that are answered at once."""
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {LARGE}\r\n\r\n"
    held = []
    for _ in range(count):
        stream = socket.create_connection(("127.0.0.1", port), 5)
        stream.sendall(head.encode())
        held.append(stream)
    time.sleep(1)
    answered, _, _ = select.select(held, [], [], 0)
    return held, [status_of(stream) for stream in answered]


def status_of(stream):
    """The status of the answer that comes next."""
    try:
        return stream.recv(12)[9:].decode()
    except TimeoutError:
        return "no answer"


class Verdict:
    good = True

    def say(self, name, good, text):
        self.good &= bool(good)
        print(f"  {name:<60} {text:<36} {'ok' if good else 'MISSED'}", flush=True)


def web_pages(servers, verdict):
    for name, server in servers.items():
        method, path, body, _ = HONEST[name]
        for what, headers in [("a name of its own", {"Host": f"evil.example:{server.port}"}), ("an Origin", {"Origin": "http://evil.example"})]:
            status = ask(server.port, method, path, body, headers)
            verdict.say(f"{name}: a web page with {what}", status == 403, str(status))
    for path in ("/pause?mode=abort", "/collective_rpc", "/abort_requests"):
        status = ask(servers["engine"].port, "POST", path, b'{"method": "reload_weights"}', {"Content-Type": "text/plain"})
        verdict.say(f"engine: {path} with a body of text", status == 400, str(status))


def unknown_names(servers, verdict):
    server, statuses = servers["chat"], []
    head = f"POST /unknown/v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {LARGE}\r\n\r\n".encode()
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", server.port), 5) as stream:
            stream.sendall(head)
            statuses.append(status_of(stream))
            try:
                for _ in range(LARGE // MIB):
                    stream.sendall(bytes(MIB))
            except OSError:
                # Nobody reads it.
                pass
    verdict.say("chat: large bodies under unknown names", set(statuses) == {"404"}, ", ".join(sorted(set(statuses))))


def bodies_that_do_not_come(servers, verdict):
    held = {}
    for name, path in LARGE_BODY.items():
        held[name], statuses = announced(servers[name].port, path, 100)
        if name == "tinker":
            verdict.say("tinker: bodies beyond its memory", "429" in statuses, f"{statuses.count('429')} of 100 are answered 429")
    for name, server in servers.items():
        took = honest_within(name, server.port, BODY_S + SLACK_S)
        verdict.say(f"{name}: an honest request meanwhile", took is not None, "not answered" if took is None else f"{took:.1f} s")
    # The longest limit is the engine's, a minute. Tinker's is five, which nobody waits for here: its room bounds them.
    end = time.time() + 2 * BODY_S + SLACK_S
    for stream in held.pop("tinker", []):
        stream.close()
    open_ones = {stream for streams in held.values() for stream in streams}
    while open_ones and time.time() < end:
        readable, _, _ = select.select(open_ones, [], [], 1)
        open_ones -= {stream for stream in readable if not received(stream)}
    for name, streams in held.items():
        left = len(open_ones.intersection(streams))
        verdict.say(f"{name}: bodies that did not come are given up", left == 0, f"{left} of {len(streams)} are open")
        for stream in streams:
            stream.close()


def received(stream):
    try:
        return stream.recv(65536)
    except OSError:
        return b""


def silent_connections(servers, verdict):
    for name, server in servers.items():
        held, refused = [], 0
        while len(held) < SILENT and refused < 5:
            try:
                held.append(socket.create_connection(("127.0.0.1", server.port), 1))
            except OSError:
                # The queue of those that wait may be full as well.
                refused += 1
        # Those that wait take the places of the silent ones, and are silent as long.
        took = honest_within(name, server.port, 4 * HEADER_S + SLACK_S)
        verdict.say(f"{name}: {len(held)} silent connections", took is not None, "not answered" if took is None else f"answered after {took:.1f} s")
        for stream in held:
            stream.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", type=Path, help="a folder with evenkeel, instead of a build")
    arguments = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    verdict = Verdict()
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        # A copy: another build replaces what it built while this runs.
        binary = shutil.copy2(arguments.binaries / "evenkeel" if arguments.binaries else build("evenkeel"), folder / "evenkeel")
        servers = start(binary, folder)
        try:
            for name, server in servers.items():
                if honest_within(name, server.port, 60) is None:
                    sys.exit(f"{name} does not answer")
            before = {name: server.resident_mib() for name, server in servers.items()}
            for attack in (web_pages, unknown_names, bodies_that_do_not_come, silent_connections):
                print(f"{attack.__name__.replace('_', ' ')}:", flush=True)
                attack(servers, verdict)
                for name, server in servers.items():
                    server.check()
                    grown = server.resident_mib() - before[name]
                    verdict.say(f"{name}: memory", grown <= GROWTH_MIB, f"{grown:+.1f} MiB")
        finally:
            for server in servers.values():
                server.end()
    sys.exit(0 if verdict.good else 1)


if __name__ == "__main__":
    main()
