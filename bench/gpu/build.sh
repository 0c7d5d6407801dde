#!/usr/bin/env bash
# Builds the program that correct.sh, memcheck.sh and speed.sh run, for machines that need neither compilers nor this checkout.
#
#   bench/gpu/build.sh
#
# Needs nvcc and libraries (or stubs of them) to link against: docs/gpu.md. The program is written to target/gpu. It is refused if it is larger
# than 30 MiB, or if it needs a library to start that a machine without CUDA lacks.
set -euo pipefail
cd "$(dirname "$0")/../.."
max_bytes=$((30 << 20))
target=${CARGO_TARGET_DIR:-target}

NVCC=$PWD/crates/cuda/nvcc.sh cargo build --release --locked -p evenkeel-bench-gpu --features cuda
mkdir -p "$target/gpu"
program=$target/gpu/evenkeel-bench-gpu
strip -o "$program" "$target/release/evenkeel-bench-gpu"

bytes=$(stat -c %s "$program")
printf 'program  %s, %.1f MiB (limit %d)\n' "$program" "$(awk "BEGIN{print $bytes / 1048576}")" $((max_bytes >> 20))
if [ "$bytes" -gt "$max_bytes" ]; then
  echo "$program is too large" >&2
  exit 1
fi

crates/cuda/check_program.sh "$program"
