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
from xml.etree import ElementTree

import pytest
from cuda_on_cpu.toolchain import compiler as cxx

HERE = Path(__file__).parent
KEPT = os.path.join(tempfile.gettempdir(), f"hybridgpu-tests-cupy-{os.getuid()}")  #: kernels of CuPy's own


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """The null device's library, under the name by which CuPy finds CUDA's driver loaded."""
    made = tmp_path_factory.mktemp("null") / "libcuda.so.1"
    command = [cxx(), "-std=c++17", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", str(HERE / "null_cuda.cpp")]
    subprocess.run([*command, "-o", str(made)], check=True)
    return made


null = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64" or importlib.util.find_spec("cupy") is None,
    reason="CuPy of an x86-64 Linux is what is patched",
)


@pytest.mark.long_table
@null
@pytest.mark.parametrize("program", ["contact", "calls", "capturing", "failing", "forking", "calibration"])
def test_first_contact(library, program):
    arguments = [str(HERE / f"{program}.py"), str(library), str(HERE.parent), str(HERE.parents[1])]
    environment = {**os.environ, "CUPY_CACHE_DIR": KEPT}
    command = [sys.executable, "-W", "error", *arguments]
    run = subprocess.run(command, capture_output=True, text=True, env=environment)
    if run.stdout.startswith("SKIP"):
        pytest.skip(run.stdout.removeprefix("SKIP").strip())
    assert run.returncode == 0 and run.stdout.strip() == "DONE", run.stderr


@null
def test_a_test_that_ruins_its_device_takes_no_other_along(library, tmp_path):
    """As after an illegal access: the process is replaced, and pytest goes on."""
    pytest.importorskip("xdist")
    path = os.pathsep.join([str(HERE / "everywhere"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "CUPY_CACHE_DIR": KEPT, "PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    environment |= {"NULL_CUDA_LIBRARY": str(library), "NULL_CUDA_FAULT": "cupy_arange"}
    file = tmp_path / "tests.xml"
    options = ["-m", "gpu", "-k", "arange or printing", "-p", "xdist.plugin", "-n", "1", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "tests/gpu/test_arrays.py", *options, f"--junitxml={file}"]
    run = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=HERE.parents[1])
    cases = [(case.get("name"), [child.tag for child in case]) for case in ElementTree.parse(file).iter("testcase")]
    assert ("test_printing[real]", []) in cases, run.stdout
    assert any("arange" in name and tags for name, tags in cases) and "node down" in run.stdout, run.stdout
