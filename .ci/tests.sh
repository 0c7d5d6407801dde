#!/usr/bin/env bash
# The README's test command. Tests that fail are run once more, if they are at most three: a machine that stalls for seconds fails tests with
# deadlines. The last lines name every test that failed, and those that passed the second time as flaky.
#
#   .ci/tests.sh [OPTIONS OF CARGO TEST]
set -uo pipefail
cd "$(dirname "$0")/.."
MOST=3

log=$(mktemp)
trap 'rm -f "$log"' EXIT
tests() { cargo test --release --workspace --features evenkeel/full --locked --no-fail-fast "$@" 2>&1 | tee "$log"; }
# The names of tests with a result, without what a harness writes around them.
named() { sed -nE "s/^test (\[[^]]*\] *)?(.*[^ ]) +\.\.\. $1\$/\2/p" "$log" | sed -E 's/ - (compile|compile fail|should panic)$//' | sort -u; }

tests "$@" && exit 0
first=$(named FAILED)
printf '\nfailed tests:\n%s\n' "${first:-none by name: a program of tests was killed or not built}"
# A program of tests that ends without a result leaves no name and cannot be repeated by name.
endings=$(grep -c '^error: \(doc\)\?test failed' "$log")
results=$(grep -c '^test result: FAILED' "$log")
if [ -z "$first" ] || [ "$endings" != "$results" ] || [ "$(wc -l <<<"$first")" -gt "$MOST" ]; then
  exit 1
fi
mapfile -t names <<<"$first"
tests -- --exact "${names[@]}"
status=$?
again=$(comm -23 <(printf '%s\n' "$first") <(named ok))
if [ "$status" = 0 ] && [ -z "$again" ]; then
  printf '\nflaky tests, which failed once and passed when they were run again:\n%s\n' "$first"
  exit 0
fi
printf '\nfailed twice, or not run again:\n%s\n' "${again:-$first}"
exit 1
