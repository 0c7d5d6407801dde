#!/usr/bin/env python3
"""Every service under abuse, beside honest clients of mathematics and programs, on loopback.

    python3 bench/abuse/run.py [--minutes 2] [--quiet-minutes 1] [--binaries DIR] [--keep DIR]

Starts reward (with processes for programs), engine, generation, learner and orchestrator with 1,024 descriptors each, lets a short run
train, and then

1. rehearsal: a minute of what follows, so that everything has run once that costs memory once (`fresh` is what was there before);
2. quiet: honest clients alone, which load two cores by about a third;
3. abuse: the same honest clients beside hostile ones of every kind (src/attack), while processes of the sandbox are killed and stopped;
4. after: the honest clients alone again, and then the run goes on for two more steps.

What must hold: every honest item gets the verdict that it has alone, which is the one that is written beside it; its 99th percentile
under abuse is at most three times the quiet one; every health check on a new connection is answered within five seconds; the memory of
each service with its processes (PSS) ends at most a tenth, or 2 MiB, above where it began; no service ends or panics; logs have no control
characters and no endless lines; no stranger's run, checkpoint or weights are there at the end. Exits with 1 where one does not.

Hostile clients are paced so that a good part of the machine stays free, and bounded in number and time: `cpu` says what everybody took, in
cores. `others` are unrelated processes, such as builds: where they have a priority of their own (SCHED_IDLE) they take
little from anybody, otherwise run this on a quiet machine. Needs about 6 GB of memory, and Linux.
"""

import argparse
import base64
import json
import os
import pickle
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import ROOT, build, free_port  # noqa: E402

RECIPE = ROOT / "cli/tests/suite/small.toml"
TICKS = os.sysconf("SC_CLK_TCK")
DESCRIPTORS = 1024
LIMITS = {"p99": 3.0, "memory": 1.10, "line": 10_000}
# What code that runs for the first time costs a service of ten megabytes, whatever it does.
FLOOR_MIB = 2.0
SAMPLE_S = 2.0
# Time between signals to processes of the sandbox. Each costs the programs in that process a second try, so that more would be the 99th
# percentile by themselves.
SIGNALS_S = {signal.SIGKILL: 20, signal.SIGSTOP: 90}
REHEARSAL_MINUTES = 1


def build_into(folder):
    for program in build("evenkeel", "evenkeel-bench"):
        # Copies: another build replaces what it built while this runs.
        shutil.copy2(program, folder)


def at(port):
    return f"127.0.0.1:{port}"


def apart_from_others():
    """Goes on in a session of its own, at normal priority within it and, where that is allowed, before the work of other sessions.

    Linux shares CPU time among sessions first (`sched_autogroup_enabled`), so that builds in another one would take half of the machine
    even in SCHED_IDLE.
    """
    child = os.fork()
    if child:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda number, _: os.kill(child, number))
        _, status = os.waitpid(child, 0)
        sys.exit(os.waitstatus_to_exitcode(status) & 0xFF)
    os.setsid()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    try:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        Path("/proc/self/autogroup").write_text("-10")
    except OSError as error:
        print(f"others may take CPU time from this: {error}", file=sys.stderr)


