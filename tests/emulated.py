# SPDX-License-Identifier: Apache-2.0
"""A GPU that is not there: CUDA programs executed on the CPU, exactly as generated, under checks.

``install()`` puts it behind ``mx.gpu(0)``: arrays are NumPy arrays, library calls are NumPy's, and
every kernel launch runs in tests/cuda_on_cpu with bounds, race, alignment, initialisation and
restrict checks. Each launch also proves that the kernel writes every element of its outputs, and
that its traffic is what the plan says.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from cuda_on_cpu import Buffer, Module

from hybridgpu.backends.cuda.backend import CudaBackend
from hybridgpu.backends.cuda.driver import Memory, module_source
from hybridgpu.backends.devices import use_gpu_devices
from hybridgpu.compiler.program import KernelInfo
from hybridgpu.resources import kernels_folder

ORDERS = itertools.cycle(["forward", "reverse", "shuffle"])


class Launch:
    """What one launch did, for tests that look closer."""

    def __init__(self, kernel: str, report: Any, read: int, written: int) -> None:
        self.kernel, self.report, self.read, self.written = kernel, report, read, written


class EmulatedDriver:
    """The seam of backends/cuda/driver.py over the CUDA-on-CPU harness."""

    arch = "sm_90"
    identity = "cuda_on_cpu sm_90"

    def __init__(self, multiprocessors: int = 2, checked: bool = True) -> None:
        # few multiprocessors: grids are smaller than the work, so that grid loops really loop
        self.multiprocessors, self.compiled, self.checked = multiprocessors, 0, checked
        self._modules: dict[str, Any] = {}
        self.launches: list[Launch] = []
        self.sources: dict[str, str] = {}

    def load(self, kernels: Sequence[KernelInfo]) -> dict[str, Any]:
        for k in kernels:
            if k.name not in self._modules:
                self.compiled += 1
                source = module_source([k])
                self.sources[k.name] = source
                module = Module(source, include_dirs=[str(kernels_folder())], names=[k.name], check=self.checked)
                self._modules[k.name] = (k.name, module[k.name])
        return {k.name: self._modules[k.name] for k in kernels}

    def launch(
        self,
        kernel: Any,
        grid: tuple[int, int],
        threads: int,
        shared: int,
        memory: Sequence[Memory],
        numbers: Sequence[int],
    ) -> None:
        name, function = kernel
        buffers: dict[int, Buffer] = {}
        arguments: list[Any] = []
        for k, m in enumerate(memory):
            known = buffers.get(m.address)
            if known is None:
                raw = _bytes_at(m.address, m.nbytes)
                label = f"argument {k}"
                known = Buffer.empty(m.nbytes, np.uint8, name=label) if m.written else Buffer(raw, name=label)
                buffers[m.address] = known
            arguments.append(known)
        arguments += [np.int64(n) for n in numbers]
        report = function(grid, threads, arguments, shared_mem=shared, order=next(ORDERS), seed=len(self.launches))
        read = written = 0
        for m in memory:
            b = buffers.pop(m.address, None)
            if b is None:
                continue
            if m.written:
                assert not b.unwritten(), f"{name} leaves {b.unwritten()} of {m.nbytes} bytes of an output unwritten"
                _bytes_at(m.address, m.nbytes)[:] = b.bytes()
                written += m.nbytes
            else:
                read += int(b.read().sum())
            b.free()
        self.launches.append(Launch(name, report, read, written))


def _bytes_at(address: int, nbytes: int) -> np.ndarray:
    if not nbytes:
        return np.empty(0, np.uint8)
    return np.frombuffer((ctypes.c_uint8 * nbytes).from_address(address), np.uint8)


class EmulatedDevice:
    """A device whose memory is the host's."""

    xp = np

    def __init__(self, device_id: int, driver: EmulatedDriver) -> None:
        self.id, self.driver = device_id, driver
        self._backend = CudaBackend(driver, np, self.address)

    def from_host(self, array: Any) -> Any:
        out = aligned(array.shape, array.dtype)
        out[...] = array
        return out

    def to_host(self, array: Any) -> Any:
        return np.array(array, order="C")

    def address(self, array: Any) -> int:
        return int(array.__array_interface__["data"][0])

    def synchronize(self) -> None:
        pass

    def backend(self) -> CudaBackend:
        return self._backend

    def memory_info(self) -> tuple[int, int]:
        return 1 << 30, 1 << 31

    def empty_cache(self) -> None:
        pass


def aligned(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """An array whose data is aligned as cudaMalloc aligns."""
    nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.empty(nbytes + 256, np.uint8)
    skip = -raw.__array_interface__["data"][0] % 256
    return raw[skip : skip + nbytes].view(dtype).reshape(shape)


_driver: EmulatedDriver | None = None


def install() -> EmulatedDriver:
    """Put the emulated device behind ``mx.gpu(0)``; compiled kernels are kept for the process."""
    global _driver
    if _driver is None:
        _driver = EmulatedDriver()
    driver = _driver

    def factory(device_id: int) -> EmulatedDevice:
        return EmulatedDevice(device_id, driver)

    factory.count = 1  # type: ignore[attr-defined]
    use_gpu_devices(factory)
    return driver


def uninstall() -> None:
    use_gpu_devices(None)
