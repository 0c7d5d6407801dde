"""What can be reached from outside the stack, and what cannot."""
import urllib.error, urllib.request

from calls import Reflected
from stack import Stack, check, command

# An image with a shell, to ask from within a network.
HELPER = "debian:bookworm-slim"
# vLLM's routes that change weights or stop an engine, which ask for no key.
ROUTES = ["/collective_rpc", "/pause", "/resume", "/sleep", "/wake_up", "/update_weight_version", "/reset_prefix_cache", "/server_info"]


def reached(network, host, port, paths):
    """Which of the paths answer a container in a network. A port that cannot be connected to is asked once."""
    ask = f"""for path in {' '.join(paths)}; do
        exec 3<>/dev/tcp/{host}/{port} || exit 0
        printf 'POST %s HTTP/1.0\\r\\n\\r\\n' $path >&3; read -t 2 answer <&3; echo "$path $answer"; exec 3>&-
    done"""
    done = command(["docker", "run", "--rm", "--network", network, HELPER, "timeout", "20", "bash", "-c", ask], allowed=None)
    return [line.split()[0] for line in done.splitlines() if " HTTP/1." in line]


def connects(network, host, port):
    """Whether a container in a network can open a connection."""
    ask = f"timeout 5 bash -c 'exec 3<>/dev/tcp/{host}/{port}' && echo connected"
    return "connected" in command(["docker", "run", "--rm", "--network", network, HELPER, "bash", "-c", ask], allowed=None)


def run():
    with Stack("exposure") as stack:
        stack.up("--scale", "engine=1")
        stack.wait_for("the run", lambda: stack.run())
        containers = {name: stack.inspect(name)[0] for name in ["engine", "generation", "reward", "gateway", "learner", "orchestrator"]}
        for name, container in containers.items():
            bound = {port: [at["HostIp"] for at in at or []] for port, at in container["NetworkSettings"]["Ports"].items()}
            outside = {ip for ips in bound.values() for ip in ips}
            check(outside <= {"127.0.0.1"}, f"{name}: {bound}")
            check(bool(outside) == (name in ("gateway", "orchestrator")), f"{name}: {bound}")
            host = container["HostConfig"]
            check(host["ReadonlyRootfs"] and host["CapDrop"] == ["ALL"] and not host["Privileged"], f"{name}: {host['CapDrop']}")
        # From the network with a way out, where a stolen gateway or orchestrator would be.
        engine = containers["engine"]["NetworkSettings"]["Networks"][f"{stack.name}_engines"]["IPAddress"]
        check(reached(f"{stack.name}_engines", engine, 8000, ROUTES) == ROUTES, "the engine answers nobody, and the test shows nothing")
        for network in ("edge", "services", "rewards", "environments"):
            found = reached(f"{stack.name}_{network}", engine, 8000, ROUTES)
            check(not found, f"{found} of an engine answer in the network {network}")
        # From where programs run: neither the learner nor the generation service.
        for name, port in (("learner", 50053), ("generation", 50051)):
            address = containers[name]["NetworkSettings"]["Networks"][f"{stack.name}_services"]["IPAddress"]
            check(connects(f"{stack.name}_services", address, port), f"the {name} answers nobody, and the test shows nothing")
            for network in ("rewards", "environments"):
                check(not connects(f"{stack.name}_{network}", address, port), f"the {name} is reached from the network {network}")
        for network in ("engines", "services", "rewards", "environments"):
            internal = command(["docker", "network", "inspect", "-f", "{{.Internal}}", f"{stack.name}_{network}"]).strip()
            check(internal == "true", f"the network {network} has a way out")
        # What is meant to be reached is reached.
        with Reflected(stack.address("EVENKEEL_REWARD_PORT")) as client:
            item = {"item": {"id": "1", "extracted": "1/2", "math": {"gold": "0.5"}}}
            verdict = client.call("evenkeel.v1.Reward/VerifyOne", item)[0]["verdict"]
            check(verdict["outcome"] == "OUTCOME_CORRECT", f"{verdict}")
        page = urllib.request.urlopen(f"http://{stack.address('EVENKEEL_PAGE_PORT')}/", timeout=10).read().decode()
        check("small" in page, "the page does not show the run")
        return f"{len(ROUTES)} routes of the engine answer the generation service's network alone; two services are published, on loopback"
