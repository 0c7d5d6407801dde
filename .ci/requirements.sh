#!/usr/bin/env bash
# Writes .ci/requirements/*.txt, the exact packages of what .ci/requirements/*.in names, with the SHA-256 of each file. Whatever builds, checks or
# publishes here installs from them (.ci/pins.py). Needs uv and a network:
#
#   .ci/requirements.sh [--upgrade] [NAME...]       without NAME all of them; versions stay as they are unless --upgrade is given
set -euo pipefail
cd "$(dirname "$0")/requirements"
upgrade=()
if [ "${1:-}" = --upgrade ]; then
  upgrade=(--upgrade)
  shift
fi
names=("$@")
[ $# -gt 0 ] || mapfile -t names < <(basename --suffix=.in -- *.in)
for name in "${names[@]}"; do
  options=(--universal --python-version 3.10 --only-binary :all:)
  case $name in
    wheel-build) options+=(--constraints release.txt) ;;
    # All that a machine with CUDA needs of them is in the lists themselves.
    cuda-* | cudnn | cublas) options+=(--no-deps) ;;
    # Some of what they ask for is source alone, or later than Python 3.10.
    wheel-examples) options=(--universal --python-version 3.10) ;;
    tinker) options=(--universal --python-version 3.11) ;;
    peft) options+=(--no-deps) ;;
    tinker-cookbook) options=(--universal --python-version 3.11 --no-deps) ;;
  esac
  uv pip compile --quiet --no-header --no-annotate --generate-hashes "${upgrade[@]}" "${options[@]}" --output-file "$name.txt" "$name.in"
  sed -i '1i # Written by .ci/requirements.sh.' "$name.txt"
done
