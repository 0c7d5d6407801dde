"""The stack under the Prometheus of deploy/compose.observe.yml: every service is found and answers, replicas by name.

Grafana and the collector are left out, and Prometheus is Debian's (apt-get install prometheus), mounted into Debian: what is tried is the
configuration, the networks and the ports.
"""
import json, pathlib, shutil, urllib.request

from stack import Stack, check, free_ports

SERVICES = {"orchestrator": 1, "generation": 1, "reward": 2, "gateway": 1, "learner": 1, "engine": 1}
INSTEAD = """
services:
  prometheus:
    image: debian:bookworm-slim
    entrypoint: [/usr/bin/prometheus]
    user: root
    volumes: ["{program}:/usr/bin/prometheus:ro"]
    ports: !override ["127.0.0.1:{port}:9090"]
"""


def run():
    program = shutil.which("prometheus")
    check(program, "there is no prometheus: apt-get install prometheus")
    port = free_ports(1)[0]
    with Stack("observed", files=["deploy/compose.observe.yml"]) as stack:
        overlay = stack.folder / "prometheus.yml"
        overlay.write_text(INSTEAD.format(program=pathlib.Path(program).resolve(), port=port))
        stack.files.append(str(overlay))
        stack.up("--scale", "reward=2", "orchestrator", "gateway")
        stack.up("--no-deps", "--no-recreate", "prometheus")

        def ask(what):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/{what}", timeout=10) as answer:
                    return json.load(answer)["data"]
            except OSError:
                return None

        def targets():
            active = (ask("targets?state=active") or {"activeTargets": []})["activeTargets"]
            return {name: [one for one in active if one["labels"]["job"] == name] for name in SERVICES}

        def all_up():
            found = targets()
            return all(len(found[name]) == count and all(one["health"] == "up" for one in found[name]) for name, count in SERVICES.items())

        try:
            stack.wait_for("every target", all_up, 60, 1)
        except AssertionError:
            wrong = {name: [(one["scrapeUrl"], one["health"], one["lastError"]) for one in found] for name, found in targets().items()}
            check(False, f"not every target answers: {wrong}")
        rules = [rule for group in ask("rules")["groups"] for rule in group["rules"]]
        check(rules, "no rule is loaded")
        failed = ask("query?query=evenkeel_weight_updates_total")["result"]
        check({one["metric"]["outcome"] for one in failed} == {"updated", "failed"}, f"{failed}")
        return f"{sum(SERVICES.values())} targets of {len(SERVICES)} services answer; {len(rules)} rules are loaded"
