"""The services as processes, each with its metrics, and a Prometheus that scrapes them."""

import json
import shutil
import signal
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
RECIPE = HERE / "recipe.toml"
RULES = HERE.parent / "rules.yml"
SERVICES = ["engine", "generation", "reward", "gateway", "learner", "orchestrator"]


def free_ports(count):
    listeners = [socket.socket() for _ in range(count)]
    for listener in listeners:
        listener.bind(("127.0.0.1", 0))
    ports = [listener.getsockname()[1] for listener in listeners]
    for listener in listeners:
        listener.close()
    return ports


def get(url, timeout=10):
    with urllib.request.urlopen(url, timeout=timeout) as answer:
        return answer.read().decode()


class Processes:
    """Ends what it has started."""

    def __init__(self):
        self.started = []

    def start(self, name, command, log):
        process = subprocess.Popen([str(word) for word in command], stdout=log.open("wb"), stderr=subprocess.STDOUT)
        self.started.append((name, process, log))

    def check(self):
        for name, process, log in self.started:
            if process.poll() is not None:
                raise SystemExit(f"{name} ended with {process.returncode}:\n{log.read_text()[-3000:]}")

    def stop(self):
        for _, process, _ in reversed(self.started):
            process.send_signal(signal.SIGTERM)
        for _, process, _ in self.started:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()


class Stack:
    """A run with each service in a process of its own, below a folder."""

    def __init__(self, program, folder, processes, observed=True, traces=None):
        subprocess.run([program, "model", "--recipe", RECIPE, "--out", folder / "model"], check=True, capture_output=True)
        ports = dict(zip(SERVICES, free_ports(len(SERVICES))))
        metrics = dict(zip(SERVICES[1:], free_ports(len(SERVICES) - 1)))
        # The engine has its metrics on the port of its API.
        self.targets = {"engine": f"127.0.0.1:{ports['engine']}"} | {name: f"127.0.0.1:{port}" for name, port in metrics.items()}
        self.run = folder / "runs/recipe"

        def start(name, *settings):
            command = [program, "serve", name, "--recipe", RECIPE, "--log", "warn"]
            if observed and name in metrics:
                command += ["--metrics", f"127.0.0.1:{metrics[name]}"]
            if traces:
                command += ["--traces", traces]
            for setting in settings:
                command += ["--set", setting]
            processes.start(name, command, folder / f"{name}.log")

        listen = lambda name: f"server.listen=127.0.0.1:{ports[name]}"
        start("engine", f"listen=127.0.0.1:{ports['engine']}", f"model={folder}/model")
        start("generation", listen("generation"), f'endpoints=["http://127.0.0.1:{ports["engine"]}"]')
        start("reward", listen("reward"))
        start("gateway", listen("gateway"), f'endpoints=["http://127.0.0.1:{ports["reward"]}"]')
        start("learner", listen("learner"), f"model={folder}/model", f"checkpoints={folder}/checkpoints", f"weights={folder}/weights")
        page = free_ports(1)[0]
        self.page = f"http://127.0.0.1:{page}/"
        start("orchestrator", listen("orchestrator"), f"runs={folder}/runs", f'start.set=["model.path={folder}/model"]',
              f"endpoints.generation=http://127.0.0.1:{ports['generation']}", f'endpoints.reward=["http://127.0.0.1:{ports["reward"]}"]',
              f"endpoints.learner=http://127.0.0.1:{ports['learner']}", f"page.listen=127.0.0.1:{page}")

    def state(self):
        try:
            return json.loads((self.run / "summary.json").read_text())["state"]
        except (OSError, ValueError):
            return ""

    def scrape(self, name):
        return get(f"http://{self.targets[name]}/metrics")


class Prometheus:
    """Scrapes and evaluates every second."""

    def __init__(self, targets, folder, processes):
        prometheus = shutil.which("prometheus") or exit("there is no prometheus: apt-get install prometheus")
        jobs = [{"job_name": name, "static_configs": [{"targets": [target]}]} for name, target in targets.items()]
        config = {"global": {"scrape_interval": "1s", "evaluation_interval": "1s"}, "rule_files": [str(RULES)], "scrape_configs": jobs}
        # JSON is YAML.
        (folder / "prometheus.json").write_text(json.dumps(config))
        port = free_ports(1)[0]
        self.url = f"http://127.0.0.1:{port}"
        command = [prometheus, f"--config.file={folder}/prometheus.json", f"--storage.tsdb.path={folder}/tsdb", f"--web.listen-address=127.0.0.1:{port}"]
        processes.start("prometheus", command, folder / "prometheus.log")
        self.began = time.time()

    def ask(self, what, **parameters):
        answer = json.loads(get(f"{self.url}/api/v1/{what}?{urllib.parse.urlencode(parameters)}", timeout=60))
        return answer["data"]

    def wait_until_ready(self):
        for _ in range(300):
            try:
                return get(f"{self.url}/-/ready")
            except OSError:
                time.sleep(0.1)
        raise SystemExit("Prometheus does not answer")

    def series(self, expression):
        """Every series of a query over the whole run, with its values that are numbers."""
        found = self.ask("query_range", query=expression, start=self.began, end=time.time(), step="1")["result"]
        numbers = lambda values: [float(value) for _, value in values if value != "NaN"]
        return [(one["metric"], values) for one in found if (values := numbers(one["values"]))]
