"""Clients that a server must survive: many that say nothing, some that begin and stop, some that do not read, some that send too much."""
import contextlib, itertools, resource, socket

import grpc
from calls import Reflected
from stack import check

IDLE = 2000
# How every connection of HTTP/2 begins.
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
UNREAD = 20
TOO_LARGE = 100 << 20


def connections(addresses, count):
    """Connections to servers in turn. Every third begins to speak and stops in the middle."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 3 * count)), hard))
    opened = contextlib.ExitStack()
    for number, address in zip(range(count), itertools.cycle(addresses)):
        host, port = address.rsplit(":", 1)
        one = opened.enter_context(socket.create_connection((host, int(port)), 10))
        if number % 3 == 0:
            # A server that is full may have closed it.
            with contextlib.suppress(OSError):
                one.sendall(PREFACE[: number % len(PREFACE)])
    return opened


def too_large(address):
    """A message of 100 MB must be refused as what it is."""
    item = {"id": "large", "completion": "7" * TOO_LARGE, "math": {"gold": "7"}}
    try:
        with Reflected(address) as client:
            answer = client.call("evenkeel.v1.Reward/VerifyOne", {"item": item}, 60)
    except grpc.RpcError as error:
        check(error.code() in (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.OUT_OF_RANGE), f"{error.code()}: {error.details()}")
        return error.code().name
    check(False, f"a message of {TOO_LARGE >> 20} MiB was answered: {answer}")


def unread(address, run):
    """Streams of a run's metrics that are begun and never read."""
    opened = contextlib.ExitStack()
    for _ in range(UNREAD):
        client = opened.enter_context(Reflected(address))
        answers = client.start("evenkeel.v1.Orchestrator/WatchRun", {"run_id": run, "from_step": 0}, 600)
        # A call that nobody holds any more is cancelled.
        opened.callback(answers.close)
    return opened
