"""Faults on the real stack: a run ends with the metrics of the undisturbed one, or with one clear message."""
import os, signal, time

from stack import Stack, check, command

_undisturbed = None


def undisturbed():
    """The metrics of the same run with nothing in its way."""
    global _undisturbed
    if _undisturbed is None:
        with Stack("faults") as stack:
            stack.up()
            check(stack.wait_for_end()["state"] == "RUN_STATE_COMPLETED", "the undisturbed run does not end")
            _undisturbed = stack.metrics()
    return _undisturbed


def disturbed(fault, files=(), before=None, **variables):
    """A run with a fault in the middle of a step."""
    expected = undisturbed()
    with Stack("faults", files=files, **variables) as stack:
        if before:
            before(stack)
        stack.up()
        stack.wait_for_step(2)
        said = fault(stack)
        run = stack.wait_for_end()
        check(run["state"] == "RUN_STATE_COMPLETED", f"the run ended as {run}")
        found = stack.metrics()
        check(len(found) == len(expected), f"{len(found)} lines of metrics, {len(expected)} undisturbed")
        for ours, theirs in zip(found, expected):
            differ = {key: (ours.get(key), theirs.get(key)) for key in ours.keys() | theirs.keys() if ours.get(key) != theirs.get(key)}
            check(not differ, f"{ours['kind']} {ours['step']} differs: {differ}")
        return said or f"{len(found)} lines of metrics are the same"


def kill(service):
    """kill -9 from outside, as the kernel does it: Docker starts the container again."""
    def fault(stack):
        before = stack.inspect(service)[0]
        os.kill(before["State"]["Pid"], signal.SIGKILL)
        def is_back():
            state = stack.inspect(service)[0]
            return state["RestartCount"] > before["RestartCount"] and state["State"]["Running"]
        stack.wait_for(f"{service} after kill -9", is_back, 60)
    return lambda: disturbed(fault)


def pause(service, seconds):
    def fault(stack):
        stack.compose("pause", service)
        time.sleep(seconds)
        stack.compose("unpause", service)
    return lambda: disturbed(fault)


def cut(service, network, seconds):
    """A service loses a network, and comes back under the same name."""
    def fault(stack):
        container = stack.containers(service)[0]
        command(["docker", "network", "disconnect", f"{stack.name}_{network}", container])
        time.sleep(seconds)
        command(["docker", "network", "connect", "--alias", service, f"{stack.name}_{network}", container])
    return lambda: disturbed(fault)


def full(volume, seconds):
    """A volume of limited size is full for a while."""
    def fault(stack):
        ballast = stack.volume(volume) / "ballast"
        with ballast.open("wb") as file:
            try:
                while file.write(bytes(1 << 16)):
                    file.flush()
            except OSError:
                pass
        # Long enough for a step to meet it.
        time.sleep(seconds)
        waits = stack.run()
        ballast.unlink()
        return f"while {volume} was full: {waits.get('state')} {waits.get('message', '')}"
    def limited(stack):
        path = stack.folder / "limited.yml"
        path.write_text(f"volumes:\n  {volume}:\n    driver_opts: {{ type: tmpfs, device: tmpfs, o: 'size=48m,uid=10001,gid=10001' }}\n")
        stack.files.append(str(path))
    return lambda: disturbed(fault, before=limited)


def scaled():
    """Reward workers from one to eight to two under load."""
    def fault(stack):
        for workers in (8, 2):
            stack.up("--no-recreate", "--scale", f"reward={workers}")
            check(len(stack.containers("reward")) == workers, f"not {workers} workers")
            time.sleep(2)
    return disturbed(fault)


def replaced():
    """The orchestrator's container gives way to one of a newer image."""
    def fault(stack):
        command(["docker", "tag", "evenkeel", "evenkeel:replaced"])
        old = stack.containers("orchestrator")
        newer = stack.folder / "newer.yml"
        newer.write_text("services:\n  orchestrator:\n    image: evenkeel:replaced\n    environment: { EVENKEEL__SERVER__REFLECTION: 'true' }\n")
        stack.files.append(str(newer))
        stack.up("--no-deps", "orchestrator")
        check(stack.containers("orchestrator") != old, "the container is the same")
        check(stack.inspect("orchestrator")[0]["Config"]["Image"] == "evenkeel:replaced", "the image is the same")
    try:
        return disturbed(fault)
    finally:
        command(["docker", "rmi", "evenkeel:replaced"], allowed=None)


def stopped_and_started():
    """`docker compose stop` in the middle, and `up` again."""
    def fault(stack):
        stack.compose("stop")
        stack.up()
    return disturbed(fault)


FAULTS = {
    **{f"kill_{service}": kill(service) for service in ["engine", "generation", "reward", "learner", "orchestrator"]},
    "pause_engine": pause("engine", 60),
    "pause_learner": pause("learner", 60),
    "pause_reward": pause("reward", 20),
    "cut_reward": cut("reward", "services", 15),
    "cut_engine": cut("engine", "engines", 15),
    "cut_learner": cut("learner", "services", 15),
    "cut_generation": cut("generation", "services", 15),
    "full_weights": full("weights", 20),
    "full_checkpoints": full("checkpoints", 20),
    "full_runs": full("runs", 20),
    "scaled": scaled,
    "replaced": replaced,
    "stopped_and_started": stopped_and_started,
}


def run(only=None):
    check(only is None or only in FAULTS, f"there is no `{only}`, allowed: {', '.join(FAULTS)}")
    check(os.geteuid() == 0, "kill -9 and full volumes need root")
    wrong = []
    for name, fault in FAULTS.items():
        if only not in (None, name):
            continue
        began = time.monotonic()
        try:
            said = fault()
            print(f"  {name} ({time.monotonic() - began:.0f} s): {said}", flush=True)
        except AssertionError as error:
            wrong.append(name)
            print(f"  {name} FAILED ({time.monotonic() - began:.0f} s): {error}", flush=True)
    check(not wrong, f"{wrong}")
    return f"{1 if only else len(FAULTS)} faults"
