#!/usr/bin/env bash
# Stands in for nvcc where host code is only type-checked: every kernel of candle's "compiles" to an empty file. What is built with it cannot be
# linked. Use it with .ci/check_cuda.sh.
set -euo pipefail
output='' folder='' sources=()
while [ $# -gt 0 ]; do
  case $1 in
    --version)
      printf 'nvcc: a stand-in\n\n\nCuda compilation tools, release 13.0, V13.0.0\n'
      exit
      ;;
    --list-gpu-code)
      echo sm_90
      exit
      ;;
    -o) output=$2 && shift ;;
    --output-directory) folder=$2 && shift ;;
    *.cu) sources+=("$1") ;;
  esac
  shift
done
if [ -n "$output" ]; then
  : >"$output"
elif [ -n "$folder" ]; then
  for source in "${sources[@]}"; do
    name=${source##*/}
    : >"$folder/${name%.cu}.ptx"
  done
fi
