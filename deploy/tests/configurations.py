"""Every combination of compose files is valid, and opens nothing that should stay closed."""
import itertools, json, os

from stack import ROOT, check, command

# What a user must give for it to be valid at all.
VLLM_CPU = {"VLLM_IMAGE": "libraries", "VLLM_ENV": "/opt/vllm", "VLLM_PYTHON": "/opt/python"}


def combinations():
    overlays = sorted(path.name.removeprefix("compose.").removesuffix(".yml") for path in (ROOT / "deploy").glob("compose.*.yml"))
    for count in range(len(overlays) + 1):
        for chosen in itertools.combinations(overlays, count):
            # One engine at a time, and what belongs to two others with both of them.
            if not {"gpu", "vllm-cpu"} <= set(chosen) and ("pull-tls" in chosen) == ({"pull", "tls"} <= set(chosen)):
                yield chosen


def resolved(overlays, variables=()):
    env = {key: value for key, value in os.environ.items() if not key.startswith(("EVENKEEL", "VLLM"))} | dict(variables)
    if "vllm-cpu" in overlays:
        env |= VLLM_CPU
    files = [part for overlay in overlays for part in ("-f", f"deploy/compose.{overlay}.yml")]
    text = command(["docker", "compose", "-p", "config", "--env-file", "deploy/env.example", "-f", "docker-compose.yml", *files, "config",
                    "--format", "json"], env)
    check("is not set" not in text, f"{overlays}: a variable has no default: {text.splitlines()[0]}")
    return json.loads(text)


def verify(overlays):
    config = resolved(overlays)
    services, networks = config["services"], config["networks"]
    outside = {name for name, network in networks.items() if not (network or {}).get("internal")}
    ours = {"model", "engine", "generation", "reward", "gateway", "learner", "orchestrator", *(["weights"] if "pull" in overlays else [])}
    check(ours <= set(services), f"{overlays}: {sorted(services)}")
    for name, service in services.items():
        where = f"{overlays}: {name}"
        for port in service.get("ports", []):
            check(port.get("host_ip") == "127.0.0.1", f"{where} is published on {port.get('host_ip')}")
        if name not in ours | {"untied"}:
            continue
        check(service.get("read_only") and service["cap_drop"] == ["ALL"], f"{where} may write to its image or has capabilities")
        check("no-new-privileges:true" in service["security_opt"], f"{where} may gain privileges")
        check(not service.get("privileged") and "network_mode" not in service or service["network_mode"] == "none", where)
        check(name in ("model", "untied") or service["healthcheck"]["test"], f"{where} has no health check")
        check(name in ("model", "untied") or service["restart"].startswith("on-failure"), f"{where} does not come back")
    check(not services["engine"].get("ports"), f"{overlays}: an engine's routes change weights and are published")
    check(not outside & set(services["engine"]["networks"]), f"{overlays}: an engine is in a network with a way out")
    others = [name for name, service in services.items() if "engines" in (service.get("networks") or {})]
    check(set(others) <= {"engine", "generation", "prometheus", "traces"}, f"{overlays}: {others} can reach the engines")
    for name in {"prometheus", "traces"} & set(services):
        found = set(services[name]["networks"])
        check(found == {"services", "engines", "rewards", "observe"}, f"{overlays}: {name} is in {sorted(found)}")
    beside = {name for name, service in services.items() if "observe" in (service.get("networks") or {})}
    check(beside <= {"prometheus", "traces", "grafana"}, f"{overlays}: {sorted(beside)} are in the network of what observes")
    for worker, network in (("reward", "rewards"), ("environment", "environments")):
        check(set(services[worker]["networks"]) == {network}, f"{overlays}: {worker} is in {sorted(services[worker]['networks'])}")
        beside = {name for name, service in services.items() if network in (service.get("networks") or {})}
        check(beside <= {worker, "gateway", "orchestrator", "prometheus", "traces"}, f"{overlays}: {worker} shares a network with {sorted(beside)}")
    builders = [name for name, service in services.items() if "build" in service and service["image"] == "evenkeel"]
    check(builders == ["model"], f"{overlays}: the image is built by {builders}")
    published = {name for name, service in services.items() if service.get("ports")} & ours
    check(published == {"orchestrator", "gateway"}, f"{overlays}: {published} are published")
    holders = {(volume["source"], name, volume.get("read_only", False))
               for name, service in services.items() for volume in service.get("volumes", []) if volume["target"] == "/data/weights"}
    written = {("copies", "weights", False), ("weights", "learner", False)} if "pull" in overlays else {("weights", "learner", False)}
    read = {("copies" if "pull" in overlays else "weights", name, True) for name in ("engine", "generation")}
    check(holders == written | read, f"{overlays}: weights are in {sorted(holders)}")


def run():
    count = 0
    for overlays in combinations():
        verify(overlays)
        count += 1
    # What the page on GPUs promises to be all that a run of the paper needs.
    config = resolved(("gpu",), {"EVENKEEL_RECIPE": "paper/qwen3-1.7b-dapo-balanced", "EVENKEEL_MODELS": "/srv/models", "EVENKEEL_DATA": "/srv/data"})
    engine, learner = (config["services"][name] for name in ("engine", "learner"))
    for flag in ("--generation-config vllm", "--logprobs-mode processed_logprobs", "--enable-sleep-mode"):
        check(flag in " ".join(engine["command"]), f"the engine lacks {flag}")
    check(engine["environment"]["VLLM_SERVER_DEV_MODE"] == "1", "the engine lacks the routes of weight updates")
    for service in (engine, learner):
        devices = service["deploy"]["resources"]["reservations"]["devices"]
        check(devices[0]["device_ids"] == ["0"] and devices[0]["capabilities"] == ["gpu"], f"{devices}")
        mounts = {volume["target"]: volume["source"] for volume in service["volumes"]}
        check(mounts["/data/models"] == "/srv/models", f"{mounts}")
    return f"{count} combinations of compose files are valid"
