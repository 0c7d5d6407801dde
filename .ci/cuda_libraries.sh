#!/usr/bin/env bash
# Assembles the libraries of the image for GPUs (deploy/Dockerfile.cuda) in one folder, as that has them: cuBLAS, cuBLASLt, cuRAND, NVRTC and cuDNN.
# Tests build cuDNN's plans with them for an H200 that is only described, and the program's probe has to find each. None of that needs a driver or a
# GPU. Prints the folder for EVENKEEL_CUDA_LIBRARIES, or nothing where the packages cannot be installed: the tests are then reported as ignored.
# About 1.6 GB in target/cuda-libraries, installed once for each pair of lists.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p "${CARGO_TARGET_DIR:-target}"
folder=$(cd "${CARGO_TARGET_DIR:-target}" && pwd)/cuda-libraries
complete=$folder/all/complete
if [ ! -e "$complete" ] || [ .ci/requirements/cudnn.txt -nt "$complete" ] || [ .ci/requirements/cublas.txt -nt "$complete" ]; then
  rm -rf "$folder"
  python3 -m pip install --quiet --no-deps --root-user-action ignore --disable-pip-version-check --retries 1 --target "$folder" \
    --require-hashes --only-binary=:all: -r .ci/requirements/cudnn.txt -r .ci/requirements/cublas.txt >&2 || exit 0
  mkdir "$folder/all"
  # Further names of the same files.
  cp -lP "$folder"/nvidia/*/lib/*.so* "$folder/all/"
  touch "$complete"
fi
echo "$folder/all"
