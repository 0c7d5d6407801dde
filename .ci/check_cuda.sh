#!/usr/bin/env bash
# Lints what a build with CUDA compiles, on any machine: needs no compiler for CUDA, no library and no driver.
set -euo pipefail
cd "$(dirname "$0")/.."
export CUDARC_CUDA_VERSION=13000 CUDA_COMPUTE_CAP=90 NVCC=$PWD/crates/cuda/no-nvcc.sh
# With a setting of their own candle's empty kernels are another package to cargo than those of a build, and never come into one. Everything else
# is shared with the lints before: the services that are named have no part in CUDA, and give what all are built on the same features. The one of
# environments is linted here without its feature.
cargo clippy --release --locked -p evenkeel-model -p evenkeel-learner -p evenkeel-bench-gpu \
  -p evenkeel-workspace-hack -p evenkeel-rpc -p evenkeel-tinker -p evenkeel-guest -p evenkeel-generation -p evenkeel-environment-service \
  -p evenkeel-weights-agent -p evenkeel-reward -p evenkeel-traces --all-targets \
  --features evenkeel-model/cuda,evenkeel-learner/cuda,evenkeel-bench-gpu/cuda,evenkeel-data/schema \
  --config 'profile.release.package.candle-kernels.codegen-units=16' -- -D warnings
