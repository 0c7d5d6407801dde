# Common to correct.sh, memcheck.sh and speed.sh, which say what they run. Usage: SCRIPT OUT [PROGRAM] [cuda|cpu]
#
# Exit status: 0 if every check passed, 1 if one failed or the time ran out, 77 if there is no usable GPU and nothing was run.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
# What a command may take.
seconds=600

if [ $# -lt 1 ] || [ $# -gt 3 ]; then
  echo "usage: $(basename "$0") OUT [PROGRAM] [cuda|cpu]" >&2
  exit 2
fi
out=$1
program=${2:-${CARGO_TARGET_DIR:-$root/target}/gpu/evenkeel-bench-gpu}
device=${3:-cuda}
if [ ! -x "$program" ]; then
  echo "$program is missing: bench/gpu/build.sh builds it" >&2
  exit 2
fi
mkdir -p "$out"

# Runs a command within the time limit, its output on the screen and in OUT/WHAT.log.
limited() {
  local what=$1 status=0
  shift
  timeout --kill-after=10 "$seconds" "$@" 2>&1 | tee "$out/$what.log" || status=${PIPESTATUS[0]}
  if [ "$status" = 124 ] || [ "$status" = 137 ]; then
    echo "$what: stopped after $seconds s" | tee -a "$out/$what.log"
    status=1
  fi
  return "$status"
}
