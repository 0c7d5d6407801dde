#!/usr/bin/env python3
"""Runs a short training with every service as a process, and holds what it shows against what is promised: every series that
docs/reference/series.md lists, every query of every dashboard and every rule, against a real Prometheus. No result may be empty, except of what
needs something that this run has not (marked "only with"). Needs `prometheus` and `promtool` (Debian: apt-get install prometheus).

    cargo build --release --features traces
    python3 deploy/observe/check/run.py
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from stack import SERVICES, Prometheus, Processes, Stack, get

ROOT = Path(__file__).resolve().parents[3]
OBSERVE = ROOT / "deploy/observe"
PAGE = ROOT / "docs/reference/series.md"
# Tables of the page that hold for a process.
TABLES = {
    "engine": ["Every process", "Engine"],
    "generation": ["Every process", "Every gRPC server", "Servers of items: generation, reward, gateway, learner", "Generation"],
    "reward": ["Every process", "Every gRPC server", "Servers of items: generation, reward, gateway, learner", "Reward"],
    "gateway": ["Every process", "Every gRPC server", "Servers of items: generation, reward, gateway, learner", "Their clients: orchestrator, gateway"],
    "learner": ["Every process", "Every gRPC server", "Servers of items: generation, reward, gateway, learner", "Learner"],
    "orchestrator": ["Every process", "Every gRPC server", "Their clients: orchestrator, gateway", "Orchestrator"],
}
# Longest time that the run may take, in seconds.
LIMIT = 900
problems = []


def problem(text):
    problems.append(text)
    print(f"PROBLEM: {text}")


def tables():
    """Names by heading, and whether each is there in every run."""
    found, heading = {}, ""
    for line in PAGE.read_text().splitlines():
        if line.startswith("## "):
            heading = line[3:]
        elif row := re.match(r"\| `([a-z_:]+)` \|", line):
            found.setdefault(heading, {})[row[1]] = "(only with" not in line
    return found


def names(text):
    """Names of the series in a scrape, those of a histogram as one."""
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M))
    shown = {re.split(r"[{ ]", line)[0] for line in text.splitlines() if line and not line.startswith("#")}
    base = lambda name: re.sub(r"_(bucket|sum|count)$", "", name)
    return {base(name) if kinds.get(base(name)) == "histogram" else name for name in shown}


def check_series(stack):
    listed = tables()
    for service in SERVICES:
        text = stack.scrape(service)
        shown = {name for name in names(text) if not name.startswith("vllm:")}
        mine = {name: always for heading in TABLES[service] for name, always in listed[heading].items()}
        for name in sorted(shown - set(mine)):
            problem(f"{service} shows {name}, which the page does not list")
        for name in sorted(name for name, always in mine.items() if always and name not in shown):
            problem(f"{service} does not show {name}, which the page lists")
        helped = set(re.findall(r"^# HELP (\S+) .", text, re.M))
        for name in sorted(shown - helped):
            problem(f"{service} shows {name} without a help text")
        lines = sum(not line.startswith("#") for line in text.splitlines())
        print(f"{service}: {len(shown)} series in {lines} lines, {len(mine) - len(shown)} of the page need what this run has not")


def check_panels(prometheus):
    for path in sorted((OBSERVE / "dashboards").glob("*.json")):
        board = json.loads(path.read_text())
        filled = skipped = 0
        for panel in board["panels"]:
            if not panel["description"].strip():
                problem(f"{path.name}: `{panel['title']}` has no description")
            for target in panel["targets"]:
                found = prometheus.series(target["expr"].replace("$__rate_interval", "10s"))
                if found:
                    filled += 1
                elif " Only with " in panel["description"]:
                    skipped += 1
                    print(f"  empty here, {panel['description'].rsplit(' Only', 1)[1].strip()}: {panel['title']}")
                else:
                    problem(f"{path.name}: `{panel['title']}` has nothing for {target['expr']}")
        print(f"{path.name}: {len(board['panels'])} panels, {filled} queries with data, {skipped} that need more")


def check_rules(prometheus):
    optional = {name for rows in tables().values() for name, always in rows.items() if not always}
    count = 0
    for group in prometheus.ask("rules")["groups"]:
        for rule in group["rules"]:
            count += 1
            if rule["health"] != "ok":
                problem(f"rule {rule['name']}: {rule['health']} {rule.get('lastError', '')}")
            for name in set(re.findall(r"\b(?:evenkeel_[a-z_]+|process_[a-z_]+|up)\b(?=[{\[ )])", rule["query"] + " ")):
                if name not in optional and not prometheus.series(name):
                    problem(f"rule {rule['name']}: there is no {name}")
            if any(alert["state"] == "firing" for alert in rule["alerts"]):
                problem(f"{rule['name']} fires in a run in which nothing is wrong")
    print(f"{count} rules evaluated")


def check_files():
    """What needs no run: rules and their tests, anchors of runbooks, dashboards as they are generated, compose files."""
    for command in (["check", "rules", "rules.yml"], ["test", "rules", "rules_test.yml"]):
        done = subprocess.run(["promtool", *command], cwd=OBSERVE, capture_output=True, text=True)
        if done.returncode:
            problem(f"promtool {' '.join(command)}: {done.stdout}{done.stderr}")
    done = subprocess.run([sys.executable, OBSERVE / "dashboards.py", "--check"], capture_output=True, text=True)
    if done.returncode:
        problem(done.stderr.strip())
    if shutil.which("docker"):
        command = ["docker", "compose", "-f", "docker-compose.yml", "-f", "deploy/compose.observe.yml", "config", "-q"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            problem(f"compose: {done.stderr.strip()}")
    else:
        print("there is no docker: compose.observe.yml is not checked")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, default=ROOT / "target/release/evenkeel", help="the binary")
    options = parser.parse_args()
    check_files()
    processes = Processes()
    with tempfile.TemporaryDirectory(prefix="evenkeel-observe-") as folder:
        folder = Path(folder)
        try:
            stack = Stack(options.program.resolve(), folder, processes)
            prometheus = Prometheus(stack.targets, folder, processes)
            prometheus.wait_until_ready()
            began = time.monotonic()
            while stack.state() != "completed":
                processes.check()
                if stack.state() in ("failed", "stopped") or time.monotonic() - began > LIMIT:
                    log = folder / "orchestrator.log"
                    sys.exit(f"the run did not complete ({stack.state() or 'time limit'}):\n{log.read_text()[-3000:]}")
                if (stack.run / "metrics.jsonl").exists():
                    get(stack.page)
                time.sleep(0.5)
            print(f"the run took {time.monotonic() - began:.0f} s")
            # The last values are scraped, and the rules have seen them.
            time.sleep(5)
            check_series(stack)
            check_panels(prometheus)
            check_rules(prometheus)
        finally:
            processes.stop()
    if problems:
        sys.exit(f"{len(problems)} problems")
    print("everything that is promised is there")


if __name__ == "__main__":
    main()
