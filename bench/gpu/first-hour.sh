#!/usr/bin/env bash
# Everything that the first hour on a card is for, most valuable first: what the machine has; whether goldens agree; the speed of passes, beside
# PyTorch where there is one; a training run of a model of the shape of SmolLM2-135M with random weights, the same with adapters, and with vLLM on
# the same card, asleep while the learner trains, where there is a vLLM; the rest of correctness and speed; changes to a pass beside the pass as it
# is; memory under NVIDIA's sanitizer. A step that fails, or that its time runs out for, does not keep the next one from running. One that takes
# more memory of the card than is free is skipped. A table of all steps is printed at the end, whatever happened; OUT/first-hour.json has all
# results, OUT/first-hour.md shows them (page.py, with python3).
#
#   bench/gpu/first-hour.sh OUT [PROGRAM] [EVENKEEL] [cuda|cpu]
#
# PROGRAM is that of bench/gpu/build.sh, EVENKEEL the program with CUDA (.ci/gpu_program.sh; default: target/gpu/evenkeel). VLLM names vLLM's program
# (default: the one on the path), EVENKEEL_PYTHON a Python with PyTorch. STEPS (words, default: all) chooses steps by the beginning of their names.
# With cpu it is a rehearsal on tiny models.
#
# Exit status: 0 if no step failed, 1 if one did, 2 for wrong arguments.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
if [ $# -lt 1 ] || [ $# -gt 4 ]; then
  echo "usage: first-hour.sh OUT [PROGRAM] [EVENKEEL] [cuda|cpu]" >&2
  exit 2
fi
target=${CARGO_TARGET_DIR:-$root/target}
program=${2:-$target/gpu/evenkeel-bench-gpu}
evenkeel=${3:-$target/gpu/evenkeel}
device=${4:-cuda}
for needed in "$program" "$evenkeel"; do
  if [ ! -x "$needed" ]; then
    echo "$needed is missing: bench/gpu/build.sh and .ci/gpu_program.sh build it" >&2
    exit 2
  fi
done
mkdir -p "$1"
out=$(cd "$1" && pwd)
: >"$out/steps.tsv"
goldens=$root/tests/golden
# What a step may take: below what a machine that is lent may give a command.
limit=530

rows=()
failed=0
summary() {
  trap - EXIT
  {
    printf '\n%-22s%-10s%8s  %s\n' step result seconds 'last line'
    [ ${#rows[@]} -eq 0 ] || printf '%s\n' "${rows[@]}"
  } | tee "$out/first-hour.txt"
  python3 "$here/page.py" "$out" >"$out/page.log" 2>&1 || echo "no first-hour.md: $(tail -n 1 "$out/page.log")" >&2
  exit "$failed"
}
trap summary EXIT
trap 'failed=1; exit' INT TERM

# step NAME NEEDS COMMAND...: within its time, its output in OUT/NAME.log and its row in the table.
step() {
  local name=$1 needs=$2 status=0 began=$SECONDS result last
  shift 2
  case " ${STEPS:-$name} " in
    *" $name "*) ;;
    *)
      local wanted=''
      for prefix in ${STEPS:-}; do [[ $name != "$prefix"* ]] || wanted=yes; done
      [ -n "$wanted" ] || return 0
      ;;
  esac
  printf '\n== %s (needs %s)\n' "$name" "$needs"
  timeout --kill-after=10 "$limit" "$@" 2>&1 | tee "$out/$name.log" || status=${PIPESTATUS[0]}
  case $status in
    0) result=passed ;;
    77) result=skipped ;;
    124 | 137) result=stopped failed=1 ;;
    *) result=FAILED failed=1 ;;
  esac
  last=$(grep -v '^ *$' "$out/$name.log" | tail -n 1 | tr '\t' ' ' | cut -c1-110)
  rows+=("$(printf '%-22s%-10s%8d  %s' "$name" "$result" $((SECONDS - began)) "$last")")
  printf '%s\t%s\t%s\t%d\t%s\n' "$name" "$needs" "$result" $((SECONDS - began)) "$last" >>"$out/steps.tsv"
}

# MiB of the card: free, or total. Nothing where the driver's tool gives no answer.
card_mib() {
  [ "$device" != cpu ] || return 0
  timeout 10 nvidia-smi --query-gpu="memory.$1" --format=csv,noheader,nounits -i 0 2>/dev/null | grep -x '[0-9][0-9]*' || true
}

# with_room GIB COMMAND...: skips a command that takes more memory of the card than is free; what is not known keeps none from running.
with_room() {
  local gib=$1 free
  shift
  free=$(card_mib free)
  if [ -n "$free" ] && [ "$free" -lt $((gib * 1024)) ]; then
    echo "skipped: $((free / 1024)) GiB of the card are free, and this takes $gib"
    return 77
  fi
  "$@"
}

