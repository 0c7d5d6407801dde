"""Faults on the real stack: a run ends with the metrics of the undisturbed one, or with one clear message."""
import contextlib, os, signal, time

from stack import Stack, check, command

SERVICES = ["engine", "generation", "reward", "gateway", "learner", "orchestrator"]
ENDED = {"RUN_STATE_COMPLETED", "RUN_STATE_FAILED", "RUN_STATE_STOPPED"}
_undisturbed = None


def undisturbed():
    """The metrics of the same run with nothing in its way."""
    global _undisturbed
    if _undisturbed is None:
        with Stack("undisturbed") as stack:
            stack.up()
            check(stack.wait_for_end()["state"] == "RUN_STATE_COMPLETED", "the undisturbed run does not end")
            _undisturbed = stack.metrics()
            rewards = {line["critic/score/mean"] for line in _undisturbed if line["kind"] == "train"}
            check(len(rewards) > 1, f"nothing is learnt that a fault could change: {rewards}")
    return _undisturbed


def goes_on(stack):
    """The run as it is, which must not have ended: what happens after it would show nothing."""
    run = stack.run()
    check(run and run["state"] not in ENDED, f"the run has ended before the fault: {run}")
    return run


def disturbed(prepare, before=None):
    """A run with a fault in the middle. `prepare` is called while the run begins, and returns the fault."""
    expected = undisturbed()
    with Stack("faults") as stack:
        if before:
            before(stack)
        stack.up()
        fault = prepare(stack)
        stack.wait_for_step(2)
        at = goes_on(stack)["step"]
        said = fault()
        run = stack.wait_for_end()
        check(run["state"] == "RUN_STATE_COMPLETED", f"the run ended as {run}")
        found = stack.metrics()
        check(len(found) == len(expected), f"{len(found)} lines of metrics, {len(expected)} undisturbed")
        for ours, theirs in zip(found, expected):
            differ = {key: (ours.get(key), theirs.get(key)) for key in ours.keys() | theirs.keys() if ours.get(key) != theirs.get(key)}
            check(not differ, f"{ours['kind']} {ours['step']} differs: {differ}")
        return f"after step {at}; {len(found)} lines of metrics are the same{said or ''}"


def kill(service):
    """kill -9 from outside, as the kernel does it: Docker starts the container again."""
    def prepare(stack):
        before = stack.inspect(service)[0]
        def fault():
            os.kill(before["State"]["Pid"], signal.SIGKILL)
            def is_back():
                state = stack.inspect(service)[0]
                return state["RestartCount"] > before["RestartCount"] and state["State"]["Running"]
            stack.wait_for(f"{service} after kill -9", is_back, 60)
        return fault
    return lambda: disturbed(prepare)


def pause(service, seconds):
    def prepare(stack):
        container = stack.containers(service)[0]
        def fault():
            command(["docker", "pause", container])
            time.sleep(seconds)
            goes_on(stack)
            command(["docker", "unpause", container])
        return fault
    return lambda: disturbed(prepare)


def cut(service, network, seconds):
    """A service loses a network, and comes back under the same name."""
    def prepare(stack):
        container = stack.containers(service)[0]
        def fault():
            command(["docker", "network", "disconnect", f"{stack.name}_{network}", container])
            time.sleep(seconds)
            goes_on(stack)
            command(["docker", "network", "connect", "--alias", service, f"{stack.name}_{network}", container])
        return fault
    return lambda: disturbed(prepare)


def full(volume, seconds):
    """A volume of limited size is full for a while."""
    def limited(stack):
        path = stack.folder / "limited.yml"
        path.write_text(f"volumes:\n  {volume}:\n    driver_opts: {{ type: tmpfs, device: tmpfs, o: 'size=48m,uid=10001,gid=10001' }}\n")
        stack.files.append(str(path))

    def prepare(stack):
        ballast = stack.volume(volume) / "ballast"
        def fault():
            with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
                while True:
                    # Small blocks in the end, so that nothing is left.
                    try:
                        file.write(bytes(1 << 20))
                    except OSError:
                        while file.write(bytes(1 << 10)):
                            pass
            time.sleep(seconds)
            run = goes_on(stack)
            ballast.unlink()
            return f"; while it was full: {run['state']} {run.get('message', '')}"
        return fault
    return lambda: disturbed(prepare, before=limited)


def scaled():
    """Reward workers from one to eight to two under load."""
    def prepare(stack):
        def fault():
            for workers in (8, 2):
                stack.up("--no-recreate", "--no-deps", "--scale", f"reward={workers}", "reward")
                check(len(stack.containers("reward")) == workers, f"not {workers} workers")
                goes_on(stack)
        return fault
    return disturbed(prepare)


def replaced():
    """The orchestrator's container gives way to one of a newer image."""
    def prepare(stack):
        command(["docker", "tag", "evenkeel", "evenkeel:replaced"])
        old = stack.containers("orchestrator")
        newer = stack.folder / "newer.yml"
        newer.write_text("services:\n  orchestrator:\n    image: evenkeel:replaced\n")
        def fault():
            stack.files.append(str(newer))
            stack.up("--no-deps", "orchestrator")
            check(stack.containers("orchestrator") != old, "the container is the same")
            check(stack.inspect("orchestrator")[0]["Config"]["Image"] == "evenkeel:replaced", "the image is the same")
        return fault
    try:
        return disturbed(prepare)
    finally:
        command(["docker", "rmi", "evenkeel:replaced"], allowed=None)


def stopped_and_started():
    """`docker compose stop` in the middle, and `up` again. Every service must end by itself, before Docker kills it."""
    def prepare(stack):
        def fault():
            stack.compose("stop")
            status = {name: stack.inspect(name)[0]["State"]["ExitCode"] for name in SERVICES}
            check(not any(status.values()), f"not every service ends well when it is stopped: {status}")
            stack.up()
        return fault
    return disturbed(prepare)


FAULTS = {
    **{f"kill_{service}": kill(service) for service in SERVICES},
    "pause_engine": pause("engine", 60),
    "pause_learner": pause("learner", 60),
    "pause_reward": pause("reward", 20),
    "cut_reward": cut("reward", "rewards", 15),
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
