#!/usr/bin/env bash
# The wheel as a user has it: for each interpreter a new environment, the package installed without a network (in a namespace that has none, where
# that is allowed), the first lines of its README, and its tests outside the source tree, whose packages come from PyPI.
#
#   .ci/python_clean_room.sh WHEEL [PYTHON...]
set -euo pipefail
cd "$(dirname "$0")/.."
wheel=$(realpath "$1")
shift
offline=()
if unshare --map-root-user --net true 2>/dev/null; then
  offline=(unshare --map-root-user --net)
fi
export PIP_DISABLE_PIP_VERSION_CHECK=1

for python in "${@:-python3}"; do
  environment=$(mktemp -d)
  trap 'rm -rf "$environment"' EXIT
  "$python" -m venv "$environment"
  echo "== $("$environment/bin/python" --version), $([ "${#offline[@]}" = 0 ] && echo "with a network that is not used" || echo "without a network")"
  echo "\$ pip install --no-index $(basename "$wheel")"
  "${offline[@]}" "$environment/bin/pip" install --no-index "$wheel"
  "${offline[@]}" "$environment/bin/pip" list --format freeze
  "${offline[@]}" "$environment/bin/python" -I .ci/python_readme.py python/README.md
  "${offline[@]}" "$environment/bin/python" -I -m evenkeel_rlvr verify '\boxed{0.75}' '\frac{3}{4}'
  "${offline[@]}" "$environment/bin/python" -I -c 'from evenkeel_rlvr.code import verify_code; assert verify_code("```python\nprint(4)\n```", {"inputs": [""], "outputs": ["4"]})'
  "$environment/bin/pip" install --quiet --require-hashes --only-binary=:all: -r .ci/requirements/wheel-tests.txt
  (cd python/tests && "$environment/bin/python" -m pytest -q -p no:cacheprovider .)
  rm -rf "$environment"
done
