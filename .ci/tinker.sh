#!/usr/bin/env bash
# Tinker's SDK and tinker-cookbook, unmodified, against `evenkeel serve tinker`:
#
#     .ci/tinker.sh MODEL [EVENKEEL]
#
# MODEL is the folder of a small model with a tokenizer, such as SmolLM2-135M; EVENKEEL the binary. Engines are the embedded one, or with
# VLLM=ENV/bin/vllm a vLLM that is started here. TINKER_PYTHON may name a Python with the packages; otherwise a virtual environment is made,
# which takes some gigabytes.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# Links are kept: a Python finds its virtual environment by where it lies.
absolute() { realpath --no-symlinks "$1"; }
model=$(absolute "$1")
evenkeel=$(absolute "${2:-target/release/evenkeel}")
vllm_program=${VLLM:+$(absolute "$VLLM")}
python=${TINKER_PYTHON:+$(absolute "$TINKER_PYTHON")}
work=$(mktemp -d)
# A name of the cookbook's table, whose tokenizer and renderer are then those of the model.
name=meta-llama/Llama-3.2-1B
server=
vllm=
stop() {
    local process
    for process in $server $vllm; do kill "$process" 2>/dev/null && wait "$process" || true; done
    rm -rf "$work"
}
trap stop EXIT
cd "$work"

if [ -z "$python" ]; then
    python3 -m venv venv
    venv/bin/pip install --quiet --require-hashes -r "$here/requirements/tinker.txt"
    # Of its requirements tml-renderers may not be had; no recipe here uses it.
    venv/bin/pip install --quiet --no-deps --require-hashes -r "$here/requirements/tinker-cookbook.txt"
    python=$work/venv/bin/python
fi
export TINKER_API_KEY=tml-0123456789abcdef TINKER_TELEMETRY=0 HF_HUB_OFFLINE=1 PYTHONUNBUFFERED=1

