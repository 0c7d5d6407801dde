#!/usr/bin/env python3
"""Runs the scripts of deploy/slurm on a real Slurm of this one machine, and takes their jobs away in the middle: the metrics must be those of a
run that nobody disturbed, bit for bit.

    apt-get install --no-install-recommends slurm-wlm munge        # Debian's
    cargo build --release --workspace --bins
    sudo python3 deploy/slurm/tests/run.py                          # --help: another program, single parts

It starts munged, slurmctld and slurmd of its own, with their files, ports and keys in a folder that is removed afterwards.
"""
import argparse
import contextlib
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
RECIPE = ROOT / "deploy" / "tests" / "small.toml"
STEPS = 24
# What two runs of one seed may differ in, as in deploy/tests: times, work that was done again, and the evidence about weights and samples, which
# begins anew with a process.
MAY_DIFFER = ("sampler_audit/", "timing_s/", "perf/throughput", "perf/time_per_step", "rollout/begun_again", "rollout/verified_again", "proof/")

CONFIGURATION = """
ClusterName=evenkeel
SlurmctldHost={host}
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
KillWait=30
MinJobAge=300
JobRequeue=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
NodeName={host} NodeAddr=127.0.0.1 CPUs={cores} RealMemory={memory} State=UNKNOWN
PartitionName=low Nodes={host} Default=YES PriorityTier=1 MaxTime=INFINITE State=UP
PartitionName=urgent Nodes={host} PriorityTier=10 PreemptMode=OFF MaxTime=INFINITE State=UP
"""


def free_ports(count):
    sockets = [socket.create_server(("", 0)) for _ in range(count)]
    ports = [entry.getsockname()[1] for entry in sockets]
    for entry in sockets:
        entry.close()
    return ports


class Cluster:
    def __init__(self, folder, cleanup):
        self.folder, self.processes = folder, []
        cleanup.callback(self.stop)
        self.cores, host = os.cpu_count(), socket.gethostname().partition(".")[0]
        for part in ("state", "spool"):
            (folder / part).mkdir()
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20 * 9 // 10
        (folder / "slurm.conf").write_text(CONFIGURATION.format(host=host, folder=folder, ports=free_ports(2), cores=self.cores, memory=memory))
        (folder / "munge.key").write_bytes(os.urandom(128))
        (folder / "munge.key").chmod(0o400)
        self.environment = os.environ | {"SLURM_CONF": str(folder / "slurm.conf")}
        self.start("munged", "--foreground", "--force", f"--socket={folder}/munge.socket", f"--key-file={folder}/munge.key",
                   f"--pid-file={folder}/munged.pid", f"--seed-file={folder}/munged.seed", f"--log-file={folder}/munged.log")
        self.until(lambda: (folder / "munge.socket").exists(), "munged does not answer", 20)
        self.start("slurmctld", "-D", "-i")
        self.start("slurmd", "-D")
        self.until(lambda: self.command("sinfo", "-h", "-o", "%t", check=False).split()[:1] in (["idle"], ["mix"]), "Slurm's node is not idle", 60)

    def start(self, *command):
        with (self.folder / f"{command[0]}.out").open("w") as output:
            self.processes.append(subprocess.Popen(command, env=self.environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT))

    def stop(self):
        self.command("scancel", "--user=root", check=False)
        for _ in range(100):
            if not self.command("squeue", "-h", check=False).strip():
                break
            time.sleep(0.3)
        for process in reversed(self.processes):
            process.terminate()
            process.wait(60)

    def command(self, *command, check=True):
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True)
        if check and done.returncode:
            raise SystemExit(f"{' '.join(command)}: {done.stderr.strip()}")
        return done.stdout

    def submit(self, script, output, *options, **variables):
        export = ",".join(["ALL", *(f"{name}={value}" for name, value in variables.items())])
        cores = () if any(option.startswith("--cpus-per-task") for option in options) else (f"--cpus-per-task={self.cores}",)
        return self.command("sbatch", "--parsable", *cores, "--mem=0", f"--output={output}", f"--export={export}", *options, str(script)).strip()

    def state(self, job):
        text = self.command("scontrol", "show", "job", job)
        fields = dict(part.split("=", 1) for part in text.split() if "=" in part)
        return fields["JobState"], int(fields["Restarts"]), fields["ExitCode"]

    def runs_again(self, job, count):
        state, restarts, _ = self.state(job)
        if state == "FAILED":
            raise SystemExit(f"job {job} has failed")
        return restarts >= count and state == "RUNNING"

    @staticmethod
    def until(holds, otherwise, seconds):
        deadline = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > deadline:
                raise SystemExit(otherwise)
            time.sleep(0.3)


def lines(run, kind="metrics"):
    file = run / f"{kind}.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def numbers(run):
    """All lines of a run without what may differ."""
    return [{key: value for key, value in line.items() if not key.startswith(MAY_DIFFER)} for kind in ("warm_start", "metrics", "evaluation") for line in lines(run, kind)]


def same(run, undisturbed, what):
    expected, found = numbers(undisturbed), numbers(run)
    for left, right in zip(expected, found):
        if left != right:
            different = [key for key in left | right if left.get(key) != right.get(key)]
            raise SystemExit(f"{what}: step {left.get('step')} of {left.get('kind')} differs in {sorted(different)[:8]}")
    if len(expected) != len(found) or len(lines(run)) != STEPS:
        raise SystemExit(f"{what}: {len(found)} lines instead of {len(expected)}")
    moved = sum(line["actor/grad_norm"] > 0 for line in lines(run))
    print(f"{what}: {len(found)} lines, equal in every number; {moved} of {STEPS} steps had a gradient", flush=True)


