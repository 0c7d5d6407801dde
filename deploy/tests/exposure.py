"""What can be reached from outside the stack, and what cannot."""
import urllib.error, urllib.request

from calls import Reflected
from stack import Stack, check, command

# An image with a shell, to ask from within a network.
HELPER = "debian:bookworm-slim"
# vLLM's routes that change weights or stop an engine, which ask for no key.
ROUTES = ["/collective_rpc", "/pause", "/resume", "/sleep", "/wake_up", "/update_weight_version", "/reset_prefix_cache", "/server_info"]


def reaches(network, host, port, path="/"):
    """Whether a container in a network gets an answer from a port."""
    ask = f"exec 3<>/dev/tcp/{host}/{port} && printf 'POST {path} HTTP/1.0\\r\\n\\r\\n' >&3 && head -c 12 <&3"
    done = command(["docker", "run", "--rm", "--network", network, HELPER, "timeout", "5", "bash", "-c", ask], allowed=None)
    return "HTTP/1." in done


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
        check(reaches(f"{stack.name}_engines", engine, 8000, "/pause"), "the engine answers nobody, and the test shows nothing")
        for network in ("edge", "services"):
            for route in ROUTES:
                check(not reaches(f"{stack.name}_{network}", engine, 8000, route), f"{route} of an engine answers in the network {network}")
        # Networks of engines and services have no way out, so that no service fetches or sends anything.
        for network in ("engines", "services"):
            routes = command(["docker", "run", "--rm", "--network", f"{stack.name}_{network}", HELPER, "cat", "/proc/net/route"])
            check(not any(line.split()[1] == "00000000" for line in routes.splitlines()[1:]), f"the network {network} has a way out")
        # What is meant to be reached is reached.
        with Reflected(stack.address("EVENKEEL_REWARD_PORT")) as client:
            item = {"item": {"id": "1", "extracted": "1/2", "math": {"gold": "0.5"}}}
            verdict = client.call("evenkeel.v1.Reward/VerifyOne", item)[0]["verdict"]
            check(verdict["outcome"] == "OUTCOME_CORRECT", f"{verdict}")
        page = urllib.request.urlopen(f"http://{stack.address('EVENKEEL_PAGE_PORT')}/", timeout=10).read().decode()
        check("small" in page, "the page does not show the run")
        return f"{len(ROUTES)} routes of the engine answer the generation service's network alone; two services are published, on loopback"
