#!/usr/bin/env bash
# Each kernel, and the goldens' forward and backward passes, under NVIDIA's compute-sanitizer: reads and writes out of bounds, misaligned addresses.
#
#   bench/gpu/memcheck.sh OUT [PROGRAM]
#
# Skipped (77) where compute-sanitizer is missing, or where the machine does not let it attach.
. "$(dirname "$0")/run.sh"
# With it the three scripts take 25 minutes at most.
seconds=300
sanitizer=$(PATH="$PATH:${CUDA_HOME:-/usr/local/cuda}/bin" command -v compute-sanitizer || true)
status=0
if [ -z "$sanitizer" ]; then
  # The probe alone says what the machine has.
  limited memcheck "$program" memcheck "$out" "$root/tests/golden" cuda || status=$?
  [ "$status" = 77 ] && exit 77
  echo "memcheck: skipped, compute-sanitizer is not installed (it comes with the CUDA toolkit)" | tee -a "$out/memcheck.log"
  exit $((status == 0 ? 77 : status))
fi
rm -f "$out/memcheck.json"
found=99
limited memcheck "$sanitizer" --tool memcheck --error-exitcode "$found" "$program" memcheck "$out" "$root/tests/golden" cuda || status=$?
case $status in
  0 | 1 | 77) ;;
  "$found") echo "memcheck: the sanitizer found errors, listed in $out/memcheck.log" ;;
esac
if [ ! -e "$out/memcheck.json" ] && [ "$status" != 77 ] && grep -q '^========= Error' "$out/memcheck.log"; then
  echo "memcheck: skipped, the sanitizer cannot attach on this machine" | tee -a "$out/memcheck.log"
  exit 77
fi
exit $((status == 0 || status == 77 ? status : 1))
