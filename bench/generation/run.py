#!/usr/bin/env python3
"""Benchmark of the generation service against a direct client, on this machine, in one run.

    python3 bench/generation/run.py [--vllm URL [--vllm-pid PID]] [--samples 2048] [--pairs 5]

Every part sends the same samples both ways, alternately: directly to the engine's HTTP API, and through the service. The service, the
engine and the client are separate processes, so that the CPU time of each can be measured.

- engine: the embedded engine with a tiny model (or, with --vllm, a running vLLM): 128 prompts x 16 samples of 64
  tokens, 256 in flight. Reports the median of samples per second, through the service over direct (at least 0.95), and the CPU
  time of the service as a fraction of the engine's (--vllm-pid is the server's process; its children are included).
- latency: an engine that responds after 200 to 300 ms, 200 tokens, 256 in flight. Reports the latency that the service adds. The first
  256 samples, which wait for connections, are excluded.
- instant: an engine that responds at once, 200 tokens. Reports samples per second of the service's CPU time, and the growth of its memory
  from 50,000 to 250,000 samples.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import ROOT, build, free_port  # noqa: E402

TICKS = os.sysconf("SC_CLK_TCK")
LIMITS = {"share": 0.95, "p50_ms": 2.0, "p99_ms": 5.0, "engine_cpu": 0.05, "per_core": 5000, "memory": 1.05}


class Server:
    """A process that is stopped with the benchmark."""

    def __init__(self, command, url):
        self.url = url
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen([str(word) for word in command], stdout=self.log, stderr=self.log)
        self.pid = self.process.pid

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()

    def check(self):
        if self.process.poll() is not None:
            self.log.seek(0)
            sys.exit(f"{self.url} ended:\n{self.log.read().decode()}")


def tree(pid):
    """A process and its descendants."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            found += tree(int(child))
    return found


def cpu_seconds(pid):
    total = 0
    for one in tree(pid):
        fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICKS


def resident_mib(pid):
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / 2**20


def until_up(url, server=None):
    began = time.time()
    while True:
        try:
            return urllib.request.urlopen(f"{url}/health", timeout=5).close()
        except OSError:
            if server:
                server.check()
            if time.time() - began > 120:
                sys.exit(f"{url} does not come up")
            time.sleep(0.1)


def engine(binary, folder):
    model = Path(folder) / "model"
    recipe = ["--recipe", ROOT / "cli/tests/suite/small.toml"]
    subprocess.run([binary, "model", *recipe, "--out", model], check=True, stdout=subprocess.DEVNULL)
    port = free_port()
    command = [binary, "serve", "engine", *recipe, "--set", f"listen=127.0.0.1:{port}", "--set", f"model={model}"]
    server = Server(command, f"http://127.0.0.1:{port}")
    until_up(server.url, server)
    return server


def instant(bench, delay_ms):
    port = free_port()
    server = Server([bench, "generation", "instant", port, delay_ms], f"http://127.0.0.1:{port}")
    until_up(server.url, server)
    return server


def service(binary, engines):
    port = free_port()
    listed = ",".join(f'"{url}"' for url in engines)
    command = [binary, "serve", "generation", "--set", f"server.listen=127.0.0.1:{port}", "--set", f"endpoints=[{listed}]"]
    return Server(command, f"http://127.0.0.1:{port}")


def ask(bench, way, url, samples, tokens, in_flight, delay_ms=0):
    command = [bench, "generation", way, url, samples, tokens, in_flight, delay_ms]
    return json.loads(subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE, text=True).stdout)


def verdict(name, value, limit, text, least=False):
    good = value >= limit if least else value <= limit
    print(f"  {name:<44} {text:<34} limit {limit}  {'ok' if good else 'MISSED'}")
    return good


def turns(count):
    """Both ways, alternately; each comes first equally often."""
    for turn in range(count):
        yield from ["direct", "through"] if turn % 2 == 0 else ["through", "direct"]


def pairs(bench, direct, through, count, samples, tokens, delay_ms):
    measured = {"direct": [], "through": []}
    ask(bench, "direct", direct, 256, tokens, 256)
    ask(bench, "through", through, 256, tokens, 256)
    for way in turns(count):
        measured[way].append(ask(bench, way, direct if way == "direct" else through, samples, tokens, 256, delay_ms))
    return measured


