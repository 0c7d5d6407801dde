#!/usr/bin/env bash
# Whether the learner computes on a GPU what it computes on a CPU: driver and device, each kernel, the goldens in f32 and bf16, models of real
# width against PyTorch's if a Python has it, 50 GRPO steps beside the CPU's, training resumed to the bit, and one layer of real width, timed.
#
# EVENKEEL_PYTHON names a Python with PyTorch and transformers (default: python3). OUT needs 11 GB until the comparison is done.
#
#   bench/gpu/correct.sh OUT [PROGRAM] [cuda|cpu]
. "$(dirname "$0")/run.sh"
limited correct "$program" correct "$out" "$root/tests/golden" "$device"
