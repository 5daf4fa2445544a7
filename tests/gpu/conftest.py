# SPDX-License-Identifier: Apache-2.0
"""The device of the tests in this folder: emulated everywhere, and the real one with ``pytest -m gpu``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from emulated import install

import hybridgpu as mx
from hybridgpu.backends import devices
from hybridgpu.cli.machine import gpu_search


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
def gpu(request: pytest.FixtureRequest) -> Iterator[Gpu]:
    """The device; with ``-m gpu`` a machine without one fails, since that is what was asked for."""
    held = devices._gpu_factory
    if request.param == "emulated":
        install()
    else:
        if held is not None:
            devices.use_gpu_devices(None)
        if not mx.num_gpus():
            looked = "; ".join(f"{what}: {found}" for what, found in gpu_search())
            pytest.fail(f"no GPU was found ({looked})", pytrace=False)
    yield Gpu(request.param == "real")
    if devices._gpu_factory is not held:
        devices.use_gpu_devices(held)


@pytest.fixture
def launches(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every kernel started since, one entry each."""
    started: list[Any] = []
    launch = gpu.driver.launch

    def counted(kernel: Any, *rest: Any) -> None:
        started.append(kernel)
        launch(kernel, *rest)

    monkeypatch.setattr(gpu.driver, "launch", counted)
    return started
