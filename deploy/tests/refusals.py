"""Bad input is refused at the start, by name: exit status 1, and the last line of the service's log says it."""
import contextlib, os, socket

from stack import Stack, check, command


def refused(stack, service, *words, up=("--no-deps",)):
    """Starts one service, which must end by itself and say why in its last line."""
    stack.up(*up, service, allowed=None)
    ended = lambda: (state := stack.inspect(service)[0])["State"]["ExitCode"] != 0 and state
    state = stack.wait_for(f"the end of {service}", ended, 120)
    check(state["State"]["ExitCode"] == 1, f"{service} ended with {state['State']['ExitCode']}")
    last = stack.logs(service).strip().splitlines()[-1]
    check(last.startswith("error: "), f"the last line of {service}: {last}")
    for word in words:
        check(word in last, f"`{word}` is not in the last line of {service}: {last}")
    return last


def once(**variables):
    """A stack whose services are started once, so that an exit status stays what it is."""
    stack = Stack("refusals", **variables)
    overlay = stack.folder / "once.yml"
    services = ["engine", "generation", "reward", "gateway", "learner", "orchestrator"]
    overlay.write_text("services:\n" + "".join(f"  {name}: {{ restart: 'no' }}\n" for name in services))
    stack.files.append(str(overlay))
    return stack


def overlay(stack, text):
    path = stack.folder / f"overlay-{len(stack.files)}.yml"
    path.write_text(text)
    stack.files.append(str(path))


def missing_volume():
    """Nothing is mounted where the learner keeps its checkpoints."""
    with once() as stack:
        overlay(stack, 'services:\n  learner:\n    volumes: !override ["start:/data/start:ro", "${EVENKEEL_DATA}:/data/data:ro", "weights:/data/weights"]\n')
        stack.up("model")
        stack.wait_for("the model", lambda: stack.inspect("model")[0]["State"]["Status"] == "exited")
        return refused(stack, "learner", "/data/checkpoints", "ead-only")


def volume_without_permission():
    with once() as stack:
        closed = stack.folder / "closed"
        closed.mkdir(mode=0o755)
        overlay(stack, f'services:\n  learner:\n    volumes: ["{closed}:/data/checkpoints"]\n')
        stack.up("model")
        stack.wait_for("the model", lambda: stack.inspect("model")[0]["State"]["Status"] == "exited")
        return refused(stack, "learner", "/data/checkpoints", "ermission denied")


def unknown_recipe():
    with once(EVENKEEL_RECIPE="arithmetics") as stack:
        return refused(stack, "model", "recipe", "arithmetics", "arithmetic", up=())


def a_port_that_is_taken():
    """Two services on one port: with the network of the machine they share its ports."""
    with once() as stack, contextlib.closing(socket.create_server(("127.0.0.1", 0))) as other:
        port = other.getsockname()[1]
        overlay(stack, f"services:\n  reward:\n    network_mode: host\n    networks: !reset []\n    environment: {{ EVENKEEL__SERVER__LISTEN: '127.0.0.1:{port}' }}\n")
        return refused(stack, "reward", f"cannot listen on 127.0.0.1:{port}", "server.listen", "in use")


def a_published_port_that_is_taken():
    """Docker itself refuses it, and names the port."""
    with once() as stack, contextlib.closing(socket.create_server(("127.0.0.1", 0))) as other:
        port = other.getsockname()[1]
        stack.env["EVENKEEL_REWARD_PORT"] = str(port)
        said = stack.compose("up", "--no-build", "-d", "--no-deps", "gateway", allowed=None)
        check(str(port) in said and "in use" in said, said[-500:])
        return said.strip().splitlines()[-1]


def half_written_certificate():
    with once() as stack:
        certificates = stack.folder / "certificates"
        stack.env["EVENKEEL_CERTIFICATES"] = str(certificates)
        command(["deploy/certificates.sh", certificates])
        certificate = certificates / "reward/certificate.pem"
        certificate.write_bytes(certificate.read_bytes()[:200])
        stack.files.insert(1, "deploy/compose.tls.yml")
        return refused(stack, "reward", "server.tls.certificate_file", "/certificates/certificate.pem", "PEM")


