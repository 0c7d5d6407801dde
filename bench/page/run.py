#!/usr/bin/env python3
"""What the live page costs a run: python3 bench/page/run.py [--pairs 5] [--readers 3] [--steps 150]

The same run is done in pairs, once without its page (`page.listen=off`) and once with a page and readers who follow its events from the first moment to
the last, as browsers do. Both compute the same bits. Taken are the seconds of CPU and the peak of memory of the run's process; what readers need is not in
it. CPU seconds say on a busy machine, too, what wall time cannot, but a run without a page does not always take the same either: the cost has its standard
error over pairs. A page on which nobody looks makes nothing, so that this is the dearer case.

The limits are 1 % and 20 MiB. The exit status is 1 where the cost is above one by more than two standard errors.
"""

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import ROOT, build, free_port  # noqa: E402

LIMIT_SHARE, LIMIT_MIB = 0.01, 20.0


def get(address, path):
    return urllib.request.urlopen(f"http://{address}{path}", timeout=60)


def follow(address, ended, counts):
    """Opens the page of the run and reads its events until the run has ended; a connection that is lost is made again."""
    while not ended.is_set():
        try:
            with get(address, "/") as page:
                run = re.search(r'href="(/run/[^"/]+)"', page.read().decode())
            if run is None:
                raise OSError("no run yet")
            with get(address, run[1]) as page:
                counts.append(len(page.read()))
            with get(address, run[1] + "/events") as events:
                for line in events:
                    counts.append(len(line))
        except OSError:
            time.sleep(0.1)


def train(arguments, folder, readers):
    """Seconds of CPU, MiB at the peak and bytes read of a run."""
    address = f"127.0.0.1:{free_port()}"
    settings = {
        "run.steps": arguments.steps,
        "evaluation.every": 0,
        "checkpoint.every": 1_000_000,
        "page.listen": address if readers else "off",
    }
    command = [arguments.binary, "train", "--recipe", arguments.recipe, "--out", folder]
    command += [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    log = folder.with_suffix(".log")
    with log.open("wb") as output:
        process = subprocess.Popen([str(word) for word in command], stdout=output, stderr=output, stdin=subprocess.DEVNULL)
    counts, ended = [], threading.Event()
    threads = [threading.Thread(target=follow, args=(address, ended, counts), daemon=True) for _ in range(readers)]
    for thread in threads:
        thread.start()
    _, status, usage = os.wait4(process.pid, 0)
    ended.set()
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"the run ended with status {process.returncode}:\n{log.read_text(errors='replace')[-2000:]}")
    if readers and not counts:
        sys.exit("nobody could read the page")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, sum(counts)


def error(values):
    return statistics.stdev(values) / len(values) ** 0.5


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, help="evenkeel, instead of a build")
    parser.add_argument("--recipe", default=ROOT / "cli/tests/suite/small.toml")
    parser.add_argument("--pairs", type=int, default=5, help="at least 2")
    parser.add_argument("--readers", type=int, default=3)
    parser.add_argument("--steps", type=int, default=150)
    arguments = parser.parse_args()
    arguments.binary = arguments.binary or build("evenkeel")
    if arguments.pairs < 2:
        parser.error("--pairs must be at least 2: one pair has no standard error")
    shares, sizes = [], []
    with tempfile.TemporaryDirectory() as folder:
        for pair in range(arguments.pairs):
            found = {}
            # Whatever changes with time on the machine meets both alike.
            for readers in (0, arguments.readers) if pair % 2 == 0 else (arguments.readers, 0):
                found[readers] = train(arguments, Path(folder) / f"{pair}-{readers}", readers)
            (plain, peak, _), (watched, watched_peak, read) = found[0], found[arguments.readers]
            shares.append(watched / plain - 1)
            sizes.append(watched_peak - peak)
            print(
                f"pair {pair + 1}: {plain:.2f} s of CPU and {peak:.0f} MiB without a page, {watched:.2f} s and {watched_peak:.0f} MiB with "
                f"{arguments.readers} readers, who got {read / 1e6:.1f} MB",
                flush=True,
            )
    share, size = statistics.mean(shares), statistics.mean(sizes)
    print(f"cost: {100 * share:.2f} ± {100 * error(shares):.2f} % of the CPU (limit {100 * LIMIT_SHARE:.0f} %)")
    print(f"      {size:.1f} ± {error(sizes):.1f} MiB at the peak (limit {LIMIT_MIB:.0f} MiB)")
    sys.exit(share - 2 * error(shares) > LIMIT_SHARE or size - 2 * error(sizes) > LIMIT_MIB)


if __name__ == "__main__":
    main()