def tree(pid):
    """A process and everything that it started."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            for child in task.read_text().split():
                found += tree(int(child))
        except OSError:
            pass
    return found


def cpu_seconds(pid, reaped=True):
    total = 0
    for one in tree(pid):
        try:
            fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += sum(map(int, fields[11:15] if reaped else fields[11:13]))
    return total / TICKS


def machine_cpu_seconds():
    """CPU time that anybody took, since the start of the machine."""
    fields = list(map(int, Path("/proc/stat").read_text().splitlines()[0].split()[1:9]))
    return (sum(fields) - fields[3] - fields[4]) / TICKS


def memory_mib(pid, kind="Pss"):
    """Of a process and everything that it started, what they share being counted once."""
    total = 0
    for one in tree(pid):
        try:
            lines = Path(f"/proc/{one}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith(f"{kind}:"))
    return total / 1024


def parts(pid):
    """Anonymous and other memory of a process, and the number and memory of what it started."""
    anonymous = 0
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        anonymous += int(line.split()[1]) if line.startswith("Anonymous:") else 0
    children = tree(pid)[1:]
    of_children = sum(memory_mib(child) for child in children)
    return f"anonymous {anonymous / 1024:.1f}, {len(children)} processes with {of_children:.1f}"


class Server:
    """A service that is ended with the bench."""

    def __init__(self, name, command, folder):
        self.name, self.log = name, folder / f"{name}.log"

        def limited():
            resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))

        with self.log.open("wb") as log:
            command = [str(word) for word in command]
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, preexec_fn=limited)
        self.pid, self.peak = self.process.pid, 0.0

    def ended(self):
        return self.process.poll() is not None

    def end(self):
        self.process.terminate()
        try:
            self.process.wait(60)
            return True
        except subprocess.TimeoutExpired:
            self.process.kill()
            return False


class Services:
    def __init__(self, binary, folder):
        self.folder, self.servers, self.ports = folder, {}, {}
        names = ["reward", "engine", "generation", "learner", "orchestrator", "reward-metrics", "learner-metrics"]
        self.ports = {name: free_port() for name in names}
        model = folder / "model"
        subprocess.run([binary, "model", "--recipe", RECIPE, "--out", model], check=True, stdout=subprocess.DEVNULL)
        shutil.copytree(model, folder / "foreign")
        port, place = self.ports, lambda name: f"{name}={folder / name}"
        listen = lambda name: f"server.listen={at(port[name])}"
        url = lambda name: f"http://{at(port[name])}"
        # What tests that were seen are kept in is made small, so that what is left in the end is not what is kept on purpose.
        self.start(binary, "reward", [listen("reward"), "code.sandbox=at_start", "code.tests_cache=1MiB"], "reward-metrics")
        self.start(binary, "engine", [f"listen={at(port['engine'])}", place("model"), f'weights_roots=["{folder}/weights"]'])
        self.start(binary, "generation", [listen("generation"), f'endpoints=["{url("engine")}"]', f'weights.roots=["{folder}/weights"]'])
        settings = [listen("learner"), place("model"), place("checkpoints"), place("weights")]
        self.start(binary, "learner", settings, "learner-metrics")
        endpoints = [f"endpoints.{name}={url(name)}" for name in ("generation", "learner")]
        self.start(binary, "orchestrator", [listen("orchestrator"), place("runs"), f'endpoints.reward=["{url("reward")}"]', *endpoints])

    def start(self, binary, name, settings, metrics=None):
        command = [binary, "serve", name, "--recipe", RECIPE]
        if name == "orchestrator":
            # With a recipe it would begin with a run of its own.
            command = command[:3]
        for setting in settings:
            command += ["--set", setting]
        if metrics:
            command += ["--metrics", at(self.ports[metrics])]
        self.servers[name] = Server(name, command, self.folder)

    def probes(self):
        grpc = [f"{name}={at(self.ports[name])}" for name in ("reward", "generation", "learner", "orchestrator")]
        http = [f"engine={at(self.ports['engine'])}/health"]
        return grpc + http + [f"{name}={at(self.ports[name])}/metrics" for name in ("reward-metrics", "learner-metrics")]

    def targets(self, rows):
        named = {name: at(self.ports[name]) for name in ("reward", "engine", "generation", "learner", "orchestrator")}
        metrics = [at(self.ports[name]) for name in ("reward-metrics", "learner-metrics")]
        foreign = str(self.folder / "foreign")
        return named | {"metrics": metrics, "rows": [str(row) for row in rows], "foreign_weights": foreign}

    def check(self):
        for server in self.servers.values():
            if server.ended():
                sys.exit(f"{server.name} ended:\n{server.log.read_text(errors='replace')[-3000:]}")

    def end(self):
        return [server.name for server in self.servers.values() if not server.end()]


def write_rows(folder):
    """Private tests that are small on the way: base64 of zlib of a pickle, as LiveCodeBench publishes them."""
    paths = []
    for mib in (64, 256):
        test = json.dumps([{"input": "7" * (mib << 20), "output": "7", "testtype": "stdin"}])
        paths.append(folder / f"row-{mib}.txt")
        paths[-1].write_bytes(base64.b64encode(zlib.compress(pickle.dumps(test))))
    return paths


class Watch(threading.Thread):
    """Memory of every service, again and again."""

    def __init__(self, services):
        super().__init__(daemon=True)
        self.services, self.over = services, threading.Event()

    def run(self):
        while not self.over.wait(SAMPLE_S):
            for server in self.services.servers.values():
                server.peak = max(server.peak, memory_mib(server.pid))


class Signals(threading.Thread):
    """Ends and stops processes of the sandbox."""

    def __init__(self, pid, seconds):
        super().__init__(daemon=True)
        self.pid, self.end, self.over, self.sent = pid, time.time() + seconds, threading.Event(), {}
        self.random = random.Random(1)

    def run(self):
        due = {number: time.time() + period / 2 for number, period in SIGNALS_S.items()}
        while time.time() < self.end and not self.over.wait(0.5):
            for number, period in SIGNALS_S.items():
                children = tree(self.pid)[1:]
                if time.time() < due[number] or not children:
                    continue
                due[number] = time.time() + period
                try:
                    os.kill(self.random.choice(children), number)
                    self.sent[number.name] = self.sent.get(number.name, 0) + 1
                except ProcessLookupError:
                    pass


def phase(name, bench, services, minutes, targets=None):
    """One phase: what honest clients and probes found, what hostile ones did, and who took how much CPU time."""
    print(f"{name}: {minutes:g} minutes", flush=True)
    seconds = 60 * minutes
    begun, machine = time.time(), machine_cpu_seconds()
    before = {server.name: cpu_seconds(server.pid) for server in services.servers.values()}
    honest = [bench, "abuse", "honest", f"http://{at(services.ports['reward'])}", str(seconds)]
    clients = {"honest": honest, "probe": [bench, "abuse", "probe", str(seconds), *services.probes()]}
    if targets:
        clients["attack"] = [bench, "abuse", "attack", str(seconds), targets]
    signals = Signals(services.servers["reward"].pid, seconds) if targets else None
    running = {}
    for kind, command in clients.items():
        running[kind] = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True)
    if signals:
        signals.start()
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    found, outputs = {}, {}
    readers = [threading.Thread(target=lambda kind=kind: outputs.update({kind: running[kind].stdout.read()})) for kind in running]
    for reader in readers:
        reader.start()
    while any(reader.is_alive() for reader in readers):
        time.sleep(0.5)
        services.check()
        if time.time() - begun > seconds + 400:
            for process in running.values():
                process.kill()
    for kind, process in running.items():
        if process.wait():
            sys.exit(f"the {kind} clients failed with {process.returncode}")
        found[kind] = json.loads(outputs[kind])
    if signals:
        signals.over.set()
        found["signals"] = signals.sent
    took = time.time() - begun
    cores = {server.name: (cpu_seconds(server.pid) - before[server.name]) / took for server in services.servers.values()}
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cores["clients"] = (after.ru_utime + after.ru_stime - usage.ru_utime - usage.ru_stime) / took
    cores["others"] = max(0.0, (machine_cpu_seconds() - machine) / took - sum(cores.values()))
    found["cores"] = cores
    return found


def memories(services):
    found = {}
    for server in services.servers.values():
        found[server.name] = memory_mib(server.pid)
        print(f"  {server.name}: {found[server.name]:.1f} MiB: {parts(server.pid)}", flush=True)
    return found


class Verdict:
    good = True

    def say(self, name, good, text):
        self.good &= good
        print(f"  {name:<52} {text:<44} {'ok' if good else 'MISSED'}", flush=True)


def report(phases, memory, services, verdict):
    for name, found in phases.items():
        print(f"{name}: cpu in cores: " + ", ".join(f"{who} {cores:.2f}" for who, cores in found["cores"].items()))
        for kind, line in found["honest"]["latencies"].items():
            print(f"  {kind:<12} {line['count']} items, ms: p50 {line['p50_ms']:.1f}, p90 {line['p90_ms']:.1f}, p99 {line['p99_ms']:.1f}, most {line['max_ms']:.1f}")
        for line in found["honest"]["dispatch"]:
            print(f"  {line}")
    print("abuse, by kind:")
    for kind, counts in phases["abuse"]["attack"].items():
        print(f"  {kind}: " + ", ".join(f"{what} {count}" for what, count in counts.items()))
    print(f"  signals: {phases['abuse']['signals']}")
    print("bounds:")
    alone = phases["quiet"]["honest"]["verdicts"]
    for name, found in phases.items():
        honest = found["honest"]
        verdict.say(f"{name}: verdicts other than written", honest["unexpected"] == 0, str(honest["unexpected"]))
        for line in honest["first_unexpected"][:3]:
            print(f"    {line[:300]}")
        other = [problem for problem, verdicts in honest["verdicts"].items() if len(verdicts) != 1 or verdicts != alone[problem]]
        verdict.say(f"{name}: problems with other verdicts than alone", not other, str(len(other)))
        for problem in other[:5]:
            print(f"    {problem}: {honest['verdicts'][problem]} alone {alone[problem]}"[:600])
        for server, line in found["probe"].items():
            text = f"{line['failed']} of {line['failed'] + line['latency']['count']}, p99 {line['latency']['p99_ms']:.1f} ms"
            verdict.say(f"{name}: health checks of {server} that failed", line["failed"] == 0, text)
            for failure in sorted(set(line["failures"])):
                print(f"    {failure[:300]}")
    for kind, line in phases["quiet"]["honest"]["latencies"].items():
        quiet, abused = line["p99_ms"], phases["abuse"]["honest"]["latencies"][kind]["p99_ms"]
        verdict.say(f"{kind}: p99 under abuse, over quiet", abused <= LIMITS["p99"] * quiet, f"{abused / quiet:.2f} ({quiet:.1f} -> {abused:.1f} ms)")
    for server in services.servers.values():
        begin, end = memory["begin"][server.name], memory["end"][server.name]
        text = f"{end / begin:.3f} ({begin:.1f} -> {end:.1f} MiB, most {server.peak:.1f})"
        most = max(LIMITS["memory"] * begin, begin + FLOOR_MIB)
        verdict.say(f"{server.name}: memory at the end, over the beginning", end <= most, text)


def check_logs(services, verdict):
    for server in services.servers.values():
        text = server.log.read_bytes()
        panics = text.count(b"panicked at")
        odd = len(re.findall(rb"[\x00-\x08\x0b-\x1f\x7f]", text))
        longest = max(map(len, text.splitlines()), default=0)
        good = not panics and not odd and longest <= LIMITS["line"]
        found = f"{len(text)} bytes, {panics} panics, {odd} control characters, longest line {longest}"
        verdict.say(f"{server.name}: its log", good, found)


def check_strangers(folder, verdict):
    left = [str(path.relative_to(folder)) for path in folder.rglob("*stranger*")]
    verdict.say("runs and checkpoints of strangers", not left, ", ".join(left[:5]) or "none")


def train(bench, services, steps, resume=False):
    command = [bench, "abuse", "train", at(services.ports["orchestrator"]), RECIPE, f"model.path={services.folder}/model", str(steps)]
    command += ["resume"] if resume else []
    return subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True, timeout=600)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=2, help="of abuse")
    parser.add_argument("--quiet-minutes", type=float, default=1, help="before and after")
    parser.add_argument("--binaries", type=Path, help="a folder with evenkeel and evenkeel-bench, instead of a build")
    parser.add_argument("--keep", type=Path, help="where logs and results are left")
    arguments = parser.parse_args()
    apart_from_others()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    # The hostile clients need more than the servers have.
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    verdict = Verdict()
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        if arguments.binaries:
            for name in ("evenkeel", "evenkeel-bench"):
                shutil.copy2(arguments.binaries / name, folder)
        else:
            build_into(folder)
        binary, bench = folder / "evenkeel", folder / "evenkeel-bench"
        services = Services(binary, folder)
        watch = Watch(services)
        try:
            trained = train(bench, services, 2)
            if trained.returncode:
                services.check()
                sys.exit(f"the first run failed: {trained.stdout}")
            phases, memory = {}, {"fresh": memories(services)}
            targets = folder / "targets.json"
            targets.write_text(json.dumps(services.targets(write_rows(folder))))
            phases["rehearsal"] = phase("rehearsal", bench, services, REHEARSAL_MINUTES, targets)
            phases["quiet"] = phase("quiet", bench, services, arguments.quiet_minutes)
            memory["begin"] = memories(services)
            watch.start()
            phases["abuse"] = phase("abuse", bench, services, arguments.minutes, targets)
            memory["right after"] = memories(services)
            phases["after"] = phase("after", bench, services, arguments.quiet_minutes)
            watch.over.set()
            memory["end"] = memories(services)
            report(phases, memory, services, verdict)
            trained = train(bench, services, 4, resume=True)
            verdict.say("the run goes on", trained.returncode == 0, trained.stdout.strip()[:200])
            check_strangers(folder, verdict)
        finally:
            late = services.end()
            if arguments.keep:
                arguments.keep.mkdir(parents=True, exist_ok=True)
                for server in services.servers.values():
                    shutil.copy2(server.log, arguments.keep)
        check_logs(services, verdict)
        verdict.say("services that did not end at SIGTERM", not late, ", ".join(late) or "none")
        if arguments.keep:
            (arguments.keep / "result.json").write_text(json.dumps({"phases": phases, "memory": memory}, indent=1))
    sys.exit(0 if verdict.good else 1)


if __name__ == "__main__":
    main()
