#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The fusion benchmark on whatever device there is, from a checkout: bench/run.sh [options of `hybridgpu bench`]
#
# Needs Python 3.10 or later ($PYTHON, default python3) and a C++ compiler; makes .venv at the first run.
# It is a quick run unless the options say --full.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=bench/environment.sh
. "$root/bench/environment.sh"

extras=bench
if command -v nvidia-smi >/dev/null 2>&1 && driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null); then
  driver=${driver%%.*} # of the first GPU, its major version; CUDA 13 came with 580
  if [ "${driver:-0}" -ge 580 ]; then extras=bench,cuda13; else extras=bench,cuda12; fi
fi
prepare "$extras"

gpus=$("$python" -c 'import hybridgpu; print(hybridgpu.num_gpus())')
device=cpu
[ "$gpus" -eq 0 ] || device=gpu
exec "$python" -m hybridgpu bench --quick --device "$device" "$@" # the last of two equal options counts
