#!/usr/bin/env bash
# One run over the nodes of a job: orchestrator, generation service and learner on the first node, an engine on each of the others (on the
# first as well where it is the only one), a reward worker on each.
#
#   sbatch --nodes=3 --export=ALL,EVENKEEL_RECIPE=arithmetic deploy/slurm/several-nodes.sh
#   sbatch --nodes=3 --gpus-per-node=1 --export=ALL,EVENKEEL_ENGINE=vllm,EVENKEEL_RECIPE=mine.toml deploy/slurm/several-nodes.sh
#
# Near its time limit the run ends after its step with a checkpoint, and the job is queued again; a job that is preempted goes on from the last
# checkpoint. docs/slurm.md has the variables, and says what is protected from other users.
#SBATCH --job-name=evenkeel
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --mem=16G
#SBATCH --time=24:00:00
#SBATCH --exclusive
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@180
set -euo pipefail
program=${EVENKEEL:-evenkeel}
recipe=${EVENKEEL_RECIPE:-arithmetic}
work=$(realpath -m "${EVENKEEL_RUN:-runs/$SLURM_JOB_NAME}")
engine=${EVENKEEL_ENGINE:-embedded}
drain=${EVENKEEL_DRAIN:-25s}
export SRUN_CPUS_PER_TASK=${SLURM_CPUS_PER_TASK:-1}

mapfile -t hosts < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
head=${hosts[0]}
engines=("${hosts[@]:1}")
[ ${#engines[@]} -gt 0 ] || engines=("$head")
# Ten ports that other jobs on the same nodes hardly have.
port=$((20000 + SLURM_JOB_ID % 3000 * 10))

# Weights go through this folder, so that every node must see the same one.
umask 077
mkdir -p "$work"/{logs,start,weights,checkpoints,runs}
echo "$SLURM_JOB_ID" >"$work/job"
# shellcheck disable=SC2016
srun --nodes="${#hosts[@]}" --ntasks-per-node=1 bash -c '[ "$(cat "$1/job" 2>/dev/null)" = "$SLURM_JOB_ID" ] ||
  { echo "$(hostname) does not see $1 as the first node does: a folder on shared storage is needed (EVENKEEL_RUN)" >&2; exit 1; }' check "$work"
# Whoever reaches a port of these nodes needs it.
[ -s "$work/token" ] || od -An -N32 -tx1 /dev/urandom | tr -d ' \n' >"$work/token"

"$program" model --recipe "$recipe" --out "$work/start/model"
model=$work/start/model
if [ "$engine" = vllm ]; then
  "$program" model untie "$model" "$work/start/untied"
fi

names=() pids=()
# service NAME HOST COMMAND...: one more process, its log in logs/NAME.log.
service() {
  local name=$1 host=$2
  shift 2
  srun --overlap --job-name="$name" --nodes=1 --ntasks=1 --nodelist="$host" --output="$work/logs/$name.log" --open-mode=append "$@" &
  names+=("$name") pids+=($!)
}
server=(--set server.insecure=true --set "server.token_file=$work/token")

urls=()
for index in "${!engines[@]}"; do
  host=${engines[$index]}
  urls+=("\"http://$host:$((port + 5))\"")
  if [ "$engine" = vllm ]; then
    service "engine-$index" "$host" env VLLM_SERVER_DEV_MODE=1 HF_HUB_OFFLINE=1 vllm serve "$work/start/untied" --host 0.0.0.0 --port $((port + 5)) \
      --generation-config vllm --logprobs-mode processed_logprobs --enable-per-request-metrics
  else
    service "engine-$index" "$host" "$program" serve engine --recipe "$recipe" --set "listen=0.0.0.0:$((port + 5))" --set insecure=true \
      --set "model=$model" --set "weights_roots=[\"$work/weights\"]" --set "api_key_file=$work/token"
  fi
done
workers=()
for index in "${!hosts[@]}"; do
  host=${hosts[$index]}
  workers+=("\"http://$host:$((port + 2))\"")
  service "reward-$index" "$host" "$program" serve reward --recipe "$recipe" --set "server.listen=0.0.0.0:$((port + 2))" "${server[@]}"
done
list() { local IFS=,; echo "[$*]"; }
service generation "$head" "$program" serve generation --recipe "$recipe" --set "server.listen=0.0.0.0:$((port + 1))" "${server[@]}" \
  --set "endpoints=$(list "${urls[@]}")" --set "weights.roots=[\"$work/weights\"]" --set weights.routes_required=true \
  --set "api_key_file=$work/token" --set engine.startup_timeout=20m
service learner "$head" "$program" serve learner --recipe "$recipe" --set "server.listen=0.0.0.0:$((port + 3))" "${server[@]}" \
  --set "model=$model" --set "checkpoints=$work/checkpoints" --set "weights=$work/weights"
ended() { kill -0 "$1" 2>/dev/null && return 1 || return 0; }
orchestrator=
wait_for_run() {
  [ -z "$orchestrator" ] || until ended "$orchestrator"; do sleep 0.2; done
}
# The run ends after its step. `srun` itself would kill its process when it gets SIGTERM, so the signal goes to the step. What is left when this
# script ends is ended by Slurm.
stop() {
  local step
  step=$(squeue --steps --noheader --jobs="$SLURM_JOB_ID" --format="%i %j" | awk '$2 == "orchestrator" { print $1 }')
  [ -z "$step" ] || scancel --signal=TERM "$step" || true
  wait_for_run
}
all_run() {
  for index in "${!pids[@]}"; do
    if ended "${pids[$index]}"; then
      echo "${names[$index]} ended: $work/logs/${names[$index]}.log" >&2
      stop
      exit 1
    fi
  done
}
# Every process has got it, and services drain: the run goes on from its last checkpoint.
trap 'echo "stopped by Slurm"; wait_for_run; exit 143' TERM
trap 'echo "near the time limit: job $SLURM_JOB_ID is queued again"; stop; scontrol requeue "$SLURM_JOB_ID"; exit 143' USR1

# The run begins when an engine has loaded: the orchestrator gives up on a service after `services.outage_timeout`.
until "$program" health "http://$head:$((port + 1))" >/dev/null 2>&1; do
  sleep 2
  all_run
done
service orchestrator "$head" "$program" serve orchestrator --recipe "$recipe" --set "server.listen=0.0.0.0:$((port + 4))" \
  --set server.insecure=true --set "server.token_file=$work/token" --set "server.drain=$drain" --set "client.token_file=$work/token" \
  --set "runs=$work/runs" --set start.name=run --set "start.set=[\"model.path=$model\"]" --set "endpoints.generation=http://$head:$((port + 1))" \
  --set "endpoints.reward=$(list "${workers[@]}")" --set "endpoints.learner=http://$head:$((port + 3))"
orchestrator=$!

# An orchestrator serves on when its run has ended: its summary says how.
summary=$work/runs/run/summary.json
began=$(date +%s)
while sleep 1; do
  all_run
  # One of this start: that of the start before says "stopped".
  if [ -e "$summary" ] && [ "$(stat -c %Y "$summary")" -ge "$began" ] && grep -qE '"state": *"(completed|stopped|failed)"' "$summary"; then
    break
  fi
done
stop
"$program" runs "$work/runs"
grep -q '"state": *"completed"' "$summary"
