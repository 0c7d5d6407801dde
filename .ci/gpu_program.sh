#!/usr/bin/env bash
# Builds the program with CUDA, with kernels compiled by nvcc, on a machine without a GPU; holds the kernels to the registers that they may take;
# and starts it: without a driver it has to refuse a GPU in clear words, and must not refuse to start.
#
# In the same folder and profile as everything else, so that only what the feature changes is compiled again: candle, the model, the learner and
# what is built on them. The kernels are compiled again only where their text or the compiler has changed (crates/kernels/build.rs).
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
home=$(.ci/cuda_toolkit.sh)
if [ -z "$home" ]; then
  echo "skipped: nvcc cannot be installed"
  exit
fi
export CUDA_HOME=$home CUDA_COMPUTE_CAP=80 NVCC=$PWD/crates/cuda/nvcc.sh PATH=$home/bin:$PATH

messages=$(mktemp)
work=$(mktemp -d)
trap 'rm -rf "$messages" "$work"' EXIT
began=$SECONDS
# Chosen as the default build is, whose dependencies it shares. Where this program is built, the other one of the same name was: the next build of
# that puts it back.
LIBRARY_PATH=$home/lib cargo build --release --locked --bin evenkeel --features evenkeel/cuda \
  --message-format=json-render-diagnostics >"$messages"
echo "built in $((SECONDS - began)) s"
mkdir -p "$target/gpu"
program=$target/gpu/evenkeel
cp "$target/release/evenkeel" "$program"
printf 'program  %s, %.1f MB\n' "$program" "$(awk "BEGIN{print $(stat -c %s "$program") / 1e6}")"

python3 .ci/kernel_usage_test.py
.ci/kernel_usage.py "$messages"
crates/cuda/check_program.sh "$program"

# The image has the same libraries in such a folder. The driver is the machine's, and NCCL is not used yet.
libraries=$(.ci/cuda_libraries.sh)
if [ -n "$libraries" ]; then
  EVENKEEL_CUDA_LIBRARIES=$libraries "$program" gpu probe --json | python3 -c '
import json, sys
folder = sys.argv[1] + "/"
places = {library["file"]: library["path"] or "nowhere" for library in json.load(sys.stdin)["libraries"] if library["library"] not in ("driver", "nccl")}
lost = [f"{file} is {path}" for file, path in places.items() if not path.startswith(folder)]
sys.exit(f"the probe does not find the libraries of the image in {folder}: " + ", ".join(lost) if lost or not places else 0)' "$libraries"
  echo "finds    the libraries of the image in $libraries"
else
  echo "skipped: the libraries of the image cannot be installed"
fi

if [ -e /dev/nvidia0 ]; then
  echo "this machine has a GPU: that the program refuses to work without one is not tested"
  exit
fi
probe=$("$program" gpu probe)
echo "$probe" | grep -qF 'no GPU can be used here' || { echo "$probe" && exit 1; }
# Train, as a user would. Nothing is found where these lead.
if refusal=$(CUDA_HOME=$work CUDA_PATH=$work EVENKEEL_CUDA_LIBRARIES=$work timeout 60 "$program" train --recipe arithmetic --out "$work/run" \
  --set learner.compute.device=cuda 2>&1); then
  echo "a run on a GPU that does not exist succeeded" && exit 1
fi
for words in 'compute.device is cuda' 'libcuda.so.1' "it comes with NVIDIA's driver (580 or later)"; do
  echo "$refusal" | grep -qF "$words" || { printf 'the refusal does not say "%s":\n%s\n' "$words" "$refusal" && exit 1; }
done
echo "refuses  $(echo "$refusal" | tail -n 1 | cut -c1-160)"
