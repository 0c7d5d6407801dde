#!/usr/bin/env bash
# Builds the wheel of the Python package and tests it as a user has it: installed in a new environment, without a network, and outside the
# source tree. Needs Python 3.10 or later; what builds and tests comes from PyPI, once for each target folder. The sandbox's program in the wheel is
# built with the features of the whole workspace: after its tests nothing of wasmtime is compiled again.
#
#   .ci/python.sh                 the whole check
#   .ci/python.sh --pythons LIST  the same wheel also by other interpreters, which need not be installed where CI runs
set -euo pipefail
cd "$(dirname "$0")/.."
others=()
if [ "${1:-}" = --pythons ]; then
  shift
  others=("$@")
fi
target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target/python"
target=$(cd "$target" && pwd)
export CARGO_TARGET_DIR=$target PIP_DISABLE_PIP_VERSION_CHECK=1
work=$target/python

tools=$work/tools
if [ ! -x "$tools/bin/maturin" ]; then
  rm -rf "$tools"
  python3 -m venv "$tools"
  "$tools/bin/pip" install --quiet --require-hashes --only-binary=:all: -r .ci/requirements/wheel-build.txt
fi

began=$SECONDS
rm -rf "$work/dist"
MATURIN_PEP517_ARGS=--locked PATH=$tools/bin:$PATH pip wheel --quiet --no-deps --no-build-isolation --wheel-dir "$work/dist" ./python
wheel=$(ls "$work"/dist/*.whl)
printf 'wheel    %s, %.1f MB, in %d s\n' "$(basename "$wheel")" "$(awk "BEGIN{print $(stat -c %s "$wheel") / 1e6}")" $((SECONDS - began))
[ "$(stat -c %s "$wheel")" -lt 25000000 ] || { echo "it is larger than 25 MB" && exit 1; }
case $wheel in *-cp310-abi3-*) ;; *) echo "it is not for the stable ABI of 3.10" && exit 1 ;; esac
"$tools/bin/abi3audit" --strict "$wheel"
.ci/python_licences.py

# Installed and tested by one interpreter.
check() {
  local python=$1 environment=$work/test-$2
  rm -rf "$environment"
  "$python" -m venv "$environment"
  # Nothing that it needs itself.
  "$environment/bin/pip" install --quiet --no-index "$wheel"
  "$environment/bin/python" -I -m evenkeel_rlvr verify '\boxed{0.75}' '\frac{3}{4}'
  "$environment/bin/pip" install --quiet --require-hashes --only-binary=:all: -r .ci/requirements/wheel-tests.txt
  "$environment/bin/pip" install --quiet --require-hashes --only-binary=:all: --no-deps -r .ci/requirements/peft.txt
  (cd python/tests && "$environment/bin/python" -m pytest -q -p no:cacheprovider .)
  # The stubs say what there is; the package and the tests of its types pass.
  "$environment/bin/python" -P -m mypy.stubtest evenkeel_rlvr._native
  "$environment/bin/python" -P -m mypy --config-file python/pyproject.toml -p evenkeel_rlvr
}

# The real reward service, where it was built.
if [ -x "$target/release/evenkeel" ]; then
  export EVENKEEL_PROGRAM=$target/release/evenkeel EVENKEEL_TEST_PROGRAMS=1
fi

check python3 default
.ci/python_examples.sh "$work/test-default/bin/python"
for python in "${others[@]}"; do
  check "$python" "$(basename "$(dirname "$(dirname "$(command -v "$python")")")")"
done
