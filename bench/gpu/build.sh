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

# What every Linux with glibc has, and libstdc++, which candle's kernels are linked with.
allowed='^(libc|libm|libgcc_s|libstdc\+\+|libdl|libpthread|librt|ld-linux-x86-64)\.so\.[0-9]+$'
needed=$(readelf -d "$program" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
echo "needs    $(echo "$needed" | paste -sd' ')"
if [ "$(uname -m)" = x86_64 ] && extra=$(echo "$needed" | grep -vE "$allowed"); then
  echo "$program needs $(echo "$extra" | paste -sd' ') to start: their functions are to be listed in crates/cuda/src/link/functions.rs" >&2
  # The linker keeps a library for the functions that only it defines.
  nm -D --undefined-only "$program" | awk '{print $2}' | grep -E '^(cu|cublas|curand|nvrtc|__cuda)' >&2 || true
  exit 1
fi
glibc=$(objdump -T "$program" | grep -oE 'GLIBC_[0-9.]+' | sort -uV | tail -n 1)
echo "glibc    ${glibc#GLIBC_} or later"
