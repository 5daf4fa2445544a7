# SPDX-License-Identifier: Apache-2.0
"""CUDA devices as seen by arrays: CuPy memory, copies, and the backend."""

from __future__ import annotations

from typing import Any

from ...base import MXNetError
from ...context import gpu
from ...store import default_store
from .backend import CudaBackend

__all__ = ["CupyDevice", "count", "open_device"]


def _cupy() -> tuple[Any, str]:
    """CuPy, or None with the reason why not."""
    try:
        import cupy  # type: ignore[import-untyped,import-not-found,unused-ignore]
    except ImportError as e:
        return None, f"CuPy is not installed ({e}); install hybridgpu[cuda12] or hybridgpu[cuda13]"
    return cupy, ""


def count() -> int:
    """Number of CUDA devices CuPy can use; 0 without a driver or CuPy."""
    cupy, _ = _cupy()
    if cupy is None or not cupy.cuda.is_available():
        return 0
    return int(cupy.cuda.runtime.getDeviceCount())


def open_device(device_id: int) -> CupyDevice:
    """The device number ``device_id``.

    Raises:
        MXNetError: there is none; the message says what was looked for.
    """
    cupy, reason = _cupy()
    if cupy is not None:
        found = count()
        if 0 <= device_id < found:
            return CupyDevice(cupy, device_id)
        if found:
            reason = f"CUDA sees {found} device{'s' if found > 1 else ''}, numbered from 0"
        else:
            reason = "CuPy is installed, but CUDA finds no driver or no device"
    raise MXNetError(
        f"{gpu(device_id)} cannot be used: {reason}\n"
        "Make the arrays on mx.cpu(); mx.num_gpus() tells how many GPUs there are and `hybridgpu info` what was found."
    )


class CupyDevice:
    """One GPU through CuPy."""

    def __init__(self, cupy: Any, device_id: int) -> None:
        self.xp, self.id = cupy, device_id
        self._backend: CudaBackend | None = None

    def from_host(self, array: Any) -> Any:
        with self.xp.cuda.Device(self.id):
            return self.xp.array(array, order="C")

    def to_host(self, array: Any) -> Any:
        return self.xp.asnumpy(array)

    def address(self, array: Any) -> int:
        return int(array.data.ptr)

    def synchronize(self) -> None:
        self.xp.cuda.Device(self.id).synchronize()

    def backend(self) -> CudaBackend:
        if self._backend is None:
            from .cupy_driver import CupyDriver

            self._backend = CudaBackend(CupyDriver(self.id, default_store()), self.xp, self.address)
        return self._backend

    @property
    def compute_capability(self) -> int:
        """10 * major + minor, such as 90."""
        return int(self.xp.cuda.Device(self.id).compute_capability)

    def memory_info(self) -> tuple[int, int]:
        free, total = self.xp.cuda.Device(self.id).mem_info
        return int(free), int(total)

    def empty_cache(self) -> None:
        self.xp.get_default_memory_pool().free_all_blocks()
