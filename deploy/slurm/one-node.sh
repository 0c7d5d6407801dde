#!/usr/bin/env bash
# One run on one node, every service in one process (evenkeel train):
#
#   sbatch --export=ALL,EVENKEEL_RECIPE=arithmetic deploy/slurm/one-node.sh
#
# A job that is preempted, requeued or near its time limit ends after the step in progress with a checkpoint, and goes on from there when it
# starts again. docs/slurm.md has the variables. With GPUs: sbatch --gpus=1, or --gpus=2 and engines named in the recipe.
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

# TERM comes from Slurm, which knows what follows: requeued after a preemption, gone after a cancellation. USR1 comes two minutes before the
# time limit, after which Slurm would do nothing more.
near_limit=
child=
trap 'kill -TERM "$child" 2>/dev/null' TERM
trap 'near_limit=yes; kill -TERM "$child" 2>/dev/null' USR1

# A start that was refused leaves no directory; with one there is a run to go on with.
if [ -e "$run/run.json" ]; then
  "$program" resume "$run" &
else
  "$program" train --recipe "$recipe" --out "$run" &
fi
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
