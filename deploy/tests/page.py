"""docs/grpcurl.md, executed: every call in the order of the page, its answer beside the one that the page shows.

With grpcurl on the search path it is called itself; without it the same calls are made by reflection, from the same words.
"""
import json, re, shlex, shutil, subprocess

import grpc
from calls import Reflected
from stack import ROOT, Stack, check, command

PAGE = ROOT / "docs/grpcurl.md"
PORTS = {"50054": "EVENKEEL_PORT", "50052": "EVENKEEL_REWARD_PORT"}


def blocks(text):
    """The page's commands, each with the answer that follows it: (kind, text) or None."""
    found = re.findall(r"```(\w*)[^\n]*\n(.*?)```", text, re.DOTALL)
    for at, (kind, body) in enumerate(found):
        if kind == "sh":
            follows = found[at + 1] if at + 1 < len(found) and found[at + 1][0] != "sh" else None
            yield body, follows


def address(stack, host):
    """Where a host and port of the page are in this stack."""
    name, port = host.rsplit(":", 1)
    if name == "127.0.0.1":
        return stack.address(PORTS[port])
    return stack.inner(name, port)[0]


def answers(stack, line):
    """What a command of the page prints: objects, or lines of text."""
    words = shlex.split(line)
    if words[:3] == ["docker", "run", "--rm"]:
        at = next(at for at, word in enumerate(words) if word.endswith("/grpcurl"))
        check(words[3:5] == ["--network", "evenkeel_services"], f"another network: {line}")
        words = ["grpcurl", *words[at + 1:]]
    check(words[0] == "grpcurl", f"no call: {line}")
    options, rest = {}, []
    words = iter(words[1:])
    for word in words:
        if word == "-plaintext":
            continue
        if word.startswith("-"):
            options[word] = next(words)
        else:
            rest.append(word)
    rest[0] = address(stack, rest[0])
    if shutil.which("grpcurl"):
        flags = [part for option in options.items() for part in option]
        allowed = (0,) if "-max-time" not in options else (0, 68)
        return parsed(command(["grpcurl", "-plaintext", *flags, *rest], allowed=allowed))
    with Reflected(rest[0]) as client:
        match rest[1:]:
            case ["list"]:
                return [name for name in client.services() if "reflection" not in name]
            case ["describe", name]:
                return [client.describe(name)]
            case [method]:
                request, seconds = json.loads(options.get("-d", "{}")), float(options.get("-max-time", 60))
                found = []
                try:
                    for answer in client.start(method, request, seconds, camel_case=True):
                        found.append(answer)
                except grpc.RpcError as error:
                    late = error.code() == grpc.StatusCode.DEADLINE_EXCEEDED and "-max-time" in options
                    check(late, f"{line}\n{error}")
                return found


def parsed(text):
    decoder, found, text = json.JSONDecoder(), [], text.strip()
    if not text.startswith("{"):
        return [line for line in text.splitlines() if "reflection" not in line]
    while text.startswith("{"):
        one, end = decoder.raw_decode(text)
        found.append(one)
        text = text[end:].lstrip()
    return found


def agrees(shown, found, where):
    """What the page shows must be in the answer, under the same names. Numbers and what begins as shown may differ in the rest."""
    check(type(shown) is type(found) or {type(shown), type(found)} <= {int, float}, f"{where}: {found!r}, the page shows {shown!r}")
    if isinstance(shown, dict):
        for key, value in shown.items():
            check(key in found, f"{where} has no `{key}`: {found}")
            agrees(value, found[key], f"{where}.{key}")
    elif isinstance(shown, list):
        check(found, f"{where} is empty")
        for one, other in zip(shown, found):
            agrees(one, other, where)
    elif isinstance(shown, str) and not shown.isdigit():
        check(found.startswith(shown), f"{where} is {found!r}, the page shows {shown!r}")
    elif not isinstance(shown, (int, float, str)) or "passed" in where.lower() or where.endswith("reward"):
        check(found == shown, f"{where} is {found!r}, the page shows {shown!r}")


def run():
    with Stack("page") as stack:
        # The page's run has the name of its recipe. It must not end before it is stopped.
        (stack.folder / "arithmetic.toml").write_text((stack.folder / "small.toml").read_text().replace("steps = 24", "steps = 1000"))
        stack.env["EVENKEEL_RECIPE"] = "data/arithmetic.toml"
        stack.up()
        stack.wait_for("the run", lambda: stack.run("arithmetic"))
        stack.wait_for("all services", lambda: connected(stack))
        count = 0
        for body, follows in blocks(PAGE.read_text()):
            line = body.replace("\\\n", " ").strip()
            if line.startswith("docker compose "):
                stack.compose(*line.split()[2:])
                continue
            try:
                found = answers(stack, line)
            except grpc.RpcError as error:
                raise AssertionError(f"{line}\n{error.code()}: {error.details()}") from error
            check(found, f"no answer: {line}")
            if follows and follows[0] == "json":
                agrees(json.loads(follows[1]), found[0], line.split()[-1])
            elif follows:
                check(set(follows[1].split()) <= set(found), f"{line}: {found}")
            count += 1
        check(count, "no call was found on the page")
        how = "grpcurl" if shutil.which("grpcurl") else "a reflection client"
        return f"{count} calls of docs/grpcurl.md, made by {how}, are answered as the page shows"


def connected(stack):
    """Whether a verdict and an engine are available."""
    try:
        status = stack.orchestrator("GetStatus")
        return all(one.get("connected") for one in status["dependencies"])
    except (grpc.RpcError, KeyError):
        return False
