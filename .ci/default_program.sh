#!/usr/bin/env bash
# What the default build leaves out is refused with the name of the feature that has it (docs/operations.md). For the program that was just built.
set -euo pipefail
cd "$(dirname "$0")/.."
program=${CARGO_TARGET_DIR:-target}/release/evenkeel
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Alone in a folder: nothing beside it runs programs for it.
cp "$program" "$work/evenkeel"

refused() {
  local feature=$1 said
  shift
  if said=$(timeout 60 env PATH="$work" EVENKEEL_GUEST_BUILDER= EVENKEEL_GUEST_DIR="$work/guest" "$work/evenkeel" "$@" 2>&1 </dev/null); then
    echo "evenkeel $* succeeded without the feature $feature" && exit 1
  fi
  grep -qF "without the feature \`$feature\`" <<<"$said" || { printf 'evenkeel %s does not name the feature %s:\n%s\n' "$*" "$feature" "$said" && exit 1; }
  echo "refuses  evenkeel $*"
}

refused sandbox guest
refused traces serve reward --traces http://127.0.0.1:1
refused openenv serve environment --set server.listen=127.0.0.1:0 --set 'openenv=["ws://127.0.0.1:1"]'
