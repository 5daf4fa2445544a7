#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests with generated host code under AddressSanitizer and UndefinedBehaviorSanitizer (GCC, Linux; minutes to hours):
#   tests/sanitize.sh [options of pytest], such as  tests/sanitize.sh -n 2 tests/compiler tests/ops
#
# Takes the Python of .venv, or $PYTHON. What is found is written to standard error, and ends the process.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
python=${PYTHON:-$root/.venv/bin/python}
cd "$root"
# bool: lanes beyond the rows of a last tile are computed of what lies on the stack, and dropped
export HYBRIDGPU_CXX="env -u LD_PRELOAD g++ -fsanitize=address,undefined -fno-sanitize=vptr,bool -fno-sanitize-recover=all -g1"
# neither code is taken for the other, as the command is part of every key; this folder can be thrown away
export HYBRIDGPU_CACHE_DIR="${TMPDIR:-/tmp}/hybridgpu-sanitized-$(id -u)"
export PYTHONPATH="$root:$root/tests${PYTHONPATH:+:$PYTHONPATH}"
export PYTHONMALLOC=malloc
export ASAN_OPTIONS="detect_leaks=0:abort_on_error=1:allocator_may_return_null=1:quarantine_size_mb=64${ASAN_OPTIONS:+:$ASAN_OPTIONS}"
export UBSAN_OPTIONS="print_stacktrace=1${UBSAN_OPTIONS:+:$UBSAN_OPTIONS}"
LD_PRELOAD="$(g++ -print-file-name=libasan.so) $(g++ -print-file-name=libubsan.so)" \
  exec "$python" -m pytest -p sanitized --capture=sys "$@"
