#!/usr/bin/env bash
# Lints what a build with CUDA compiles, on any machine: needs no compiler for CUDA, no library and no driver.
set -euo pipefail
cd "$(dirname "$0")/.."
export CUDARC_CUDA_VERSION=13000 CUDA_COMPUTE_CAP=90 NVCC=$PWD/crates/cuda/no-nvcc.sh
# With a setting of their own candle's empty kernels are another package to cargo than those of a build, and never come into one. Everything else
# is shared with the lints of the default build.
cargo clippy --release --locked -p evenkeel-model -p evenkeel-learner -p evenkeel-bench-gpu --all-targets \
  --features evenkeel-model/cuda,evenkeel-learner/cuda,evenkeel-bench-gpu/cuda \
  --config 'profile.release.package.candle-kernels.codegen-units=16' -- -D warnings
