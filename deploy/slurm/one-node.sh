#!/usr/bin/env bash
# One run on one node, every service in one process (evenkeel train):
#
#   sbatch --export=ALL,EVENKEEL_RECIPE=arithmetic deploy/slurm/one-node.sh
#
# A job that is preempted, requeued or near its time limit ends after the step in progress with a checkpoint, and goes on from there when it
# starts again. docs/slurm.md has the variables. With GPUs: sbatch --gpus=1, or --gpus=2 and engines named in the recipe. With --ntasks=4 the
# learner has four ranks, the first of which is in the process of the run.
#SBATCH --job-name=evenkeel
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=8
#SBATCH --mem=16G
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@120
set -uo pipefail
program=${EVENKEEL:-evenkeel}
run=${EVENKEEL_RUN:-runs/$SLURM_JOB_NAME}
recipe=${EVENKEEL_RECIPE:-arithmetic}
ranks=${SLURM_NTASKS:-1}

# TERM comes from Slurm, which knows what follows: requeued after a preemption, gone after a cancellation. USR1 comes two minutes before the
# time limit, after which Slurm would do nothing more.
near_limit=
child=
# `srun` itself would kill its processes when it gets TERM, so the signal goes to the step; where Slurm sent it to all processes, again.
# shellcheck disable=SC2329 # the traps invoke it
terminate() {
  if [ "$ranks" = 1 ]; then
    kill -TERM "$child" 2>/dev/null
  else
    step=$(squeue --steps --noheader --jobs="$SLURM_JOB_ID" --format="%i %j" | awk '$2 == "ranks" { print $1 }')
    [ -z "$step" ] || scancel --signal=TERM "$step"
  fi
}
trap terminate TERM
trap 'near_limit=yes; terminate' USR1

# A start that was refused leaves no directory; with one there is a run to go on with.
if [ -e "$run/run.json" ]; then
  command=("$program" resume "$run")
else
  command=("$program" train --recipe "$recipe" --out "$run")
fi
if [ "$ranks" != 1 ]; then
  # A port that other jobs on the same node hardly have.
  port=$((20000 + SLURM_JOB_ID % 3000 * 10))
  # Whoever reaches it needs the token of this start.
  token=$(umask 077 && mktemp) || exit 1
  trap 'rm -f "$token"' EXIT
  od -An -N32 -tx1 /dev/urandom | tr -d ' \n' >"$token"
  command=(srun --job-name=ranks --kill-on-bad-exit=0 --cpus-per-task="${SLURM_CPUS_PER_TASK:-1}" "${command[@]}"
    --set learner.ranks.count=0 --set "learner.ranks.address=127.0.0.1:$port" --set "learner.ranks.token_file=$token")
fi
"${command[@]}" &
child=$!
# A signal ends `wait` early.
while kill -0 "$child" 2>/dev/null; do wait "$child"; done
wait "$child"
status=$?
if [ "$status" = 143 ] && [ -n "$near_limit" ]; then
  echo "near the time limit: job $SLURM_JOB_ID is queued again"
  scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
