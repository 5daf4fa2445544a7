#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# All checks of a checkout: tests/run.sh [--second] [options of pytest]
#
# --second runs the second job: tests about machine code again, with generated C++ optimised as for users (marked
# optimised; without --second nothing is), kernels compiled by NVRTC for all other GPUs (marked architectures), the rows
# of long tables of which the first job takes every fourth or eighth (marked remaining), and tests above the compiler
# whose programs NumPy computes in the first job, now compiled (marked interpreted).
#
# Needs Python 3.10 or later ($PYTHON, default python3) and a C++ compiler; makes .venv at the first run.
# Runs style (ruff), types (mypy), layers (import-linter) and tests (pytest, a process a core). Every
# check runs; the exit code is 1 if one failed, and the last lines name it.
set -euo pipefail
case "${1:-}" in -h | --help) exec sed -n '3,/^set/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" ;; esac
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=bench/environment.sh
. "$root/bench/environment.sh"
prepare dev,bench

failed=()
check() {
  local name=$1
  shift
  echo "== $name"
  "$@" || failed+=("$name")
}

cd "$root"
if [ "${1:-}" = --second ]; then
  shift
  unset PYTHONDONTWRITEBYTECODE
  code=0
  "$python" -m pytest -n auto --dist worksteal --second "$@" || code=$?
  if [ "$code" -eq 5 ] && [ $# -gt 0 ]; then code=0; fi # none of what was asked for is of this job
  exit "$code"
fi
bin=$(dirname "$python")
# tests start hundreds of Pythons, which would compile every module anew where the caller has forbidden to keep that
unset PYTHONDONTWRITEBYTECODE
check "ruff check" "$bin/ruff" check .
check "ruff format" "$bin/ruff" format --check .
# one process: beside pytest, which keeps all cores busy
said=$(mktemp)
trap 'rm -f "$said"' EXIT
"$bin/mypy" >"$said" 2>&1 &
types=$!
of_mypy() {
  local result=0
  wait "$types" || result=$?
  cat "$said"
  return "$result"
}
check lint-imports "$bin/lint-imports"
check pytest "$python" -m pytest -n auto --dist worksteal "$@"
check mypy of_mypy

if [ ${#failed[@]} -gt 0 ]; then
  printf 'FAILED: %s\n' "${failed[@]}" >&2
  exit 1
fi
echo "all checks passed"
