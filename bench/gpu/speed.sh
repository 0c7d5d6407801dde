#!/usr/bin/env bash
# How fast models of the recipes' shapes train, beside PyTorch if a Python has it: a pass, an update, weights published to a reader; and one layer
# and the head of Qwen3-1.7B at three lengths, also on candle's operations.
#
# EVENKEEL_PYTHON names a Python with PyTorch and transformers (default: python3).
#
#   bench/gpu/speed.sh OUT [PROGRAM] [cuda|cpu]
. "$(dirname "$0")/run.sh"
limited speed "$program" speed "$out" "$root/tests/golden" "$device"
