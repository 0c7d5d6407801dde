#!/usr/bin/env bash
# The wheel and the source distribution as they are published, in target/python/release: for every Linux from glibc 2.17 on, linked by zig, which
# comes from PyPI (.ci/requirements); checked by auditwheel and abi3audit; installed without a network by every interpreter that is named.
#
#   .ci/python_release.sh [PYTHON...]
#
# Publishing is a person's: a tag, for .github/workflows/python-release.yml, or `twine upload target/python/release/*.whl target/python/release/*.tar.gz`.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target/python"
target=$(cd "$target" && pwd)
export CARGO_TARGET_DIR=$target PIP_DISABLE_PIP_VERSION_CHECK=1
tools=$target/python/release-tools
out=$target/python/release

# Made anew when the list has changed.
if [ ! -x "$tools/bin/twine" ] || [ .ci/requirements/release.txt -nt "$tools/bin/twine" ]; then
  rm -rf "$tools"
  python3 -m venv "$tools"
  "$tools/bin/pip" install --quiet --require-hashes --only-binary=:all: -r .ci/requirements/release.txt
fi
export PATH=$tools/bin:$PATH

.ci/python_licences.py
rm -rf "$out"
# The sandbox's program too, which with the interpreter is put where the wheel takes it from.
cargo zigbuild --release --locked --workspace --bin evenkeel-guest --target x86_64-unknown-linux-gnu.2.17
export EVENKEEL_GUEST_PROGRAM=$target/x86_64-unknown-linux-gnu/release/evenkeel-guest
python python/build_backend.py
maturin build --release --locked --strip --zig --compatibility manylinux_2_17 --manifest-path python/Cargo.toml --out "$out"
maturin sdist --manifest-path python/Cargo.toml --out "$out"
wheel=$(ls "$out"/*-cp310-abi3-*manylinux_2_17_x86_64*.whl)
auditwheel show "$wheel" | tee "$target/python/auditwheel.txt"
grep -qE 'manylinux_2_17_x86_64|manylinux2014_x86_64' "$target/python/auditwheel.txt"
abi3audit --strict "$wheel"
twine check --strict "$out"/*.whl "$out"/*.tar.gz
[ "$(stat -c %s "$wheel")" -lt 25000000 ] || { echo "the wheel is larger than 25 MB" && exit 1; }
# The bills of materials of the extension and of the sandbox's program: every crate that is compiled in has its version and licence.
[ "$(unzip -l "$wheel" | grep -c 'sboms/.*cyclonedx.json')" = 2 ] || { echo "the wheel lacks a bill of materials, of the extension or the program" && exit 1; }
unzip -q -o -j "$wheel" '*/sboms/*.cyclonedx.json' -d "$out/sbom"
.ci/python_sbom.py "$out"/sbom/*.cyclonedx.json

# The source distribution builds, with the versions of its lock file; not `--locked`, since what the rest of the project needs is left out of it.
from_source=$(mktemp -d)
pip wheel --quiet --no-deps --no-build-isolation --wheel-dir "$from_source" "$out"/*.tar.gz
ls "$from_source"/*-cp310-abi3-*.whl
rm -rf "$from_source"

.ci/python_clean_room.sh "$wheel" "${@:-python3}"
ls -l "$out"
