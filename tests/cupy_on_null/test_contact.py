# SPDX-License-Identifier: Apache-2.0
"""hybridgpu on the real CuPy, over a CUDA whose kernels compute nothing: types, arguments, devices, streams, compilation."""

from __future__ import annotations

import importlib.util
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from cuda_on_cpu.toolchain import compiler as cxx

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """The null device's library, under the name by which CuPy finds CUDA's driver loaded."""
    made = tmp_path_factory.mktemp("null") / "libcuda.so.1"
    command = [cxx(), "-std=c++17", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", str(HERE / "null_cuda.cpp")]
    subprocess.run([*command, "-o", str(made)], check=True)
    return made


@pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64" or importlib.util.find_spec("cupy") is None,
    reason="CuPy of an x86-64 Linux is what is patched",
)
@pytest.mark.parametrize("program", ["contact", "calls"])
def test_first_contact(library, program):
    arguments = [str(HERE / f"{program}.py"), str(library), str(HERE.parent), str(HERE.parents[1])]
    kept = os.path.join(tempfile.gettempdir(), f"hybridgpu-tests-cupy-{os.getuid()}")  # kernels of CuPy's own
    environment = {**os.environ, "CUPY_CACHE_DIR": kept}
    command = [sys.executable, "-W", "error", *arguments]
    run = subprocess.run(command, capture_output=True, text=True, env=environment)
    if run.stdout.startswith("SKIP"):
        pytest.skip(run.stdout.removeprefix("SKIP").strip())
    assert run.returncode == 0 and run.stdout.strip() == "DONE", run.stderr
