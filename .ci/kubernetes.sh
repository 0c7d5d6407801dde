#!/usr/bin/env bash
# Renders and checks deploy/kubernetes, and the check itself by planted faults; lints the scripts of deploy/slurm. The tools come from PyPI, once
# for each version; `kubectl` (whose kustomize renders) from the system. EVENKEEL: a program that reads the manifests' settings.
set -euo pipefail
cd "$(dirname "$0")/.."
tools=${CARGO_TARGET_DIR:-target}/kubernetes-1.37.0
if [ ! -x "$tools/bin/shellcheck" ]; then
  mkdir -p "${tools%/*}"
  python3 -m venv "$tools"
  "$tools/bin/pip" install --quiet --disable-pip-version-check --require-hashes --only-binary=:all: -r .ci/requirements/manifests.txt
fi
"$tools/bin/shellcheck" deploy/slurm/*.sh .ci/kubernetes.sh
if ! command -v kubectl >/dev/null && ! command -v kustomize >/dev/null; then
  echo "kubernetes  not checked: neither kubectl nor kustomize is installed"
  exit 0
fi
if [ -z "${EVENKEEL:-}" ] && [ -x "${CARGO_TARGET_DIR:-target}/release/evenkeel" ]; then
  EVENKEEL=$(realpath "${CARGO_TARGET_DIR:-target}/release/evenkeel")
  export EVENKEEL
fi
if [ $# = 0 ]; then
  "$tools/bin/python" .ci/kubernetes_test.py
fi
"$tools/bin/python" .ci/kubernetes.py "$@"
