# SPDX-License-Identifier: Apache-2.0
"""Settings of every test: a cache folder of its own, graphs verified after every pass."""

from __future__ import annotations

import os
import tempfile

import pytest

os.environ.setdefault("HYBRIDGPU_VERIFY", "1")
if "HYBRIDGPU_CACHE_DIR" not in os.environ:
    # shared by the workers of one run: what one compiles, the others load
    os.environ["HYBRIDGPU_CACHE_DIR"] = os.path.join(tempfile.gettempdir(), f"hybridgpu-tests-{os.getuid()}")


def pytest_addoption(parser):
    parser.addoption("--update-golden", action="store_true", help="store the generated texts that tests compare")
    parser.addoption("--fuzz", type=int, default=2000, help="number of mutated files a format")


@pytest.fixture
def update_golden(request):
    """True if stored texts are to be replaced."""
    return request.config.getoption("--update-golden")


@pytest.fixture
def compiler():
    """Skips where the host has no C++ compiler."""
    from hybridgpu.backends.cpu.backend import cpu_backend

    if cpu_backend() is None:
        pytest.skip("no C++ compiler")


@pytest.fixture
def cuda_driver():
    """The emulated CUDA driver of this process (it keeps what it has compiled), behind mx.gpu(0) for one test."""
    from emulated import install, uninstall

    driver = install()
    driver.forget()
    yield driver
    uninstall()


@pytest.fixture(autouse=True)
def _fresh_names():
    """Automatic names start from 0 in every test."""
    from hybridgpu.attribute import AttrScope
    from hybridgpu.name import NameManager

    AttrScope._subgraph_names.clear()
    with NameManager():
        yield
