#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everything that only a GPU can show, in two commands of less than ten minutes each:
#
#   bench/gpu_check.sh [--installed] [first] [second] [options of python -m bench.gpu_check; --help and --list print them]
#
# first: facts, every kernel once, the device's constants, bandwidth, tests, persistent kernels, forms, products,
# convolutions, ncu. second: compute-sanitizer, the benchmark, other libraries beside it. Without a name, both. Writes
# check.json and check.log into bench/results/DATE-GPU; the same command again goes on with what was cut off. Exits with 0
# if all is well, 1 if something was wrong, 2 if nothing could be checked, 3 if steps are missing.
#
# Needs Python 3.10 or later ($PYTHON, default python3); makes .venv-gpu at the first run, which takes a network. With
# --installed it uses $PYTHON as it is, which then must have CuPy, NVRTC, ml_dtypes, Jinja2, click and rich, and pytest
# and hypothesis for the tests; what is missing is named. Of other libraries (torch, jax, …) those are measured that
# $PYTHON has. On a lent machine that is bare each time, where only $OUT comes back:
#
#   bench/gpu_check.sh --installed first --out "$OUT"
#   bench/gpu_check.sh --installed second --out "$OUT" --earlier FOLDER    # FOLDER: what came back from the first
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=bench/environment.sh
. "$root/bench/environment.sh"

case " $* " in
*" --installed "* | *" --list "* | *" --help "* | *" -h "*)
  interpreter
  python=$base
  ;;
*)
  if ! cuda=$(cuda_extra); then
    echo "error: nothing was checked: nvidia-smi finds no NVIDIA driver; --installed takes \$PYTHON without asking it" >&2
    exit 2
  fi
  [ -x "$root/.venv-gpu/bin/python" ] || echo "making .venv-gpu, which takes a network; without one: --installed"
  prepare "test,bench,${cuda/cuda/cudnn}" .venv-gpu
  ;;
esac
PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH} exec "$python" -m bench.gpu_check "$@"
