"""The stack with TLS in both directions: the same metrics, and nothing for who has no certificate."""
import os, shutil, urllib.request

import grpc

from calls import Reflected
from faults import undisturbed
from stack import Stack, check, command

NAMES = ["generation", "reward", "gateway", "learner", "orchestrator"]


def run():
    expected = undisturbed()
    with Stack("tls", files=["deploy/compose.tls.yml"]) as stack:
        folder = stack.folder / "certificates"
        stack.env["EVENKEEL_CERTIFICATES"] = str(folder)
        command(["deploy/certificates.sh", folder])
        stack.up()
        pem = lambda name: (folder / "client" / name).read_bytes()
        credentials = grpc.ssl_channel_credentials(pem("ca.pem"), pem("key.pem"), pem("certificate.pem"))

        def state():
            try:
                with Reflected(stack.address(), credentials) as client:
                    return client.call("evenkeel.v1.Orchestrator/GetRun", {"run_id": "small"})[0]["run"]
            except (grpc.RpcError, KeyError):
                return None

        stack.wait_for("the end of the run", lambda: (run := state()) and run["state"] == "RUN_STATE_COMPLETED", 600, 1)
        check(stack.metrics() == expected, "the metrics differ from those without TLS")
        with Reflected(stack.address("EVENKEEL_REWARD_PORT"), credentials) as client:
            verdict = client.call("evenkeel.v1.Reward/VerifyOne", {"item": {"id": "1", "extracted": "2", "math": {"gold": "2"}}})[0]["verdict"]
            check(verdict["outcome"] == "OUTCOME_CORRECT", f"{verdict}")
        for what, credentials in strangers(folder).items():
            try:
                with Reflected(stack.address(), credentials) as client:
                    client.call("evenkeel.v1.Orchestrator/ListRuns", {}, timeout=5)
            except (grpc.RpcError, KeyError):
                continue
            check(False, f"somebody with {what} was answered")
        # Prometheus within the network needs none.
        for name in NAMES:
            metrics = urllib.request.urlopen(f"http://{stack.inner(name, 9090)[0]}/metrics", timeout=10).read().decode()
            check("evenkeel_build_info" in metrics, f"{name} shows no metrics")
        health = stack.wait_for("health over TLS", lambda: healthy(stack), 120, 2)
    return f"{len(expected)} lines of metrics are those without TLS; {len(health)} services are healthy; strangers are refused"


def strangers(folder):
    """Credentials that must not do."""
    read = lambda of, name: (of / "client" / name).read_bytes()
    own = lambda of: grpc.ssl_channel_credentials(read(folder, "ca.pem"), read(of, "key.pem"), read(of, "certificate.pem"))
    other, expired = folder.parent / "other", folder.parent / "expired"
    command(["deploy/certificates.sh", other])
    # The same authority, and certificates that end as they begin.
    shutil.copytree(folder / "authority", expired / "authority")
    command(["deploy/certificates.sh", expired], env=os.environ | {"DAYS": "0"})
    return {"no TLS": None, "no certificate": grpc.ssl_channel_credentials(read(folder, "ca.pem")),
            "a certificate of another authority": own(other), "an expired certificate": own(expired)}


def healthy(stack):
    found = [name for name in NAMES if stack.inspect(name)[0]["State"]["Health"]["Status"] == "healthy"]
    return found if found == NAMES else None
