#!/usr/bin/env bash
# Compiled dependencies and mdbook, kept on a machine between runs of .ci/run:
#
#   .ci/cache.sh restore    before the first build, in a clone that has built nothing
#   .ci/cache.sh save       after the last one
#
# Nothing of our own crates is kept: cargo knows them by their folder, and each run has another. EVENKEEL_CI_CACHE names the place.
set -euo pipefail
shopt -s nullglob
cd "$(dirname "$0")/.."
MOST_GB=10
cache=${EVENKEEL_CI_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/evenkeel-ci}
target=${CARGO_TARGET_DIR:-target}

case "${1:-}" in
  restore)
    [ -d "$cache" ] && [ ! -e "$target/release" ] || exit 0
    # Versions that nothing needs any more pile up: then it begins anew.
    size=$(du -s --block-size=1GB "$cache" | cut -f1)
    if [ "$size" -gt "$MOST_GB" ]; then
      rm -rf "$cache"
      exit
    fi
    mkdir -p "$target"
    cp -a "$cache/." "$target/"
    echo "restored $size GB of dependencies"
    ;;
  save)
    new=$cache.new
    rm -rf "$new"
    mkdir -p "$new"
    (cd "$target" && tar -cf - --exclude='evenkeel*' --exclude='libevenkeel*' --exclude=release/incremental --exclude=release/examples \
      release mdbook-*) | tar -C "$new" -xf -
    # Programs of tests have no extension.
    find "$new/release" "$new/release/deps" -maxdepth 1 -type f ! -name '*.*' -delete
    rm -rf "$cache"
    mv "$new" "$cache"
    ;;
  *) sed -n '2,8p' "$0" >&2; exit 2 ;;
esac
