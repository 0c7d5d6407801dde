#!/usr/bin/env python3
"""300 programs by a CPython process and by `/run_code`, compared field by field, and by the clients of others where they are installed.

    python3 bench/run_code/run.py [--binary PATH] [--python python3.14] [--list]

Each program runs as `python3 -I main.py` with its input, as SandboxFusion runs it, and as a request of verl's client (its fields, its time
limits). Compared are status, state, return code, standard output, and the last line of standard error (the frames of a traceback have other
paths). The programs are written here: what answers of models do, right and wrong, in plain form and within verl's prelude, and what a sandbox
has otherwise than a process, by kind. A difference of a kind that docs/run-code.md lists is counted; any other ends this with 1.

Where the Python that runs this has `sandbox_fusion` (PyPI: sandbox-fusion) or verl, their clients send some of them, too, unmodified. The guest is
CPython 3.14; an older --python words some errors differently.
"""

import argparse
import collections
import concurrent.futures
import json
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import build, free_port  # noqa: E402

LIMITS = {"compile_timeout": 10, "run_timeout": 10, "memory_limit_MB": 512}
# What verl puts before a program whose tests call a function.
PRELUDE = "".join(
    f"from {module} import *\n"
    for module in "string re datetime collections heapq bisect copy math random statistics itertools functools operator io sys json".split()
) + "from typing import *\nimport string\nimport re\nimport sys\nimport json\nsys.setrecursionlimit(50000)\n"


def plain():
    """Programs of all trades on inputs of their own, by kind."""
    for n in range(30):
        yield "sum", "print(sum(map(int, input().split())))", " ".join(map(str, range(n + 1)))
        yield "lines", "import sys\nfor line in sys.stdin: print(line.rstrip()[::-1])", "\n".join("ab" * i for i in range(n))
        yield "words", f"from collections import Counter\nprint(Counter(input().split()).most_common({n}))", "a b a c b a " * (n + 1)
        yield "floats", f"print({n} / 7, 2 ** 0.5 * {n}, round({n}.5), f'{{{n} / 3:.4f}}')", ""
        yield "sort", "n = int(input()); a = [(i * 7919) % 101 for i in range(n)]; a.sort(); print(*a)", str(n * 5)
        yield "function", PRELUDE + f"def f(a, b): return [a * b, gcd(a, b)]\nprint(json.dumps(f(*map(int, sys.stdin.read().split()))))", f"{n + 4} {n + 6}"
        yield "exit", f"import sys\nprint('x')\nsys.exit({n})", ""
        yield "unicode", f"print(input().upper(), {n}, 'é', '積分', '🙂')", "straße ñ"
    for error in ("1 / 0", "[][1]", "{}['k']", "int('x')", "None.x", "open", "undefined", "'a' + 1", "raise ValueError('é')", "assert False, 'no'",
                  "import nothing", "raise KeyboardInterrupt", "raise SystemExit('why')", "raise SystemExit", "print(abs)", "next(iter([]))", "input()", "x: int = 'a'; print(x)",
                  "def f(): yield 1\nlist(f())[2]", "print(*range(10 ** 5))"):
        yield "error", "print('before')\n" + error, ""
        yield "error in prelude", PRELUDE + "print('before')\n" + error, ""
    for broken in ("def f(:", "if True", "print('a'", "x = = 1", " indented", "return 1", "for", "'unclosed", "lambda: (", "a b"):
        yield "syntax", broken, ""
    yield "stderr", "import sys\nprint('out')\nprint('err', file=sys.stderr)", ""
    yield "no newline", "import sys\nsys.stdout.write('abc')", ""
    yield "crlf", "print('a\\r')", ""
    yield "binary", "import sys\nsys.stdout.buffer.write(bytes(range(1, 128)))", ""
    yield "much", "print('x' * 1_000_000)", ""
    yield "long input", "print(len(input()))", "y" * 2_000_000
    yield "sleep", "import time\ntime.sleep(0.2)\nprint('slept')", ""
    yield "atexit", "import atexit\natexit.register(print, 'bye')\nprint('hi')", ""
    yield "deep", "import sys\nsys.setrecursionlimit(20000)\ndef f(n): return 0 if n == 0 else 1 + f(n - 1)\nprint(f(10000))", ""
    yield "recursion", "def f(n): return f(n + 1)\nf(0)", ""
    yield "memory", "x = bytearray(10 ** 9)", ""
    yield "time limit", "print('a', flush=True)\nwhile True: pass", ""


# What a sandbox has otherwise than a process: docs/run-code.md.
KNOWN = {
    "file": "print(open('/etc/hostname').read())",
    "write": "open('a.txt', 'w').write('1')\nprint(open('a.txt').read())",
    "network": "import socket\nsocket.create_connection(('127.0.0.1', 9), 1)",
    "process": "import subprocess\nprint(subprocess.run(['echo', 'a'], capture_output=True, text=True).stdout)",
    "environment": "import os\nprint(os.environ['PATH'][:1], os.getcwd()[:1])",
    "threads": "import threading, time\nout = []\nt = threading.Thread(target=lambda: out.append(1))\nt.start()\nprint(len(out))",
    "pointers": "import sys\nprint(sys.maxsize > 2 ** 32, hash('a') == hash('a'), sys.platform)",
    "clock": "import time\nprint(time.time() > 1_600_000_000)",
    "kill": "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
    "numpy": "import numpy\nprint(numpy.arange(3))",
}


