#!/usr/bin/env python3
"""A pull of published weights over loopback, beside `cp` of the same folder on the same disk.

    python3 bench/weights/run.py [--gib 1] [--rounds 5] [--folder DIR]

The learner (with a tiny model) has a folder of so many GiB in files of 256 MiB among its published versions; the agent fetches it into an empty
folder, and `cp -r` copies it into another, by turns. Both begin when nothing waits to be written, and leave writing to the disk to the system;
the first round is not counted. A pull hashes every byte twice on the side of the learner, the first time that a version is asked for, and once
on the agent's; here both share the processors, so the second line, with the description made before, is what each further node sees. It fails
below half of cp's speed.
"""
import argparse
import hashlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import build, free_port  # noqa: E402

SHARD = 256 << 20
LIMIT = 0.5
VERSION = 7


def publish(folder, shards):
    """A version of random tensors of 32 MiB, as the learner writes one. Returns its digest."""
    folder.mkdir(parents=True)
    digests, weights = "", {}
    with open("/dev/urandom", "rb") as random:
        noise = random.read(1 << 20)
    for shard in range(shards):
        name, sizes = f"model-{shard + 1:05}-of-{shards:05}.safetensors", [SHARD // 8] * 8
        header, end = {}, 0
        for at, size in enumerate(sizes):
            header[f"layer.{shard}.{at}"] = {"dtype": "U8", "shape": [size], "data_offsets": [end, end + size]}
            weights[f"layer.{shard}.{at}"] = name
            end += size
        head = json.dumps(header).encode()
        sha = hashlib.sha256()
        with (folder / name).open("wb") as file:
            for block in (len(head).to_bytes(8, "little"), head):
                file.write(block)
                sha.update(block)
            for number in range(end >> 20):
                block = bytes([shard, number % 256]) + noise[2:]
                file.write(block)
                sha.update(block)
        digests += sha.hexdigest()
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weights}))
    digest = "sha256:" + hashlib.sha256(digests.encode()).hexdigest()
    (folder / "evenkeel-version.json").write_text(json.dumps({"version": VERSION, "digest": digest}))
    return digest


def until_up(evenkeel, url, process, log):
    for _ in range(600):
        if subprocess.run([evenkeel, "health", url], capture_output=True).returncode == 0:
            return
        if process.poll() is not None:
            break
        time.sleep(0.1)
    sys.exit(f"{url} does not serve:\n{log.read_text()[-2000:]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gib", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", help="where everything lies [default: a temporary folder]")
    parser.add_argument("--program", help="an evenkeel that is built already")
    parser.add_argument("--cluster", help="an evenkeel-bench that is built already")
    options = parser.parse_args()
    evenkeel, client = (options.program, options.cluster) if options.program and options.cluster else build("evenkeel", "evenkeel-bench")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder, processes = Path(name), []
        source = folder / "weights" / f"step-{VERSION}"
        shards = max(1, round(options.gib * (1 << 30) / SHARD))
        digest, size = publish(source, shards), shards * SHARD / 2**30
        subprocess.run([evenkeel, "model", "--out", str(folder / "model")], check=True, stdout=subprocess.DEVNULL)
        learner, agent = free_port(), free_port()

        def start(service, port, *settings):
            log = folder / f"{service}.log"
            command = [evenkeel, "serve", service, "--set", f"server.listen=127.0.0.1:{port}", *(word for s in settings for word in ("--set", s))]
            process = subprocess.Popen(command, stdout=log.open("wb"), stderr=subprocess.STDOUT)
            processes.append(process)
            until_up(evenkeel, f"http://127.0.0.1:{port}", process, log)
            return process

        def pull():
            # A new process with an empty folder, as a new node has it.
            copies = folder / "copies"
            shutil.rmtree(copies, ignore_errors=True)
            process = start("weights", agent, f"learner=http://127.0.0.1:{learner}", f"folder={copies}")
            os.sync()
            began = time.monotonic()
            subprocess.run([client, "cluster", "pull", f"http://127.0.0.1:{agent}", str(VERSION), digest], check=True)
            took = time.monotonic() - began
            process.terminate()
            process.wait()
            return took

        def cp():
            target = folder / "copied"
            shutil.rmtree(target, ignore_errors=True)
            os.sync()
            began = time.monotonic()
            subprocess.run(["cp", "-r", str(source), str(target)], check=True)
            return time.monotonic() - began

        try:
            start("learner", learner, f"model={folder / 'model'}", f"weights={folder / 'weights'}", f"checkpoints={folder / 'checkpoints'}")
            first = pull()
            cp()
            pulls, copies = zip(*((pull(), cp()) for _ in range(options.rounds)))
        finally:
            for process in processes:
                process.kill()
                process.wait()
        rate = lambda seconds: f"{size / seconds:.2f} GiB/s"
        ratio = statistics.median(copies) / statistics.median(pulls)
        print(f"{size:.2f} GiB: cp {rate(statistics.median(copies))}; first pull {rate(first)}; pull {rate(statistics.median(pulls))}")
        print(f"pull to cp: {ratio:.2f} (limit {LIMIT})")
        return 0 if ratio >= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
