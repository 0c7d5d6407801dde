#!/usr/bin/env python3
"""Tests of images and compose files, on the Docker of this machine.

    pip install grpcio grpcio-reflection
    docker compose build && sudo python3 deploy/tests/run.py [PART ...]

Parts (all by default): see PARTS below. Each starts stacks of its own, on free ports, and removes them. Those that kill processes or fill
volumes need root. The exit status says whether everything held.
"""
import importlib, pathlib, sys, time, traceback

sys.path.insert(0, str(pathlib.Path(__file__).parent))

PARTS = {
    "configurations": "every combination of compose files is valid and opens nothing that should stay closed",
    "image": "what is in the image, and how large it is",
    "exposure": "what can be reached from outside, and what cannot",
    "start": "how long the stack takes to its first step",
    "page": "docs/grpcurl.md: every call, executed",
    "memory": "what a reward worker takes after its first programs",
    "scale": "fifty reward workers behind one address",
    "refusals": "bad input is refused at the start, by name",
    "faults": "a run ends with the metrics of the undisturbed one, whatever is killed, cut or filled",
    "observed": "Prometheus of deploy/compose.observe.yml finds every service",
    "tls": "the stack with TLS in both directions",
    "mission": "a real vLLM, mathematics and programs mixed, workers added, a client watching",
}


def main(names):
    unknown = [name for name in names if name.split(":")[0] not in PARTS]
    if unknown or "-h" in names or "--help" in names:
        print(__doc__, *(f"  {name:15} {what}" for name, what in PARTS.items()), sep="\n")
        return 2
    failed = []
    for name in names or PARTS:
        # `faults:NAME` is one of them.
        part, _, only = name.partition(":")
        began = time.monotonic()
        print(f"== {name}: {PARTS[part]}", flush=True)
        try:
            found = importlib.import_module(part).run(*([only] if only else []))
            print(f"ok   {name} ({time.monotonic() - began:.0f} s): {found}", flush=True)
        except Exception as error:
            failed.append(name)
            print(f"FAILED {name} ({time.monotonic() - began:.0f} s): {error}", flush=True)
            if not isinstance(error, AssertionError):
                traceback.print_exc()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
