#!/usr/bin/env bash
# Compiled dependencies and installed tools, kept on a machine between runs of .ci/run:
#
#   .ci/cache.sh restore    before the first build, in a clone that has built nothing
#   .ci/cache.sh save       after the last one
#
# Nothing of our own crates is kept: cargo knows them by their folder, and each run has another. EVENKEEL_CI_CACHE names the place.
set -euo pipefail
cd "$(dirname "$0")/.."
cache=${EVENKEEL_CI_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/evenkeel-ci}
target=${CARGO_TARGET_DIR:-target}

case "${1:-}" in
  restore)
    if [ -d "$cache/release" ] && [ ! -e "$target/release" ]; then
      mkdir -p "$target"
      cp -a "$cache/." "$target/"
      echo "restored $(du -sh "$cache" | cut -f1) of dependencies"
    fi
    ;;
  save)
    new=$cache.new
    rm -rf "$new"
    mkdir -p "$new"
    tar -C "$target" -cf - --exclude='evenkeel*' --exclude='libevenkeel*' --exclude=./doc --exclude=./book --exclude=./tmp --exclude=./gpu \
      --exclude=./release/incremental --exclude=./release/examples . | tar -C "$new" -xf -
    # Programs of tests and of build scripts' own tests have no extension.
    find "$new/release/deps" "$new/release" -maxdepth 1 -type f ! -name '*.*' -delete
    rm -rf "$cache"
    mv "$new" "$cache"
    ;;
  *) sed -n '2,8p' "$0" >&2; exit 2 ;;
esac
