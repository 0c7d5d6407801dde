#!/usr/bin/env bash
# nvcc without candle's kernels for quantised weights and mixtures of experts. Evenkeel never calls them, and its program has none of them
# (src/link.rs), but compiling them takes most of a build with CUDA. Use it as NVCC where candle is built:
#
#   NVCC=$PWD/crates/cuda/nvcc.sh cargo build --release --features cuda
#
# The compiler is the one in CUDA_HOME, or the next on the path.
set -euo pipefail
self=$(readlink -f "$0")
nvcc=${CUDA_HOME:+$CUDA_HOME/bin/nvcc}
if [ -z "$nvcc" ]; then
  while read -r found; do
    [ "$(readlink -f "$found")" = "$self" ] || { nvcc=$found; break; }
  done < <(type -ap nvcc)
fi

object='' folder='' source='' skipped=''
arguments=("$@")
for at in "${!arguments[@]}"; do
  case ${arguments[at]} in
    -o) object=${arguments[at + 1]} ;;
    --output-directory) folder=${arguments[at + 1]} ;;
    */moe/*.cu | */mmq_gguf/*.cu | */mmvq_gguf.cu | src/moe/*.cu | src/mmq_gguf/*.cu | src/mmvq_gguf.cu | */quantized.cu | src/quantized.cu)
      source=${arguments[at]} skipped=yes
      ;;
  esac
done
if [ -n "$skipped" ] && [ -n "$object" ]; then
  exec "${CXX:-c++}" -x c++ -fPIC -c /dev/null -o "$object"
fi
if [ -n "$skipped" ] && [ -n "$folder" ]; then
  name=${source##*/}
  : >"$folder/${name%.cu}.ptx"
  exit
fi
exec "$nvcc" "$@"
