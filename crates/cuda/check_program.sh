#!/usr/bin/env bash
# Refuses a program with CUDA that needs a library to start which a machine without CUDA lacks.
#
#   crates/cuda/check_program.sh PROGRAM
set -euo pipefail
program=$1

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