# The shape of SmolLM2-135M (but for its vocabulary: the tokenizer has characters), a step of real training after another.
train() {
  local run=$1
  shift
  local shape=(hidden_size=576 intermediate_size=1536 layers=30 heads=9 kv_heads=3 head_dim=64 vocabulary_size=49152 tied=true)
  # A model that is named by its folder needs its data named, too.
  local settings=(data.kind=arithmetic run.steps=8 warm_start.steps=30 evaluation.problems=16 learner.compute.device=cuda learner.compute.dtype=bf16)
  if [ "$device" = cpu ]; then
    shape=(layers=2)
    settings=(data.kind=arithmetic run.steps=2 warm_start.steps=2 warm_start.examples_per_step=4 evaluation.problems=0 sampling.prompts_per_step=2
      sampling.group_size=4 sampling.max_tokens=16)
  fi
  rm -rf "$run"
  "$evenkeel" train --recipe arithmetic --out "$run" \
    $(printf -- '--set model.fresh.%s ' "${shape[@]}") $(printf -- '--set %s ' "${settings[@]}" "$@") </dev/null
}

# Adapters beside a frozen base in bf16: the model that the training run before has left, written in that type.
train_lora() {
  local base=$out/base-bf16
  if [ ! -e "$out/train/model/config.json" ]; then
    echo "skipped: the training run before has left no model"
    return 77
  fi
  rm -rf "$base"
  "$evenkeel" export "$out/train" --to "$base" --type bf16 || return 1
  train "$out/train-lora" "model.path=$base" learner.lora.rank=16 learner.lora.base_type=bf16 warm_start.steps=0
}

stop_vllm() {
  # Interrupted it ends its engine too; killed it would leave that behind, with its memory.
  kill -INT "$vllm_process" 2>/dev/null && wait "$vllm_process" 2>/dev/null
  vllm_process=''
}

# vLLM on the same card, which sleeps at each step.
train_beside_vllm() {
  local vllm=${VLLM:-$(command -v vllm || true)} port=${VLLM_PORT:-8377} model=$out/train/model waited=0 total
  if [ -z "$vllm" ] || [ "$device" = cpu ]; then
    echo "skipped: no vLLM"
    return 77
  fi
  if [ ! -e "$model/config.json" ]; then
    echo "skipped: the training run before has left no model"
    return 77
  fi
  # vLLM's share, and a tenth for a learner of this size.
  total=$(card_mib total)
  with_room $((${total:-0} / 2048)) true || return
  "$evenkeel" model untie "$model" "$out/untied" || return 1
  VLLM_SERVER_DEV_MODE=1 VLLM_NO_USAGE_STATS=1 HF_HUB_OFFLINE=1 "$vllm" serve "$out/untied" --host 127.0.0.1 --port "$port" \
    --generation-config vllm --logprobs-mode processed_logprobs --enable-sleep-mode --gpu-memory-utilization 0.4 >"$out/vllm.log" 2>&1 &
  vllm_process=$!
  trap stop_vllm EXIT
  until "$evenkeel" health "http://127.0.0.1:$port/health" 2>/dev/null; do
    if ! kill -0 "$vllm_process" 2>/dev/null || [ "$waited" -ge 240 ]; then
      echo "vLLM does not start: $out/vllm.log"
      stop_vllm
      return 1
    fi
    sleep 2
    waited=$((waited + 2))
  done
  local status=0
  train "$out/train-vllm" "model.path=$model" "generation.endpoints=[\"http://127.0.0.1:$port\"]" sampling.engines_while_training=offload || status=$?
  stop_vllm
  return "$status"
}
export -f card_mib with_room train train_lora train_beside_vllm stop_vllm
export out device evenkeel

card='a card'
part() {
  step "$1-$2" "$card" "$program" "$1" "$out" "$goldens" "$device" --only "$2"
}

# torch WHAT GIB: PyTorch is a second process on the card. GIB is what its smallest model takes.
torch() {
  step "$1-torch" "$card, PyTorch" bash -c 'with_room "$@"' with_room "$2" "$program" "$1" "$out" "$goldens" "$device" --only torch
}

step probe nothing "$evenkeel" gpu probe
part correct goldens
# Before the passes that are compared with it.
torch speed 40
part speed model
step train "$card, evenkeel with CUDA" bash -c 'train "$out/train"'
step train-lora "$card, evenkeel with CUDA" bash -c train_lora
step train-vllm "$card, evenkeel with CUDA, vLLM" bash -c train_beside_vllm
[ "$device" = cpu ] || part correct kernels
torch correct 32
for name in curve resume layer; do part correct "$name"; done
for name in memory publish layer roofline; do part speed "$name"; done
# Changes to a pass that are off unless they are asked for, each beside the pass as it is.
for variant in head joined memory all; do
  step "variant-$variant" "$card" "$program" variants "$out" "$goldens" "$device" --only "$variant"
done
[ "$device" = cpu ] || step memcheck "$card, compute-sanitizer" "$here/memcheck.sh" "$out" "$program"
