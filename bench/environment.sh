# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# For scripts to source after they have set `root` to the checkout: prepares an environment there.
#
#   prepare EXTRAS [FOLDER]  makes FOLDER (default .venv) if it is missing, installs the checkout with these extras
#                            if pyproject.toml or the extras have changed since the last time, and sets `python`
#                            to its interpreter
#   cuda_extra               prints cuda12 or cuda13, whichever the NVIDIA driver can run; fails without a driver.
#                            CuPy for one of them stands in the way of the other, and tests install the first:
#                            what runs on a GPU uses the folder .venv-gpu.
#
# $PYTHON chooses the interpreter (default python3); the folder is made again if it has another version.

: "${root:?the sourcing script sets it}"

fail() {
  echo "error: $*" >&2
  exit 1
}

interpreter() { # a Python that is new enough, in `base`
  base=${PYTHON:-python3}
  command -v "$base" >/dev/null 2>&1 || fail "no $base here; install Python 3.10 or later, or set PYTHON"
  version=$("$base" -c 'import sys; print("%d.%d" % sys.version_info[:2])') || fail "$base does not run"
  "$base" -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
    fail "$base is Python $version; hybridgpu needs 3.10 or later (set PYTHON to another one)"
}

prepare() {
  local extras=$1 name=${2:-.venv} venv stamp old
  venv=$root/$name
  python=$venv/bin/python
  if [ -n "${PYTHON:-}" ] || [ ! -x "$python" ]; then
    interpreter
    old=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || old=none
    if [ "$old" != "$version" ]; then
      echo "making $name with $base (Python $version)"
      "$base" -m venv --clear "$venv" ||
        fail "$base -m venv failed; on Debian and Ubuntu: apt install python3-venv"
    fi
  fi
  stamp="$("$python" -c 'import platform; print(platform.python_version())') $root $extras $(cksum <"$root/pyproject.toml")"
  if ! grep -qxF "$stamp" "$venv/hybridgpu-installed" 2>/dev/null; then
    echo "installing hybridgpu[$extras] into $name"
    "$python" -m pip install --quiet --disable-pip-version-check --editable "${root}[$extras]" ||
      fail "the installation failed"
    echo "$stamp" >>"$venv/hybridgpu-installed"
  fi
}

cuda_extra() {
  local driver
  command -v nvidia-smi >/dev/null 2>&1 || return 1
  driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null) || return 1
  driver=${driver%%.*} # of the first GPU, its major version; CUDA 13 came with 580
  [ -n "$driver" ] || return 1
  if [ "$driver" -ge 580 ]; then echo cuda13; else echo cuda12; fi
}
