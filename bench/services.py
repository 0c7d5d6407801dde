"""A run with each service in a process of its own, for the benches that need one. They find it as they find `common.py`."""

import shutil
import signal
import subprocess
import sys

from common import free_port

NAMES = ("orchestrator", "learner", "reward", "generation", "engine")


def free_ports(count):
    ports = set()
    while len(ports) < count:
        ports.add(free_port())
    return list(ports)


def tail(path):
    return path.read_text(errors="replace")[-2000:]


class Services:
    """The services of a recipe below a folder that has its model; the run is in `runs`. A process that was killed can be started again, on the
    port that it had; an orchestrator resumes its run then."""

    def __init__(self, binary, folder, recipe, model, options=(), cores=None, own_engine=True):
        self.binary, self.folder, self.recipe, self.options, self.cores = binary, folder, recipe, options, cores or {}
        self.ports = dict(zip(NAMES, free_ports(len(NAMES))))
        address = {name: f"127.0.0.1:{port}" for name, port in self.ports.items()}
        self.settings = {
            "orchestrator": [
                f"server.listen={address['orchestrator']}", f"runs={folder / 'runs'}", f'start.set=["model.path={model}"]',
                f"endpoints.generation=http://{address['generation']}", f'endpoints.reward=["http://{address["reward"]}"]',
                f"endpoints.learner=http://{address['learner']}",
            ],
            "learner": [f"server.listen={address['learner']}", f"model={model}", f"checkpoints={folder / 'checkpoints'}", f"weights={folder / 'weights'}"],
            "reward": [f"server.listen={address['reward']}"],
            "generation": [f"server.listen={address['generation']}", f'endpoints=["http://{address["engine"]}"]'],
            "engine": [f"listen={address['engine']}", f"model={model}"],
        }
        if not own_engine:
            del self.settings["engine"]
        self.processes = {}
        if self.cores and not shutil.which("taskset"):
            sys.exit("taskset is not installed (util-linux)")

    def __enter__(self):
        # Nothing stays behind where this program is asked to end.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        # The orchestrator first: it waits for the others.
        for name in self.settings:
            self.start(name)
        return self

    def __exit__(self, *_):
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.wait()

    def start(self, name):
        command = ["taskset", "-c", str(self.cores[name])] if name in self.cores else []
        command += [self.binary, "serve", name, "--recipe", self.recipe, *self.options]
        command += [word for setting in self.settings[name] for word in ("--set", setting)]
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen([str(word) for word in command], stdout=log, stderr=log)

    def kill(self, name):
        """SIGKILL."""
        self.processes[name].kill()
        self.processes[name].wait()

    def check(self):
        """Ends the program where a service has ended by itself."""
        for name, process in self.processes.items():
            if process.poll() is not None:
                sys.exit(f"{name} ended:\n{tail(self.folder / f'{name}.log')}")