free_port() { "$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
port=$(free_port)
url=http://127.0.0.1:$port
context=1024
engines=(--set engine.max_model_len=$context --set engine.kv_cache_tokens=8192)
if [ -n "$vllm_program" ]; then
    vllm_port=$(free_port)
    # Elsewhere than the server, whose paths must do there too.
    cd /
    # As docs/generation.md has it; in f32, as the learner computes, and with prompts uncut: vLLM 0.32 on a CPU fails where a seeded one is cut.
    VLLM_SERVER_DEV_MODE=1 VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 VLLM_CPU_KVCACHE_SPACE=1 VLLM_NO_USAGE_STATS=1 \
        "$vllm_program" serve "$model" --host 127.0.0.1 --port "$vllm_port" --enable-lora --max-lora-rank 32 --max-loras 2 \
        --lora-target-modules q_proj k_proj v_proj o_proj gate_proj up_proj down_proj --logprobs-mode processed_logprobs \
        --generation-config vllm --dtype float32 --enforce-eager --max-model-len $context --max-num-batched-tokens 16384 >"$work/vllm.log" 2>&1 &
    vllm=$!
    cd "$work"
    until "$python" -c "import urllib.request as u; u.urlopen('http://127.0.0.1:$vllm_port/health')" 2>/dev/null; do
        kill -0 "$vllm" || { tail -50 vllm.log; exit 1; }
        sleep 2
    done
    engines=(--set "generation.endpoints=[\"http://127.0.0.1:$vllm_port\"]")
fi
serve() {
    "$evenkeel" serve tinker --set "model=$model" --set "tinker.model_name=$name" --set "tinker.listen=127.0.0.1:$port" \
        --set tinker.unembed=frozen --set tinker.session_expiry=25s --set generation.engine.control_timeout=60s "${engines[@]}" \
        >>server.log 2>&1 &
    server=$!
    for _ in $(seq 300); do
        "$python" -c "import urllib.request as u; u.urlopen('$url/api/v1/healthz')" 2>/dev/null && return
        kill -0 "$server" || { cat server.log; exit 1; }
        sleep 1
    done
}
# In a subshell, whose process is the recipe's.
recipe() {
    exec "$python" "$here/tinker_recipe.py" "$1" "$model" base_url="$url" model_name="$name" log_path="$work/$1" save_every=1 \
        "${@:2}"
}
# One that is killed after its second checkpoint and started again, which goes on from the last.
killed_and_resumed() {
    local of=$1 client
    shift
    (recipe "$of" "$@") >"$of.log" 2>&1 &
    client=$!
    until [ "$(checkpoints "$of")" -ge 2 ]; do
        kill -0 "$client" 2>/dev/null || { cat "$of.log"; exit 1; }
        sleep 0.2
    done
    kill -9 "$client"
    wait "$client" 2>/dev/null || true
    (recipe "$of" "$@") >"$of-resumed.log" 2>&1 || { cat "$of-resumed.log"; exit 1; }
    cat "$work/$of/metrics.jsonl"
}
checkpoints() { cat "$work/$1/checkpoints.jsonl" 2>/dev/null | wc -l; }

serve
echo "== the SDK"
"$python" "$here/tinker_checks.py" "$url" "$name"

echo "== sl_loop, killed after its second checkpoint and resumed"
killed_and_resumed sl_loop batch_size=4 max_steps=6 learning_rate=1e-3
grep "Resuming from batch" sl_loop-resumed.log

echo "== rl_loop, from the weights of sl_loop, which knows the form of an answer"
mkdir rl_loop
taught=$("$python" -c "
import json
last = json.loads(open('sl_loop/checkpoints.jsonl').readlines()[-1])
open('rl_loop/checkpoints.jsonl', 'w').write(json.dumps({**last, 'name': 'start', 'batch': 0}) + '\\n')
print(last['state_path'])
")
(recipe rl_loop loss_fn=importance_sampling batch_size=2 group_size=6 max_tokens=12 max_steps=2 learning_rate=1e-4) >rl_loop.log 2>&1 || { cat rl_loop.log; exit 1; }
cat "$work/rl_loop/metrics.jsonl"
grep -q '"grad_norm"' "$work/rl_loop/metrics.jsonl"

echo "== supervised/train.py by chat_sl, killed and resumed, with an evaluation on held-out data"
killed_and_resumed chat_sl.train behavior_if_log_dir_exists=resume max_steps=6 learning_rate=1e-3 eval_every=3 batch_size=4 max_length=128
grep -i "resum" chat_sl.train-resumed.log
grep -q '"test/nll"' "$work/chat_sl.train/metrics.jsonl"

# Few of its sums are right. Some answers are cut by so few tokens, which costs them reward: so groups differ, without which nothing is learned.
arithmetic=(env=arithmetic groups_per_batch=2 group_size=4 max_tokens=6 max_steps=4 learning_rate=1e-4 eval_every=0
    "load_checkpoint_path=$taught")
has_learned() {
    "$python" -c "
import json, sys
norms = [json.loads(line).get('grad_norm') for line in open('math_rl.train/metrics.jsonl')]
if not any(norms):
    sys.exit('in no step of math_rl did rewards differ: nothing was learned')
"
}
echo "== rl/train.py by math_rl, from the same weights, killed and resumed"
killed_and_resumed math_rl.train behavior_if_log_dir_exists=resume loss_fn=importance_sampling "${arithmetic[@]}"
grep -i "resum" math_rl.train-resumed.log
has_learned
echo "== the same, each mini-batch as it is complete, with ppo"
mv math_rl.train math_rl.whole
(recipe math_rl.train behavior_if_log_dir_exists=delete loss_fn=ppo num_substeps=2 "${arithmetic[@]}") >math_rl.log 2>&1 ||
    { cat math_rl.log; exit 1; }
cat "$work/math_rl.train/metrics.jsonl"
has_learned

echo "== a restart of the server"
kill "$server"
wait "$server" || true
serve
"$python" -c "
import json, urllib.request as u
request = u.Request('$url/api/v1/checkpoints', headers={'X-API-Key': '$TINKER_API_KEY'})
paths = [each['tinker_path'] for each in json.load(u.urlopen(request))['checkpoints']]
assert any(path.endswith('/sampler_weights/final') for path in paths), paths
print(len(paths), 'checkpoints')
"
! grep -q "$TINKER_API_KEY" server.log
if [ -n "$vllm" ]; then
    # Each version that was sampled from, under its own name.
    grep -c "POST /v1/load_lora_adapter HTTP/1.1\" 200" vllm.log
fi
echo "all of it passed"
