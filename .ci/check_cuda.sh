#!/usr/bin/env bash
# Lints what a build with CUDA compiles, on any machine: needs no compiler for CUDA, no library and no driver.
set -euo pipefail
cd "$(dirname "$0")/.."
export CUDARC_CUDA_VERSION=13000 CUDA_COMPUTE_CAP=90 NVCC=$PWD/crates/cuda/no-nvcc.sh
# A folder of its own: candle's empty kernels must not come into a build.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/cuda-check
cargo clippy --release --locked -p evenkeel-bench-gpu --all-targets --features cuda -- -D warnings
