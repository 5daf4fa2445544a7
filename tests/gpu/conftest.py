# SPDX-License-Identifier: Apache-2.0
"""The device of the tests in this folder: emulated everywhere, and the real one with ``pytest -m gpu``."""

from __future__ import annotations

import faulthandler
import os
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from emulated import install

import hybridgpu as mx
from hybridgpu.backends import devices
from hybridgpu.cli.machine import gpu_search

#: seconds that a test on a GPU may take before a kernel is taken to wait for ever
PATIENCE = float(os.environ.get("GPU_TEST_PATIENCE", "18"))


class Gpu:
    """gpu(0), real or emulated.

    Attributes:
        ctx: its context.
        real: False if the CPU plays its part.
        xp: CuPy, or NumPy where it is emulated.
    """

    def __init__(self, real: bool) -> None:
        self.ctx, self.real = mx.gpu(0), real
        self.device = devices.device_of(self.ctx)
        self.xp, self.backend = self.device.xp, self.device.backend()

    @property
    def driver(self) -> Any:
        """What loads and starts kernels."""
        return self.backend.driver

    def put(self, array: np.ndarray) -> Any:
        """A copy on the device."""
        return self.device.from_host(array)

    def filled(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """An array on the device with all bits set: NaN for floating-point numbers."""
        dtype = np.dtype(dtype)
        nbytes = int(np.prod(shape)) * dtype.itemsize
        return self.put(np.full(nbytes, 0xFF, np.uint8).view(dtype).reshape(shape))

    def get(self, array: Any) -> np.ndarray:
        """A copy on the host, after everything that was started."""
        self.device.synchronize()
        return self.device.to_host(array)


@pytest.fixture(params=["emulated", pytest.param("real", marks=pytest.mark.gpu)])
def gpu(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gpu]:
    """The device; with ``-m gpu`` a machine without one fails, since that is what was asked for.

    Kernels stay apart, since tests count them; ``test_graph_kernels.py`` puts them together.
    """
    monkeypatch.setenv("HYBRIDGPU_GRAPH_KERNELS", "never")
    held = devices._gpu_factory
    if request.param == "emulated":
        install()
    else:
        if held is not None:
            devices.use_gpu_devices(None)
        if not mx.num_gpus():
            looked = "; ".join(f"{what}: {found}" for what, found in gpu_search())
            pytest.fail(f"no GPU was found ({looked})", pytrace=False)
    found = Gpu(request.param == "real")
    if found.real:
        faulthandler.dump_traceback_later(PATIENCE, exit=True, file=sys.__stderr__)
    yield found
    if found.real:
        faulthandler.cancel_dump_traceback_later()
        leave_if_lost(found)
    if devices._gpu_factory is not held:
        devices.use_gpu_devices(held)


def leave_if_lost(gpu: Gpu) -> None:
    """End a process whose device fails whatever it is asked, as after an illegal access: pytest-xdist starts another one."""
    try:
        gpu.device.synchronize()
    except Exception as e:
        words = f"the device has failed: {type(e).__name__}: {e}"
        if "PYTEST_XDIST_WORKER" not in os.environ:
            pytest.exit(f"{words}; with pytest -n 1 the other tests run in another process", returncode=3)
        print(words, file=sys.__stderr__, flush=True)
        os._exit(3)


class Counted:
    """The device's driver, with a count of what programs start through it.

    Attributes:
        started: 'kernel', 'graph of N' or 'update' for each.
    """

    def __init__(self, driver: Any) -> None:
        self._driver, self.started = driver, []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._driver, name)

    def starter(self, launch: Any) -> Any:
        start = self._driver.starter(launch)

        def counted(stream: int) -> None:
            self.started.append("kernel")
            start(stream)

        return counted

    def graph(self, launches: Any) -> Any:
        return CountedGraph(self._driver.graph(launches), len(launches), self.started)


class CountedGraph:
    def __init__(self, graph: Any, count: int, started: list[str]) -> None:
        self._graph, self._count, self._started = graph, count, started

    def update(self, node: int) -> None:
        self._started.append("update")
        self._graph.update(node)

    def launch(self, stream: int) -> None:
        self._started.append(f"graph of {self._count}")
        self._graph.launch(stream)


@pytest.fixture
def counted(gpu: Gpu) -> Counted:
    """A driver that counts; programs that are to be counted are loaded through it."""
    return Counted(gpu.driver)
