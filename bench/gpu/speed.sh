#!/usr/bin/env bash
# How fast one layer and the head of Qwen3-1.7B are, at three lengths.
#
#   bench/gpu/speed.sh OUT [PROGRAM] [cuda|cpu]
. "$(dirname "$0")/run.sh"
limited speed "$program" speed "$out" "$root/tests/golden" "$device"
