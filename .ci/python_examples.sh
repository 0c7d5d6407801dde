#!/usr/bin/env bash
# The examples of the Python package, by an interpreter that has it with numpy, grpcio and pytest: the notebook's cells beside Math-Verify, verl's
# settings composed by Hydra, the tasks of the run of TRL. EVENKEEL_TRL_PYTHON, an interpreter with TRL, adds the run itself.
#
#   .ci/python_examples.sh PYTHON
set -euo pipefail
cd "$(dirname "$0")/.."
"$1" -m pip install --quiet --disable-pip-version-check --require-hashes -r .ci/requirements/wheel-examples.txt
cd examples/python
"$1" -m pytest -q -p no:cacheprovider test_examples.py
