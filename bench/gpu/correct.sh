#!/usr/bin/env bash
# Whether the learner computes on a GPU what it computes on a CPU: driver and device, the goldens in f32 and bf16, 50 GRPO steps beside the
# CPU's, and one layer of real width, timed.
#
#   bench/gpu/correct.sh OUT [PROGRAM] [cuda|cpu]
. "$(dirname "$0")/run.sh"
limited correct "$program" correct "$out" "$root/tests/golden" "$device"
