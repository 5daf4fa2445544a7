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


@pytest.fixture
def compiler():
    """Skips where the host has no C++ compiler."""
    from hybridgpu.backends.cpu.backend import cpu_backend

    if cpu_backend() is None:
        pytest.skip("no C++ compiler")


@pytest.fixture(scope="session")
def cuda_driver():
    """The emulated CUDA driver of this process."""
    from emulated import install, uninstall

    yield install()
    uninstall()


@pytest.fixture(autouse=True)
def _fresh_names():
    """Automatic names start from 0 in every test."""
    from hybridgpu.name import NameManager

    with NameManager():
        yield