def disturbed(cluster, job, run, interruptions):
    """Takes the job away at the given steps, and waits for its end."""
    for count, (step, name, interrupt) in enumerate(interruptions, 1):
        cluster.until(lambda: len(lines(run)) >= step or cluster.state(job)[0] == "FAILED", f"job {job} did not reach step {step}", 900)
        began = time.monotonic()
        interrupt(job)
        cluster.until(lambda: cluster.state(job)[:2] == ("PENDING", count) or cluster.state(job)[1] > count, f"job {job} is not queued again: {cluster.state(job)}", 300)
        # Slurm lets a requeued job wait for two minutes; some seconds are enough for it to forget the credential of the job before.
        time.sleep(8)
        cluster.command("scontrol", "update", f"job={job}", "StartTime=now", check=False)
        cluster.until(lambda: cluster.runs_again(job, count), f"job {job} does not run again: {cluster.state(job)}", 300)
        print(f"  {name} at step {len(lines(run))}; it runs again after {time.monotonic() - began:.0f} s", flush=True)
    cluster.until(lambda: cluster.state(job)[0] not in ("RUNNING", "PENDING", "CONFIGURING", "COMPLETING"), f"job {job} does not end", 1200)
    state, restarts, status = cluster.state(job)
    if (state, status) != ("COMPLETED", "0:0") or restarts != len(interruptions):
        raise SystemExit(f"job {job}: {state}, status {status}, {restarts} restarts")


def interrupted(cluster, folder, program, plain, script, run, interruptions, *options):
    log = folder / f"{run.name}.log"
    work = run if script == "one-node" else run.parents[1]
    job = cluster.submit(ROOT / "deploy" / "slurm" / f"{script}.sh", log, "--nodes=1", *options, EVENKEEL=program, EVENKEEL_RECIPE=RECIPE, EVENKEEL_RUN=work)
    try:
        disturbed(cluster, job, run, interruptions)
        same(run, plain, " ".join([script, *options]))
    except SystemExit:
        for more in [log, *sorted((work / "logs").glob("*.log"))]:
            print(f"-- {more.name}\n{more.read_text()[-3000:] if more.exists() else 'none'}", file=sys.stderr)
        raise


def cancelled(cluster, folder, program):
    """A cancelled job ends with a checkpoint, too, and stays away."""
    run = folder / "cancelled"
    job = cluster.submit(ROOT / "deploy" / "slurm" / "one-node.sh", folder / "cancelled.log", EVENKEEL=program, EVENKEEL_RECIPE=RECIPE, EVENKEEL_RUN=run)
    cluster.until(lambda: len(lines(run)) >= 1, "the job to be cancelled did not begin", 900)
    cluster.command("scancel", job)
    cluster.until(lambda: cluster.state(job)[0] == "CANCELLED", f"job {job} is not cancelled", 120)
    cluster.until(lambda: (run / "summary.json").exists(), "its run has no summary", 60)
    time.sleep(5)
    state, summary = cluster.state(job)[0], json.loads((run / "summary.json").read_text())["state"]
    if (state, summary) != ("CANCELLED", "stopped"):
        raise SystemExit(f"the cancelled job is {state}, its run {summary}")
    print("cancelled: its run is stopped with a checkpoint, and the job is not queued again", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=["one-node", "several-nodes", "ranks", "cancelled"],
                        help="one-node, several-nodes, ranks, cancelled [default: all]")
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "target" / "release" / "evenkeel")
    parser.add_argument("--undisturbed", type=pathlib.Path, help="a finished run of deploy/tests/small.toml, instead of making one")
    given = parser.parse_args()
    program, folder = str(given.program.resolve()), pathlib.Path(tempfile.mkdtemp(prefix="evenkeel-slurm-"))
    with contextlib.ExitStack() as cleanup:
        cleanup.callback(shutil.rmtree, folder, ignore_errors=True)
        plain = given.undisturbed or folder / "plain"
        if not given.undisturbed:
            with (folder / "plain.log").open("w") as log:
                subprocess.run([program, "train", "--recipe", str(RECIPE), "--out", str(plain)], check=True, stdout=log, stderr=log)
        cluster = Cluster(folder, cleanup)
        (folder / "urgent.sh").write_text("#!/bin/sh\nsleep 2\n")

        def preempt(job):
            cluster.submit(folder / "urgent.sh", folder / "urgent.log", "--partition=urgent")

        def requeue(job):
            cluster.command("scontrol", "requeue", job)

        def near_limit(job):
            cluster.command("scancel", "--batch", "--signal=USR1", job)

        if "one-node" in given.parts:
            interrupted(cluster, folder, program, plain, "one-node", folder / "one",
                        [(3, "preempted", preempt), (9, "scontrol requeue", requeue), (15, "near its time limit", near_limit)])
        if "several-nodes" in given.parts:
            interrupted(cluster, folder, program, plain, "several-nodes", folder / "several" / "runs" / "run",
                        [(5, "preempted", preempt), (14, "near its time limit", near_limit)])
        if "ranks" in given.parts:
            interrupted(cluster, folder, program, plain, "one-node", folder / "ranks",
                        [(4, "preempted", preempt), (12, "near its time limit", near_limit)], "--ntasks=2", "--cpus-per-task=1")
        if "cancelled" in given.parts:
            cancelled(cluster, folder, program)


if __name__ == "__main__":
    main()
