#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everything that only a GPU can show:
#
#   bench/gpu_check.sh [--installed] [tests] [sanitizer] [bench] [options of bench/gpu_check.py]
#
# Tests on the device with the bandwidth of every kind of kernel, compute-sanitizer, the benchmark and other libraries
# beside it; without a name all three. Writes check.json and check.log into bench/results/DATE-GPU; exits with 0 if all
# passed, 1 if a step failed, 2 if there is no GPU.
#
# Needs Python 3.10 or later ($PYTHON, default python3); makes .venv-gpu at the first run, which takes a network. With
# --installed it uses $PYTHON as it is, which then must have CuPy, NVRTC, ml_dtypes, Jinja2, click and rich, and pytest
# and hypothesis for the tests; what is missing is named. Of other libraries (torch, jax, …) those are measured that
# $PYTHON has. Where a command may take ten minutes and nothing can be installed, three calls make one document:
#
#   bench/gpu_check.sh --installed tests --budget 560 --out FOLDER    # then sanitizer, and then bench
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=bench/environment.sh
. "$root/bench/environment.sh"

if [ "${1:-}" = --installed ]; then
  shift
  interpreter
  python=$base
else
  [ -x "$root/.venv-gpu/bin/python" ] || echo "making .venv-gpu, which takes a network; without one: --installed"
  cuda=$(cuda_extra) || true
  prepare "test,bench${cuda:+,${cuda/cuda/cudnn}}" "${cuda:+.venv-gpu}"
fi
exec "$python" "$root/bench/gpu_check.py" "$@"