def median(lines, field):
    return statistics.median(line[field] for line in lines)


def beside_engine(binary, bench, name, url, pid, arguments):
    front = service(binary, [url])
    try:
        ask(bench, "through", front.url, 16, 8, 16)
        measured = {"direct": [], "through": []}
        service_cpu = engine_cpu = 0.0
        for way in turns(arguments.pairs):
            before = cpu_seconds(front.pid), cpu_seconds(pid) if pid else 0.0
            target = url if way == "direct" else front.url
            measured[way].append(ask(bench, way, target, arguments.samples, 64, 256))
            if way == "through":
                service_cpu += cpu_seconds(front.pid) - before[0]
                engine_cpu += (cpu_seconds(pid) if pid else 0.0) - before[1]
    finally:
        front.end()
    direct, through = (median(measured[way], "samples_per_second") for way in ("direct", "through"))
    print(f"{name}: {arguments.samples} samples of 64 tokens, 256 in flight, {arguments.pairs} pairs")
    print(f"  samples per second: direct {direct:.0f}, through the service {through:.0f} (medians)")
    good = verdict("throughput, through over direct", through / direct, LIMITS["share"], f"{through / direct:.3f}", True)
    if pid:
        part = service_cpu / engine_cpu
        text = f"{part:.3f} ({service_cpu:.1f} s of {engine_cpu:.1f} s)"
        if name == "real vLLM":
            good &= verdict("CPU of the service over the engine's", part, LIMITS["engine_cpu"], text)
        else:
            print(f"  {'CPU of the service over the engine’s':<44} {text}")
    return good


def latency(binary, bench, arguments):
    back = instant(bench, 250)
    front = service(binary, [back.url])
    try:
        measured = pairs(bench, back.url, front.url, arguments.pairs, 2048, 200, 250)
    finally:
        front.end()
        back.end()
    print("latency: an engine that takes 200 to 300 ms, 200 tokens, 256 in flight")
    good = True
    for field in ("p50_ms", "p99_ms"):
        direct, through = (median(measured[way], field) for way in ("direct", "through"))
        text = f"{through - direct:.2f} ms ({direct:.2f} -> {through:.2f})"
        good &= verdict(f"added at {field[:3]}", through - direct, LIMITS[field], text)
    return good


def throughput(binary, bench):
    back = instant(bench, 0)
    front = service(binary, [back.url])
    try:
        ask(bench, "through", front.url, 4096, 200, 256)
        rates, memory = [], []
        for samples in [50_000] * 5:
            before = cpu_seconds(front.pid)
            ask(bench, "through", front.url, samples, 200, 256)
            rates.append(samples / (cpu_seconds(front.pid) - before))
            memory.append(resident_mib(front.pid))
    finally:
        front.end()
        back.end()
    print("instant: an engine that responds at once, 200 tokens, 256 in flight")
    rate = statistics.median(rates)
    good = verdict("samples per second of the service's CPU", rate, LIMITS["per_core"], f"{rate:.0f}", True)
    grown = memory[-1] / memory[0]
    text = f"{grown:.3f} ({memory[0]:.1f} -> {memory[-1]:.1f} MiB)"
    return verdict("memory after 250,000 samples, over 50,000", grown, LIMITS["memory"], text) and good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vllm")
    parser.add_argument("--vllm-pid", type=int)
    parser.add_argument("--samples", type=int, default=2048)
    parser.add_argument("--pairs", type=int, default=5)
    arguments = parser.parse_args()
    binary, bench = build("evenkeel", "evenkeel-bench")
    good = True
    with tempfile.TemporaryDirectory() as folder:
        back = engine(binary, folder)
        try:
            good &= beside_engine(binary, bench, "embedded engine", back.url, back.pid, arguments)
        finally:
            back.end()
    if arguments.vllm:
        good &= beside_engine(binary, bench, "real vLLM", arguments.vllm.rstrip("/"), arguments.vllm_pid, arguments)
    good &= latency(binary, bench, arguments)
    good &= throughput(binary, bench)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
