"""The compose stack as the tests see it: a project of its own, its containers, its calls."""
import contextlib, json, os, pathlib, re, shutil, subprocess, tempfile, time

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The network of services that are not in `services`.
NETWORKS = {"reward": "rewards", "gateway": "rewards", "environment": "environments", "engine": "engines"}
# Values that two runs of one seed may differ in: docs/orchestrator.md, "Metrics".
MAY_DIFFER = ("sampler_audit/", "timing_s/", "perf/throughput", "perf/time_per_step", "rollout/begun_again", "rollout/verified_again", "proof/")


class Failed(AssertionError):
    """What did not hold."""


def check(holds, what):
    if not holds:
        raise Failed(what)


def command(arguments, env=None, timeout=600, allowed=(0,)):
    """Runs a program. Returns what it printed; fails with that if its status is not allowed (`None`: any is)."""
    done = subprocess.run([str(a) for a in arguments], cwd=ROOT, env=env, timeout=timeout, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if allowed is not None and done.returncode not in allowed:
        raise Failed(f"{' '.join(str(a) for a in arguments)} ended with {done.returncode}:\n{done.stdout[-3000:]}")
    return done.stdout


class Stack:
    """A compose project. Its ports are free ones, its data folder has the recipe `data/small.toml`."""

    def __init__(self, name, files=(), **variables):
        self.name, self.files = f"evenkeel-test-{name}", ["docker-compose.yml", *files]
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix=f"evenkeel-{name}-"))
        self.folder.chmod(0o755)
        shutil.copy(ROOT / "deploy/tests/small.toml", self.folder)
        self.ports = dict(zip(["EVENKEEL_PORT", "EVENKEEL_PAGE_PORT", "EVENKEEL_REWARD_PORT"], free_ports(3)))
        self.env = os.environ | {"EVENKEEL_RECIPE": "data/small.toml", "EVENKEEL_DATA": str(self.folder)}
        self.env |= {key: str(port) for key, port in self.ports.items()}
        self.env |= {key: str(value) for key, value in variables.items()}

    def __enter__(self):
        self.compose("down", "--volumes", "--remove-orphans", "--timeout", "1")
        return self

    def __exit__(self, kind, *_):
        if kind is not None:
            with contextlib.suppress(Exception):
                print(self.compose("logs", "--tail", "15", allowed=None))
        self.compose("down", "--volumes", "--remove-orphans", "--timeout", "1", allowed=None)
        shutil.rmtree(self.folder, ignore_errors=True)

    def compose(self, *arguments, allowed=(0,), timeout=2000):
        files = [part for file in self.files for part in ("-f", file)]
        return command(["docker", "compose", "-p", self.name, *files, *arguments], self.env, timeout, allowed)

    def up(self, *arguments, allowed=(0,)):
        return self.compose("up", "-d", "--no-build", *arguments, allowed=allowed)

    def containers(self, service):
        """The ids of a service's containers, running or not."""
        return self.compose("ps", "-a", "-q", service).split()

    def inspect(self, service):
        return json.loads(command(["docker", "inspect", *self.containers(service)]))

    def pid(self, service):
        return self.inspect(service)[0]["State"]["Pid"]

    def logs(self, service, tail="all"):
        said = self.compose("logs", "--no-log-prefix", "--no-color", "--tail", str(tail), service)
        # Some versions erase the line of the terminal all the same.
        return re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", said)

    def address(self, variable="EVENKEEL_PORT"):
        return f"127.0.0.1:{self.ports[variable]}"

    def inner(self, service, port):
        """Where each container of a service listens within its network. This machine can reach the containers of its own networks."""
        network = NETWORKS.get(service, "services")
        networks = [one["NetworkSettings"]["Networks"] for one in self.inspect(service)]
        return [f"{of[f'{self.name}_{network}']['IPAddress']}:{port}" for of in networks]

    def orchestrator(self, method, request=None):
        from calls import Reflected
        with Reflected(self.address()) as client:
            return client.call(f"evenkeel.v1.Orchestrator/{method}", request or {})[0]

    def run(self, name="small"):
        """The run's state as the orchestrator tells it, or None while it does not answer."""
        import grpc
        try:
            return self.orchestrator("GetRun", {"run_id": name})["run"]
        except (grpc.RpcError, KeyError):
            return None

    def wait_for(self, what, holds, within=300, every=0.2):
        began = time.monotonic()
        while not (found := holds()):
            check(time.monotonic() - began < within, f"{what}: not within {within} s; {self.run()}")
            time.sleep(every)
        return found

    def wait_for_step(self, step, within=300):
        self.wait_for(f"step {step}", lambda: (run := self.run()) and int(run.get("step", 0)) >= step, within)

    def wait_for_end(self, within=600, name="small"):
        ended = {"RUN_STATE_COMPLETED", "RUN_STATE_FAILED", "RUN_STATE_STOPPED"}
        return self.wait_for("the end of the run", lambda: (run := self.run(name)) and run["state"] in ended and run, within, 0.5)

    def file(self, path):
        """A file of the orchestrator's container."""
        to = self.folder / "copied"
        self.compose("cp", f"orchestrator:{path}", str(to))
        return to.read_text()

    def metrics(self, name="small"):
        """All lines of a run without what may differ between two runs of one seed."""
        lines = []
        for file in ("warm_start", "metrics", "evaluation"):
            for line in self.file(f"/data/runs/{name}/{file}.jsonl").splitlines():
                lines.append({k: v for k, v in json.loads(line).items() if not k.startswith(MAY_DIFFER)})
        return lines

    def volume(self, name):
        """Where the engine of this machine keeps a volume: needs root."""
        return pathlib.Path(command(["docker", "volume", "inspect", "-f", "{{.Mountpoint}}", f"{self.name}_{name}"]).strip())


def free_ports(count):
    import socket
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports
