#!/usr/bin/env bash
# Builds the documentation as a book, in target/book. mdBook comes from crates.io, once for each version.
set -euo pipefail
cd "$(dirname "$0")/.."
version=0.5.4
target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target"
target=$(cd "$target" && pwd)
tool=$target/mdbook-$version/bin/mdbook
if [ ! -x "$tool" ]; then
  # Its own folder: what it shares with the workspace has other features there.
  CARGO_TARGET_DIR=$target/mdbook-build cargo install --quiet --locked --version "$version" --no-default-features --features search \
    --root "$target/mdbook-$version" mdbook
  rm -rf "$target/mdbook-build"
fi
"$tool" build --dest-dir "$target/book"
printf 'book     %s\n' "$target/book/index.html"
