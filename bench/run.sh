#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The fusion benchmark on whatever device there is, from a checkout: bench/run.sh [options of `hybridgpu bench`]
#
# Needs Python 3.10 or later ($PYTHON, default python3) and a C++ compiler; makes .venv (.venv-gpu where
# there is a GPU) at the first run.
# It is a quick run unless the options say --full.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=bench/environment.sh
. "$root/bench/environment.sh"

if cuda=$(cuda_extra); then prepare "bench,$cuda" .venv-gpu; else prepare bench; fi

gpus=$("$python" -c 'import hybridgpu; print(hybridgpu.num_gpus())')
device=cpu
[ "$gpus" -eq 0 ] || device=gpu
exec "$python" -m hybridgpu bench --quick --device "$device" "$@" # the last of two equal options counts