def native(python, code, stdin, folder):
    path = Path(folder) / "main.py"
    path.write_text(code)
    limit = 2 if "while True" in code else LIMITS["run_timeout"]
    memory = LIMITS["memory_limit_MB"] << 20

    def limited():
        import resource
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))

    try:
        ran = subprocess.run([python, "-I", path], input=stdin.encode(), capture_output=True, timeout=limit, preexec_fn=limited)
    except subprocess.TimeoutExpired as late:
        return {"status": "Failed", "state": "TimeLimitExceeded", "return_code": None, "stdout": (late.stdout or b"").decode(), "stderr": ""}
    status = "Success" if ran.returncode == 0 else "Failed"
    return {"status": status, "state": "Finished", "return_code": ran.returncode, "stdout": ran.stdout.decode(errors="replace"), "stderr": last(ran.stderr.decode())}


def last(text):
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""


def served(url, code, stdin):
    limits = dict(LIMITS, run_timeout=1) if "while True" in code else LIMITS
    request = {"code": code, "stdin": stdin, "language": "python", "files": {}, "fetch_files": [], **limits}
    request = urllib.request.Request(f"{url}/run_code", json.dumps(request).encode(), {"Content-Type": "application/json"})
    # Three times after 504, as verl's client: on a busy machine a program may get no turn.
    for last_try in (False, False, True):
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                answer = json.load(answer)
            break
        except urllib.error.HTTPError as error:
            if error.code != 504 or last_try:
                raise
    ran = answer["run_result"] or {}
    stderr = "" if ran.get("status") == "TimeLimitExceeded" else last(ran.get("stderr") or "")
    return {"status": answer["status"], "state": ran.get("status"), "return_code": ran.get("return_code"), "stdout": ran.get("stdout"), "stderr": stderr}


def with_sdk(url):
    """SandboxFusion's own client, unmodified."""
    try:
        from sandbox_fusion import RunCodeRequest, run_code, set_endpoint
    except ImportError:
        return "SandboxFusion's client is not installed (PyPI: sandbox-fusion)"
    set_endpoint(url + "/")
    for code, status, words in (("print(1)", "Success", "1\n"), ("import sys; sys.exit(2)", "Failed", ""), ("1/0", "Failed", "")):
        answer = run_code(RunCodeRequest(code=code, language="python"))
        if answer.status != status or answer.run_result.stdout != words:
            sys.exit(f"SandboxFusion's client: {code!r}: {answer}")
    return "SandboxFusion's client: as expected"


def with_verl(url):
    """verl's own client, unmodified: a result for each test."""
    try:
        from verl.utils.reward_score.sandbox_fusion.utils import check_correctness
    except ImportError:
        return "verl's client is not installed"
    tests = {"inputs": ["2", "3"], "outputs": ["4", "6"]}
    function = {"inputs": ["1\n2"], "outputs": ["[1, 2]"], "fn_name": "f"}
    for code, asked, expected in (
        ("print(int(input()) * 2)", tests, [True, True]), ("print(4)", tests, [True, False]), ("1 / 0", tests, [-2, -2]),
        ("while True: pass", tests, [-3, -3]), ("def f(a, b): return [a, b]", function, [True]),
    ):
        found = check_correctness(f"{url}/run_code", asked, code, timeout=2, memory_limit_mb=256)[0]
        if found != expected:
            sys.exit(f"verl's client: {code!r}: {found}, not {expected}")
    return "verl's client: as expected"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    binary = options.binary or build("evenkeel")
    programs = list(plain()) + [(f"known: {name}", code, "") for name, code in KNOWN.items()]
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "log").open("wb") as log:
        command = [binary, "serve", "reward", "--http", f"127.0.0.1:{port}", "--set", "code.sandbox=at_start"]
        server = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            until = time.monotonic() + 600
            while True:
                try:
                    urllib.request.urlopen(f"{url}/v1/ping", timeout=5).close()
                    break
                except OSError:
                    if server.poll() is not None or time.monotonic() > until:
                        sys.exit((Path(folder) / "log").read_text())
                    time.sleep(0.2)
            theirs = [native(options.python, code, stdin, folder) for _, code, stdin in programs]
            # All at once, as verl sends the tests of a batch.
            with concurrent.futures.ThreadPoolExecutor(64) as pool:
                ours = list(pool.map(lambda program: served(url, *program[1:]), programs))
            clients = with_sdk(url), with_verl(url)
        finally:
            server.terminate()
            server.wait(60)
    unexpected, fields, known = 0, collections.Counter(), []
    for (kind, code, _), native_, served_ in zip(programs, theirs, ours):
        differs = [field for field in native_ if native_[field] != served_[field]]
        if kind.startswith("known: "):
            known.append((kind[7:], differs))
            continue
        fields.update(differs)
        unexpected += bool(differs)
        if differs:
            print(f"{kind}: {code[-60:]!r}")
            for field in differs:
                print(f"  {field}: {str(native_[field])[:150]!r} natively, {str(served_[field])[:150]!r} here")
    print(f"{len(programs) - len(KNOWN)} programs, {unexpected} with a difference{''.join(f', {n} in {field}' for field, n in fields.items())}")
    for kind, differs in known:
        print(f"known, {kind}: {', '.join(differs) or 'no difference'}")
    print(*clients, sep="\n")
    sys.exit(unexpected > 0)


if __name__ == "__main__":
    main()
