# SPDX-License-Identifier: Apache-2.0
"""CUDA devices as seen by arrays: CuPy memory, copies, and the backend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from ...base import MXNetError
from ...cache.disk_cache import default_store
from ...compiler.devices.gpu import TF32_CAPABILITY
from ...context import gpu
from ...core.extras import INSTALL_CUDA
from ..device_errors import raise_translated, retry_after_oom
from ..library import Libraries
from .backend import CudaBackend
from .cublaslt import Binding as Products
from .cublaslt import find as find_products
from .cublaslt_dot import ProductLibrary
from .cudnn import Binding, find
from .cudnn_conv import ConvolutionLibrary
from .errors import FORKED, lost_by_fork
from .user_graphs import UserGraphs

if TYPE_CHECKING:
    from ..devices import Device

__all__ = ["CupyDevice", "count", "cublaslt", "cudnn", "open_device"]


_CUPY = 14  #: the first major version with bfloat16


def _cupy() -> tuple[Any, str]:
    """CuPy, or None with the reason why not."""
    try:
        import cupy  # type: ignore[import-untyped,import-not-found,unused-ignore]
    except ImportError as e:
        return None, f"CuPy is not installed ({e}): {INSTALL_CUDA}"
    if int(cupy.__version__.partition(".")[0]) < _CUPY:
        return None, f"CuPy {cupy.__version__} is too old, which has no bfloat16: {INSTALL_CUDA}"
    return cupy, ""


def count() -> int:
    """Number of CUDA devices CuPy can use; 0 without a driver or CuPy."""
    cupy, _ = _cupy()
    if cupy is None or not cupy.cuda.is_available():
        return 0
    try:
        return int(cupy.cuda.runtime.getDeviceCount())
    except Exception as e:
        raise_translated(e)


def cudnn() -> Binding | str:
    """cuDNN as convolutions on a GPU find it, or why they do without."""
    cupy, reason = _cupy()
    return reason if cupy is None else find(_cuda_version(cupy))


def cublaslt() -> Products | str:
    """cuBLASLt as matrix products on a GPU find it, or why they do without."""
    cupy, reason = _cupy()
    return reason if cupy is None else find_products(_cuda_version(cupy))


def _cuda_version(cupy: Any) -> int:
    return int(cupy.cuda.runtime.runtimeGetVersion()) // 1000


def _no_device(runtime: Any) -> str:
    """Why CUDA finds no device."""
    if lost_by_fork():
        return FORKED
    driver, runtime_version = (
        int(f()) // 1000 for f in (runtime.driverGetVersion, runtime.runtimeGetVersion)
    )  # 0 without a driver
    if 0 < driver < runtime_version:
        return f"the NVIDIA driver is one of CUDA {driver}, CuPy is built for CUDA {runtime_version}: update the driver"
    return "CuPy is installed, but CUDA finds no driver or no device"


def open_device(device_id: int) -> CupyDevice:
    """The device number ``device_id``.

    Raises:
        MXNetError: there is none; the message says what was looked for.
    """
    cupy, reason = _cupy()
    words = ""  # MXNet's
    if cupy is not None:
        device_count = count()
        if 0 <= device_id < device_count:
            return CupyDevice(cupy, device_id)
        if device_count:
            reason = f"CUDA sees {device_count} device{'s' if device_count > 1 else ''}, numbered from 0"
            words = "Check failed: e == cudaSuccess: CUDA: invalid device ordinal\n"
        else:
            reason = _no_device(cupy.cuda.runtime)
    raise MXNetError(
        f"{words}{gpu(device_id)} cannot be used: {reason}\n"
        "Make the arrays on mx.cpu(); mx.num_gpus() tells how many GPUs there are and `hybridgpu info` what was found."
    )


class CupyDevice:
    """One GPU through CuPy."""

    def __init__(self, cupy: Any, device_id: int) -> None:
        self.xp, self.id = cupy, device_id
        self._backend: CudaBackend | None = None
        self._user_graphs: UserGraphs | None = None
        self._several = count() > 1
        #: with one device nothing has to be switched, so nothing is
        self._scope: AbstractContextManager[Any] = cupy.cuda.Device(device_id) if self._several else nullcontext()
        self.convolutions, self.products = ConvolutionLibrary(self), ProductLibrary(self)
        has_tf32 = self.compute_capability >= TF32_CAPABILITY
        self.library = Libraries(self.convolutions, self.products, tf32=has_tf32)

    def from_host(self, array: Any) -> Any:
        with self._scope:
            try:
                return self.xp.array(array, order="C")
            except Exception as e:
                return retry_after_oom(e, lambda a: self.xp.array(a, order="C"), array)

    def to_host(self, array: Any) -> Any:
        try:
            return self.xp.asnumpy(array)
        except Exception as e:
            return retry_after_oom(e, self.xp.asnumpy, array)

    def adopt(self, array: Any, source: Device) -> Any:
        if not isinstance(source, CupyDevice):
            return self.from_host(source.to_host(array))
        try:
            return self._received(array, source)
        except Exception as e:
            with self._scope:
                return retry_after_oom(e, self._received, array, source)

    def _received(self, array: Any, source: CupyDevice) -> Any:
        # the copy runs on this device's stream: behind what the other one's stream has to do for it, and before
        # what that stream does with the memory next
        event = self.xp.cuda.Event
        with source.current():
            theirs = self.xp.cuda.get_current_stream()
            computed = theirs.record(event(disable_timing=True))
        with self._scope:
            ours = self.xp.cuda.get_current_stream()
            ours.wait_event(computed)
            received = array.copy()
            copied = ours.record(event(disable_timing=True))
        with source.current():
            theirs.wait_event(copied)
        return received

    def address(self, array: Any) -> int:
        return int(array.data.ptr)

    def synchronize(self) -> None:
        try:
            self.xp.cuda.Device(self.id).synchronize()
        except Exception as e:
            raise_translated(e)

    def backend(self) -> CudaBackend:
        if self._backend is None:
            from .cupy_driver import CupyDriver

            try:
                driver = CupyDriver(self.id, default_store())
            except Exception as e:
                driver = retry_after_oom(e, CupyDriver, self.id, default_store())
            self._backend = CudaBackend(driver, self.xp, self.address, self.library)
        return self._backend

    def memory(self, array: Any) -> tuple[Any, Any]:
        return array.data, array.data.mem

    def current(self) -> AbstractContextManager[Any]:
        return self._scope

    def needs_switch(self) -> bool:
        return self._several and self.xp.cuda.runtime.getDevice() != self.id  # type: ignore[no-any-return]

    def is_capturing(self) -> bool:
        stream = self.xp.cuda.get_current_stream(self.id)
        return bool(stream.ptr and stream.is_capturing())  # the default stream cannot be

    def capture_scope(self) -> AbstractContextManager[Callable[[Sequence[Any]], None]]:
        if self._user_graphs is None:
            self._user_graphs = UserGraphs(self.xp)
        return self._user_graphs.scope(self.stream())

    def stream(self) -> int:
        """The handle of the device's current stream."""
        return int(self.xp.cuda.get_current_stream(self.id).ptr)

    def cuda_version(self) -> int:
        """Major version of the CUDA run-time library that CuPy uses."""
        return _cuda_version(self.xp)

    @property
    def compute_capability(self) -> int:
        """10 * major + minor, such as 90."""
        return int(self.xp.cuda.Device(self.id).compute_capability)

    def memory_info(self) -> tuple[int, int]:
        try:
            free, total = self.xp.cuda.Device(self.id).mem_info
        except Exception as e:
            raise_translated(e)
        return int(free), int(total)

    def empty_cache(self) -> None:
        with self._scope:  # CuPy has a pool for each device
            try:
                if self._backend is not None:
                    self._backend.arenas.release()
                self.xp.get_default_memory_pool().free_all_blocks()
            except Exception as e:
                raise_translated(e)
