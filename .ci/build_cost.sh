#!/usr/bin/env bash
# Builds what `cargo run --release -- train` builds, prints time and size, and fails far above the limits.
#
#   .ci/build_cost.sh MAX_CRATES MAX_CPU_MINUTES MAX_MB MAX_STRIPPED_MB
#
# The number of crates is the same on every machine. CPU minutes, which are not, are limited where nothing was built before;
# EVENKEEL_FRESH_BUILD=1 builds in a temporary folder to have it so. The result is left in build-cost.txt in the target folder.
set -euo pipefail
cd "$(dirname "$0")/.."
max_crates=$1 max_minutes=$2 max_mb=$3 max_stripped_mb=$4

crates=$(cargo tree -p evenkeel -e normal,build --prefix none --locked | awk '{ print $1, $2 }' | sort -u | wc -l)

target=${CARGO_TARGET_DIR:-target}
built=$target
if [ -n "${EVENKEEL_FRESH_BUILD:-}" ]; then
  built=$(mktemp -d)
  trap 'rm -rf "$built"' EXIT
fi
fresh=yes
[ -z "$(find "$built/release/deps" -name '*.rlib' -print -quit 2>/dev/null)" ] || fresh=no

# Seconds of user and system time, and of the clock.
times=$(mktemp)
TIMEFORMAT='%U %S %R'
{ time CARGO_TARGET_DIR=$built cargo build --release --locked --bin evenkeel 2>&3; } 3>&2 2>"$times"
read -r user system wall < <(tail -n 1 "$times")
rm -f "$times"

binary=$built/release/evenkeel
strip=$(command -v strip || true)
if [ -n "$strip" ]; then
  stripped=$(mktemp)
  "$strip" -o "$stripped" "$binary"
  stripped_bytes=$(stat -c %s "$stripped")
  rm -f "$stripped"
else
  stripped_bytes=0
fi

mkdir -p "$target"
awk -v user="$user" -v kernel="$system" -v wall="$wall" -v fresh="$fresh" -v bytes="$(stat -c %s "$binary")" \
  -v stripped_bytes="$stripped_bytes" -v crates="$crates" -v max_crates="$max_crates" -v max_minutes="$max_minutes" -v max_mb="$max_mb" \
  -v max_stripped_mb="$max_stripped_mb" '
  BEGIN {
    minutes = (user + kernel) / 60; mb = bytes / 1e6; stripped = stripped_bytes / 1e6
    from = fresh == "yes" ? "from nothing" : "with earlier artifacts, not limited"
    printf "crates: %d (limit %d)\n", crates, max_crates
    printf "build:  %.1f CPU minutes, %.1f minutes (%s; limit %d CPU minutes)\n", minutes, wall / 60, from, max_minutes
    printf "binary: %.1f MB (limit %d), %.1f MB stripped (limit %d)\n", mb, max_mb, stripped, max_stripped_mb
    exit crates > max_crates || (fresh == "yes" && minutes > max_minutes) || mb > max_mb || stripped > max_stripped_mb
  }' | tee "$target/build-cost.txt"
