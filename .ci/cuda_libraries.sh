#!/usr/bin/env bash
# Makes cuDNN, and NVRTC, which it compiles by, available to the tests that need neither a driver nor a GPU: cuDNN's plans
# for an H200 that is only described. Prints the folders for EVENKEEL_CUDA_LIBRARIES, or nothing where the packages cannot be installed: the tests
# are then reported as ignored. About 1 GB in target/cuda-libraries, installed once for each list.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p "${CARGO_TARGET_DIR:-target}"
folder=$(cd "${CARGO_TARGET_DIR:-target}" && pwd)/cuda-libraries
if [ ! -e "$folder/complete" ] || [ .ci/requirements/cudnn.txt -nt "$folder/complete" ]; then
  rm -rf "$folder"
  python3 -m pip install --quiet --no-deps --root-user-action ignore --disable-pip-version-check --retries 1 --target "$folder" \
    --require-hashes --only-binary=:all: -r .ci/requirements/cudnn.txt >&2 || exit 0
  touch "$folder/complete"
fi
echo "$folder/nvidia/cudnn/lib:$folder/nvidia/cu13/lib"
