#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everything that only a GPU can show: bench/gpu_check.sh [--installed] [options of bench/gpu_check.py]
#
# Tests on the device, compute-sanitizer, bandwidth of every kind of kernel, the benchmark, and other libraries
# beside it. Writes check.json and check.log into bench/results/DATE-GPU; exits with 0 if all passed, 1 if a step
# failed, 2 if there is no GPU.
#
# Needs Python 3.10 or later ($PYTHON, default python3); makes .venv-gpu at the first run. With --installed it
# uses $PYTHON as it is, which then must have CuPy, NVRTC, Jinja2, platformdirs, click, rich, pytest and hypothesis
# (a machine without a network).
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=bench/environment.sh
. "$root/bench/environment.sh"

if [ "${1:-}" = --installed ]; then
  shift
  interpreter
  python=$base
else
  cuda=$(cuda_extra) || true
  prepare "test,bench${cuda:+,${cuda/cuda/cudnn}}" "${cuda:+.venv-gpu}"
fi
exec "$python" "$root/bench/gpu_check.py" "$@"
