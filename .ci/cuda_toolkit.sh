#!/usr/bin/env bash
# Makes nvcc of CUDA 13.0 and what a build with CUDA links against available, on a machine without a GPU. Prints the folder for CUDA_HOME, or
# nothing where the packages cannot be installed. About 450 MB in target/cuda-toolkit, installed once for each list.
#
# The version is the oldest that the libraries ask for, so that PTX made by it is taken by every driver that they work with.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p "${CARGO_TARGET_DIR:-target}"
folder=$(cd "${CARGO_TARGET_DIR:-target}" && pwd)/cuda-toolkit
home=$folder/nvidia/cu13
if [ ! -e "$folder/complete" ] || [ .ci/requirements/cuda-toolkit.txt -nt "$folder/complete" ]; then
  rm -rf "$folder"
  python3 -m pip install --quiet --no-deps --root-user-action ignore --disable-pip-version-check --retries 1 --target "$folder" \
    --require-hashes --only-binary=:all: -r .ci/requirements/cuda-toolkit.txt >&2 || exit 0
  chmod +x "$home"/bin/* "$home"/nvvm/bin/*
  # The linker asks for names without a version. crates/cuda/src/link defines every function of these libraries that the program calls, so that
  # empty ones will do: none of them is in the program.
  printf '' | "${CC:-cc}" -x c -shared -fPIC -o "$folder/empty.so" -
  for library in cuda cublas cublasLt curand nvrtc cudart; do
    ln -sf "$folder/empty.so" "$home/lib/lib$library.so"
  done
  ln -sfn lib "$home/lib64"
  touch "$folder/complete"
fi
echo "$home"