def short_token():
    with once() as stack:
        (stack.folder / "token").write_text("hunter2\n")
        overlay(stack, "services:\n  reward: { environment: { EVENKEEL__SERVER__TOKEN_FILE: data/token } }\n")
        last = refused(stack, "reward", "server.token_file", "data/token", "16 or more")
        check("hunter2" not in last, f"the token is shown: {last}")
        return last


def empty_data_folder():
    with once() as stack:
        (stack.folder / "rows.toml").write_text('base = "arithmetic"\n[data]\nfiles = ["data/rows/*.jsonl"]\n[warm_start]\nsteps = 0\n')
        (stack.folder / "rows").mkdir()
        stack.env["EVENKEEL_RECIPE"] = "data/rows.toml"
        stack.up("model", "learner", "engine", "generation", "reward")
        return refused(stack, "orchestrator", "data.files is data/rows/*.jsonl, which does not exist")


def missing_model():
    """A recipe of the paper without its model folder."""
    with once(EVENKEEL_RECIPE="paper/qwen3-1.7b-dapo-balanced") as stack:
        return refused(stack, "model", "model.path", "models/Qwen3-1.7B", "No such file", up=())


def gpu_that_is_not_there():
    with once() as stack:
        (stack.folder / "cuda.toml").write_text('base = "small.toml"\n[learner.compute]\ndevice = "cuda"\n')
        stack.env["EVENKEEL_RECIPE"] = "data/cuda.toml"
        stack.up("model")
        stack.wait_for("the model", lambda: stack.inspect("model")[0]["State"]["Status"] == "exited")
        return refused(stack, "learner", "compute.device", "cuda")


def gpu_that_docker_does_not_have():
    """Docker itself refuses it."""
    with once() as stack:
        device = "{ driver: nvidia, device_ids: ['7'], capabilities: [gpu] }"
        overlay(stack, f"services:\n  reward:\n    deploy: {{ resources: {{ reservations: {{ devices: [{device}] }} }} }}\n")
        said = stack.compose("up", "--no-build", "-d", "--no-deps", "reward", allowed=None)
        check("nvidia" in said and "could not select device driver" in said, said[-500:])
        return said.strip().splitlines()[-1]


def engine_without_routes():
    with once() as stack:
        overlay(stack, "services:\n  engine: { environment: { EVENKEEL__DEVELOPMENT_ROUTES: 'false' } }\n")
        stack.up("model", "engine")
        return refused(stack, "generation", "routes for weight updates", "VLLM_SERVER_DEV_MODE", "routes_required")


def vllm_without_routes():
    """A real vLLM without VLLM_SERVER_DEV_MODE; where there is none, this is said and left out."""
    if not {"VLLM_IMAGE", "VLLM_ENV", "VLLM_PYTHON"} <= set(os.environ):
        return "left out: VLLM_IMAGE, VLLM_ENV and VLLM_PYTHON name no vLLM"
    with once(VLLM_SERVER_DEV_MODE="0") as stack:
        stack.files.insert(1, "deploy/compose.vllm-cpu.yml")
        stack.up("model", "engine")
        healthy = lambda: stack.inspect("engine")[0]["State"].get("Health", {}).get("Status") == "healthy"
        stack.wait_for("vLLM", healthy, 900, 2)
        return refused(stack, "generation", "VLLM_SERVER_DEV_MODE")


CASES = [missing_volume, volume_without_permission, unknown_recipe, a_port_that_is_taken, a_published_port_that_is_taken, half_written_certificate,
         short_token, empty_data_folder, missing_model, gpu_that_is_not_there, gpu_that_docker_does_not_have, engine_without_routes, vllm_without_routes]


def run(only=None):
    cases = [case for case in CASES if only in (None, case.__name__)]
    check(cases, f"there is no `{only}`, allowed: {', '.join(case.__name__ for case in CASES)}")
    wrong = []
    for case in cases:
        try:
            print(f"  {case.__name__}: {case()}", flush=True)
        except AssertionError as error:
            wrong.append(case.__name__)
            print(f"  {case.__name__} FAILED: {error}", flush=True)
    check(not wrong, f"{wrong}")
    return f"{len(cases)} kinds of bad input"
