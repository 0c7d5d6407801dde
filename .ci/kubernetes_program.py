"""What manifests say to the program: arguments, settings, names of series. All from the generated pages of docs/reference, which tests of the
program keep true; where there is a program, it reads the settings itself."""

import os
import pathlib
import re
import subprocess
import tempfile
import time

# vLLM's own, beside those of deploy/compose.gpu.yml, from `vllm serve --help=all` of 0.32: an engine over several nodes.
SEVERAL_NODES = {"--nnodes", "--node-rank", "--master-addr", "--headless", "--tensor-parallel-size", "--pipeline-parallel-size"}
# A listening port would collide with another on this machine.
ADDRESS = re.compile(r"(__LISTEN|^EVENKEEL_METRICS)$")


def sections(text):
    """Keys of each section of docs/reference/settings.md, by its heading."""
    found, heading = {}, None
    for line in text.splitlines():
        if line.startswith("## "):
            heading = line[3:]
            found[heading] = []
        elif heading and (key := re.match(r"\| `([^`]+)` \|", line)):
            found[heading].append(key[1])
    return found


def service_keys(text):
    """The keys of the settings of each server, without the name of its section in a recipe."""
    table = sections(text)
    keys = {service: {key.removeprefix(service + ".") for name, entries in table.items() if name.split(".")[0] == service for key in entries}
            for service in ("engine", "generation", "reward", "environment")}
    server = {key for key in keys["generation"] if key.startswith("server.")}
    client = {key.removeprefix("services.") for name, entries in table.items() if name.startswith("services.client") for key in entries}
    for service, parts in {"learner": ["server", "training"], "orchestrator": ["server", "endpoints", "client", "start", "limits", "page"],
                           "gateway": ["server", "client"], "weights": ["server", "client"]}.items():
        for part in parts:
            assert f"serve {service}: {part}" in table, (service, part)
        own = {key for name, entries in table.items() if name.startswith(f"serve {service}") for key in entries}
        keys[service] = own | server | (client if service != "learner" else set()) | ({*table["page"]} if service == "orchestrator" else set())
    return keys


def flags(text):
    """The flags of each command in docs/reference/commands.md."""
    found, command = {}, None
    for line in text.splitlines():
        if line.startswith("## evenkeel "):
            command = line.removeprefix("## evenkeel ").strip()
            found[command] = {"--log", "--log-format", "--help"}
        elif command and line.startswith("| `-"):
            found[command] |= set(re.findall(r"--[a-z-]+", line.split("` |")[0]))
    return found


def setting_faults(where, service, environment, keys):
    for name in environment:
        if not name.startswith("EVENKEEL__"):
            continue
        key = name.removeprefix("EVENKEEL__").lower().replace("__", ".")
        # A map has keys of its own.
        if key not in keys[service] and key.rsplit(".", 1)[0] not in keys[service] & {"server.auth.certificates", "server.auth.tokens", "endpoints.verifiers"}:
            yield f"{where}: {name} is no setting of `evenkeel serve {service}`"


def argument_faults(where, arguments, commands):
    command = arguments[0]
    if command not in commands:
        yield f"{where}: `evenkeel {command}` is no command"
        return
    known = commands[command] | commands.get(f"{command} {arguments[1]}", set())
    for argument in arguments:
        if argument.startswith("-") and argument not in known:
            yield f"{where}: `{argument}` is no flag of `evenkeel {command}`"


def vllm_faults(where, arguments, compose):
    known = set(re.findall(r"--[a-z-]+", compose)) | SEVERAL_NODES
    for argument in arguments:
        if argument.startswith("--") and argument not in known:
            yield f"{where}: `{argument}` is no flag of vLLM that is known here"


def series_labels(text):
    """Names and labels of docs/reference/series.md."""
    found = {}
    for name, labels in re.findall(r"^\| `([a-z_]+)` \| [a-z]+ \| ([^|]*)\|", text, re.M):
        found[name] = set(re.findall(r"(?:^|; )`([a-z_]+)`", labels.strip()))
    return found


def query_faults(where, query, series, namespace):
    """Series and labels that do not exist, and series of every namespace: a Prometheus may watch several runs."""
    for name, labels in re.findall(r"\b(evenkeel_[a-z_]+|process_[a-z_]+)(?:\{([^}]*)\})?", query):
        if name not in series:
            yield f"{where}: {name} is no series of docs/reference/series.md"
            continue
        if f'namespace="{namespace}"' not in labels:
            yield f"{where}: {name} is not that of the namespace `{namespace}` alone"
        for label in re.findall(r"([a-z_]+)\s*=", labels):
            if label not in series[name] | {"job", "instance", "namespace"}:
                yield f"{where}: {name} has no label `{label}`"
    if not re.search(r"evenkeel_[a-z_]+", query):
        yield f"{where}: its query names no series of the program"


def read_by(program, service, arguments, environment, recipe, seconds=3.0):
    """What the program says against arguments and settings: it is started with them, and stopped as soon as it has got past them."""
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder, "log")
        arguments = [recipe if argument.startswith("/etc/evenkeel/") else "127.0.0.1:0" if re.match(r"0\.0\.0\.0:", argument) else argument
                     for argument in arguments]
        environment = {name: "127.0.0.1:0" if ADDRESS.search(name) else value for name, value in environment.items() if name.startswith("EVENKEEL")}
        with log.open("w") as output:
            process = subprocess.Popen([program, *arguments], env={"PATH": os.environ["PATH"], "HOME": folder} | environment, cwd=folder,
                                       stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
            try:
                deadline = time.monotonic() + seconds
                while process.poll() is None and time.monotonic() < deadline and "serving" not in log.read_text():
                    time.sleep(0.05)
            finally:
                process.kill()
                process.wait()
        said = log.read_text()
    # Folders, certificates and other services are not here; all of them are looked for after every setting has been read.
    wrong = re.search(r"^.*(unknown key|unexpected argument|invalid value|has no such|in environment variable).*$", said, re.M)
    return wrong[0] if wrong else None
