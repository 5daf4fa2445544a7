# SPDX-License-Identifier: Apache-2.0
"""Processes in surroundings that nobody chose: settings that are nonsense, no home, no compiler, closed files, odd flags."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.usefixtures("compiler"),
    pytest.mark.skipif(sys.platform != "linux", reason="a shell as Linux has it"),
]

PROGRAM = shlex.quote(str(Path(__file__).with_name("small_program.py")))
PYTHON = shlex.quote(sys.executable)
RUN = f"{PYTHON} {PROGRAM}"
KEPT = "compiled kernels are kept for this process only"
NUMPY = "NumPy runs hybridized graphs operator by operator"
NO_CAPABILITIES = "setpriv --bounding-set=-all --inh-caps=-all --ambient-caps=-all"  # the superuser may read anything

#: shell commands that run the program in a folder of their own, what computes, and what is said
SURROUNDINGS = {
    "no home, no cache folder named": (f"env -u HOME -u XDG_CACHE_HOME -u HYBRIDGPU_CACHE_DIR XDG_CACHE_HOME=$PWD/x {RUN}", "cpu", ""),
    "a home that cannot be made": (f"env -u XDG_CACHE_HOME -u HYBRIDGPU_CACHE_DIR HOME=/proc/nowhere {RUN}", "cpu", KEPT),
    "a home that is a file": (f"env -u XDG_CACHE_HOME -u HYBRIDGPU_CACHE_DIR HOME=/etc/passwd {RUN}", "cpu", KEPT),
    "a temporary folder that is not there": (f"TMPDIR=/no/such {RUN}", "cpu", ""),
    "no PATH": (f"env -u PATH {RUN}", "reference", NUMPY),
    "nothing in PATH": (f"PATH=/nonexistent {RUN}", "reference", NUMPY),
    "CXX is nonsense": (f"CXX=nonsense {RUN}", "cpu", ""),
    "CXX is a broken quotation": (f"CXX=\"g++ '\" {RUN}", "cpu", ""),
    "CXX with an unknown option": (f"CXX='g++ -march=nonsense' {RUN}", "cpu", ""),
    "a compiler without its parts": (f"GCC_EXEC_PREFIX=/nowhere/ COMPILER_PATH=/nowhere HYBRIDGPU_CXX=g++ {RUN}", "reference", NUMPY),
    "ASCII": (f"LC_ALL=C LANG=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0 {RUN}", "cpu", ""),
    "an unknown language": (f"LC_ALL=xx_YY.ZZ {RUN}", "cpu", ""),
    "ASCII on stderr": (f"PYTHONIOENCODING=ascii HYBRIDGPU_DEBUG=4 {RUN}", "cpu", "HG_KERNEL"),
    "files for nobody else": (f"umask 077; {RUN}", "cpu", ""),
    "files for everybody": (f"umask 0; {RUN}", "cpu", ""),
    "files for nobody": (f"umask 777; {NO_CAPABILITIES} {RUN}", None, ""),
    "stdin closed": (f"{RUN} <&-", "cpu", ""),
    "stderr closed": (f"HYBRIDGPU_DEBUG=4 {RUN} 2>&-", "cpu", ""),
    "stderr full": (f"HYBRIDGPU_DEBUG=4 {RUN} 2>/dev/full", "cpu", ""),
    "the working folder deleted": (f"mkdir gone && cd gone && rmdir ../gone && {RUN}", "cpu", ""),
    "python -O": (f"{PYTHON} -O {PROGRAM}", "cpu", ""),
    "python -OO": (f"{PYTHON} -OO {PROGRAM}", "cpu", ""),
    "python -W error": (f"{PYTHON} -W error {PROGRAM}", "cpu", ""),
    "python -X dev": (f"{PYTHON} -X dev {PROGRAM}", "cpu", ""),
    "python -B": (f"{PYTHON} -B {PROGRAM}", "cpu", ""),
    "another order of sets": (f"PYTHONHASHSEED=1 {RUN} >/dev/null && PYTHONHASHSEED=77 {RUN}", "cpu", ""),
    "ignored ends of children": (f"{PYTHON} -c 'import signal, runpy, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); runpy.run_path(sys.argv[1])' {PROGRAM}", "cpu", ""),
    "twelve open files": (f"ulimit -n 12; {RUN}", None, ""),
    "a small stack": (f"ulimit -s 256; {RUN}", "cpu", ""),
    "the cache is a link": (f"mkdir -m 700 real && ln -s real link && HYBRIDGPU_CACHE_DIR=$PWD/link {RUN} && test -n \"$(ls real)\" -a -L link", "cpu", ""),
    "the cache is a link to nothing": (f"ln -s /nowhere/at/all link && HYBRIDGPU_CACHE_DIR=$PWD/link {RUN}", "cpu", KEPT),
    "the cache is a link to itself": (f"ln -s link link && HYBRIDGPU_CACHE_DIR=$PWD/link {RUN}", "cpu", KEPT),
    "the cache is a pipe": (f"mkfifo pipe && HYBRIDGPU_CACHE_DIR=$PWD/pipe {RUN}", "cpu", KEPT),
    "the cache may not be entered": (f"mkdir -m 000 closed && HYBRIDGPU_CACHE_DIR=$PWD/closed {NO_CAPABILITIES} {RUN}", "cpu", KEPT),
    "the cache may not be written": (f"mkdir -m 500 closed && HYBRIDGPU_CACHE_DIR=$PWD/closed {NO_CAPABILITIES} {RUN}", "cpu", KEPT),
    "the cache is somebody else's": (f"mkdir -m 700 other && chown 12345 other && HYBRIDGPU_CACHE_DIR=$PWD/other {RUN}", "cpu", "belongs to another user"),
    "the cache has no name that is text": (f"HYBRIDGPU_CACHE_DIR=\"$PWD/$(printf '\\377\\376')\" {RUN}", "cpu", ""),
}  # fmt: skip
DAILY = {"no PATH", "stderr full", "the working folder deleted", "the cache is a link to nothing"}

NONSENSE = ["nonsense", "9" * 30, "-1", "\u6f22\u00fc", "\udcff\udcfe", "a=b;c|d", "'\"half"]
#: what a setting makes of nonsense: None for nothing that could be told, or a piece of the error or of the warning
SETTINGS = {
    "HYBRIDGPU_DEBUG": None, "HYBRIDGPU_DUMP": None, "HYBRIDGPU_CACHE_DIR": None,
    "HYBRIDGPU_CUDNN": None, "HYBRIDGPU_CUBLASLT": None,  # read where there is a GPU, as these
    "HYBRIDGPU_GRAPH_KERNELS": None, "HYBRIDGPU_CUDA_GRAPHS": None,
    "HYBRIDGPU_CACHE_SIZE": "is no number of bytes", "HYBRIDGPU_CXX": "is no compiler that works",
    "HYBRIDGPU_CACHE": "Invalid Input", "HYBRIDGPU_FUSED_UPDATES": "Invalid Input", "HYBRIDGPU_NUMERIC": "Invalid Input",
    "HYBRIDGPU_EAGER_KERNELS": "Invalid Input",
    "HYBRIDGPU_TF32": "Invalid Input", "HYBRIDGPU_VERIFY": "Invalid Input",
    "HYBRIDGPU_DISABLE_PASSES": "Invalid Input",
}  # fmt: skip


def run(command, folder, **env):
    settings = {k: v for k, v in os.environ.items() if k not in ("HYBRIDGPU_VERIFY", "CXX")}
    settings |= {
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "HYBRIDGPU_CACHE_DIR": str(folder / "cache"),
        **env,
    }
    return subprocess.run(
        ["bash", "-c", command], env=settings, cwd=folder, capture_output=True, encoding="utf-8", errors="replace",
        timeout=120, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    "name", [n if n in DAILY else pytest.param(n, marks=pytest.mark.exhaustive) for n in SURROUNDINGS]
)
def test_surroundings(name, tmp_path):
    command, target, said = SURROUNDINGS[name]
    if ("chown" in command or "setpriv" in command) and os.geteuid() != 0:
        pytest.skip("only root can do this")
    done = run(command, tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert found["result"] == "as eager"
    assert found["targets"] == [target] or target is None
    assert said in done.stderr if said else target is None or not done.stderr, done.stderr


@pytest.mark.exhaustive
@pytest.mark.parametrize("value", ["", "  ", *NONSENSE], ids=ascii)
@pytest.mark.parametrize("name", SETTINGS)
def test_settings_that_are_nonsense(name, value, tmp_path):
    """A result as without the setting, or an error that names it; never another result."""
    done = run(RUN, tmp_path, **{name: value})
    said = SETTINGS[name] if value.strip() else None
    if name == "HYBRIDGPU_CACHE_SIZE" and value.isdecimal():
        said = None
    if said == "Invalid Input":
        assert done.returncode == 1
        assert f"in {name}" in done.stderr and "MXNetError" in done.stderr, done.stderr
        return
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "result": "as eager", "targets": ["reference" if name == "HYBRIDGPU_CXX" and said else "cpu"]
    }  # fmt: skip
    assert (said or "") in done.stderr and (not said or done.stderr.count("Warning") <= 2)
