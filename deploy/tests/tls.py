"""The stack with TLS in both directions: the same metrics, clients without a certificate get nothing, the others what their role permits."""
import os, shutil, time, urllib.request

import grpc

from calls import Reflected
from faults import undisturbed
from stack import Stack, check, command

NAMES = ["generation", "reward", "gateway", "learner", "orchestrator"]
ORCHESTRATOR = "evenkeel.v1.Orchestrator/"
# A run of a client, whose recipe names no certificate.
SECOND = {"run_id": "second", "recipe": "arithmetic", "total_steps": 2,
          "overrides": ["model.path=/data/start/model", "warm_start.steps=20", "evaluation.problems=16"]}


def run():
    expected = undisturbed()
    with Stack("tls", files=["deploy/compose.tls.yml"]) as stack:
        folder = stack.folder / "certificates"
        stack.env["EVENKEEL_CERTIFICATES"] = str(folder)
        command(["deploy/certificates.sh", folder])
        stack.up()
        credentials = of(folder, "client")

        def state(run):
            try:
                with Reflected(stack.address(), credentials) as client:
                    return client.call(f"{ORCHESTRATOR}GetRun", {"run_id": run})[0]["run"]
            except (grpc.RpcError, KeyError):
                return None

        def completed(name):
            run = state(name)
            check(not run or run["state"] not in ("RUN_STATE_FAILED", "RUN_STATE_STOPPED"), f"{run}")
            return run and run["state"] == "RUN_STATE_COMPLETED"

        stack.wait_for("the end of the run", lambda: completed("small"), 600, 1)
        check(stack.metrics() == expected, "the metrics differ from those without TLS")
        with Reflected(stack.address("EVENKEEL_REWARD_PORT"), credentials) as client:
            verdict = client.call("evenkeel.v1.Reward/VerifyOne", {"item": {"id": "1", "extracted": "2", "math": {"gold": "2"}}})[0]["verdict"]
            check(verdict["outcome"] == "OUTCOME_CORRECT", f"{verdict}")
        for what, stranger in strangers(folder).items():
            try:
                with Reflected(stack.address(), stranger) as client:
                    client.call(f"{ORCHESTRATOR}ListRuns", {}, timeout=5)
            except (grpc.RpcError, KeyError):
                continue
            check(False, f"a client with {what} was answered")
        refused = roles(stack, folder)
        # A learner holds one run.
        stack.compose("restart", "learner")
        with Reflected(stack.address(), credentials) as client:
            client.call(f"{ORCHESTRATOR}StartRun", SECOND)
        stack.wait_for("the end of the run of a client", lambda: completed("second"), 300, 1)
        # Prometheus within the network needs none.
        for name in NAMES:
            metrics = urllib.request.urlopen(f"http://{stack.inner(name, 9090)[0]}/metrics", timeout=10).read().decode()
            check("evenkeel_build_info" in metrics, f"{name} shows no metrics")
        health = stack.wait_for("health over TLS", lambda: healthy(stack), 120, 2)
    return (f"{len(expected)} lines of metrics are those without TLS; {len(health)} services are healthy; strangers are refused, and {refused} "
            "calls beyond the caller's role; a client has started a second run")


def of(folder, who, authority=None):
    """The credentials of a service or of people."""
    read = lambda file: (folder / who / file).read_bytes()
    return grpc.ssl_channel_credentials(authority or read("ca.pem"), read("key.pem"), read("certificate.pem"))


def roles(stack, folder):
    """What is refused to whom, although the certificate is one of the authority. Returns how many calls were."""
    denied = [("reader", "orchestrator", 50054, f"{ORCHESTRATOR}StartRun", grpc.StatusCode.PERMISSION_DENIED),
              ("reader", "orchestrator", 50054, f"{ORCHESTRATOR}StopRun", grpc.StatusCode.PERMISSION_DENIED),
              ("reader", "gateway", 50052, "evenkeel.v1.Reward/VerifyOne", grpc.StatusCode.PERMISSION_DENIED),
              ("client", "learner", 50053, "evenkeel.v1.Learner/GetStatus", grpc.StatusCode.UNAUTHENTICATED),
              ("gateway", "learner", 50053, "evenkeel.v1.Learner/GetStatus", grpc.StatusCode.UNAUTHENTICATED),
              ("reward", "learner", 50053, "evenkeel.v1.Learner/GetStatus", grpc.StatusCode.UNAUTHENTICATED),
              ("reward", "generation", 50051, "evenkeel.v1.Generation/GetStatus", grpc.StatusCode.UNAUTHENTICATED),
              ("reward", "orchestrator", 50054, f"{ORCHESTRATOR}ListRuns", grpc.StatusCode.UNAUTHENTICATED)]
    for who, service, port, method, code in denied:
        check(answered(stack, folder, who, service, port, method) == code, f"{who} calls {method}: not {code}")
    for who, service, port, method in [("reader", "orchestrator", 50054, f"{ORCHESTRATOR}ListRuns"),
                                       ("orchestrator", "learner", 50053, "evenkeel.v1.Learner/GetStatus")]:
        code = answered(stack, folder, who, service, port, method)
        check(code == grpc.StatusCode.OK, f"{who} calls {method}: {code}")
    return len(denied)


def answered(stack, folder, who, service, port, method):
    """The status of an empty call within the network. Reflection may be refused as well, so that the call is made without it."""
    options = [("grpc.ssl_target_name_override", service)]
    with grpc.secure_channel(stack.inner(service, port)[0], of(folder, who), options) as channel:
        try:
            channel.unary_unary(f"/{method}")(b"", timeout=10)
            return grpc.StatusCode.OK
        except grpc.RpcError as error:
            return error.code()


def strangers(folder):
    """Credentials that must not do."""
    authority = (folder / "client/ca.pem").read_bytes()
    own = lambda other: of(other, "client", authority)
    other, expired = folder.parent / "other", folder.parent / "expired"
    command(["deploy/certificates.sh", other])
    # The same authority, and certificates that end as they begin.
    shutil.copytree(folder / "authority", expired / "authority")
    command(["deploy/certificates.sh", expired], env=os.environ | {"DAYS": "0"})
    # They count whole seconds, the last one included.
    time.sleep(2)
    return {"no TLS": None, "no certificate": grpc.ssl_channel_credentials(authority),
            "a certificate of another authority": own(other), "an expired certificate": own(expired)}


def healthy(stack):
    found = [name for name in NAMES if stack.inspect(name)[0]["State"]["Health"]["Status"] == "healthy"]
    return found if found == NAMES else None
