# SPDX-License-Identifier: Apache-2.0
"""The driver for real GPUs, through CuPy.

Kernels are cached by the hash of their text. Those that a program lacks are compiled together as one
module, which takes half the time of compiling them one by one; the cache remembers which module
holds which kernel.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...cache.disk_cache import Store
from ...cache.package_files import kernels_hash
from ...compiler.devices.gpu import PORTABLE_CLUSTER, GpuConstants
from ...compiler.program import KernelInfo
from .clusters import allow_large, largest_cluster
from .device_tables import Gpu, known
from .driver import KernelGraph, Launch, LibraryStart, Stream, module_source
from .graphs import Captures, CudaGraph, graph_functions
from .nvrtc import NUMERIC, OPTIONS, architecture, compile_cubin, compiler_version, rules_hash
from .user_kernels import UserModule, missing_kernel

__all__ = ["CupyDriver"]

_CLUSTERS = 120  #: cudaDevAttrClusterLaunch, which CuPy does not name
_FOREIGN = (200, 209, 218, 222, 300)  #: statuses of machine code that is not for this driver and device, or broken
_NOT_FOUND = 500  #: CUDA_ERROR_NOT_FOUND
_SHARED = GpuConstants.static_shared  #: bytes of dynamic shared memory that every kernel may take


class CupyDriver:
    """Compiles with NVRTC, loads and launches with CuPy, on one device."""

    def __init__(self, device_id: int, store: Store) -> None:
        import cupy  # type: ignore[import-untyped,import-not-found,unused-ignore]

        self._cupy, self._device, self._store = cupy, cupy.cuda.Device(device_id), store
        self._id, self._current_stream = device_id, cupy.cuda.get_current_stream
        capability = int(self._device.compute_capability)
        self.arch, self._binary = architecture(capability)
        attributes = self._device.attributes
        self.multiprocessors = int(attributes["MultiProcessorCount"])
        self.cooperative = bool(attributes.get("CooperativeLaunch", 0))
        self.attach()
        with self._device:
            clusters = cupy.cuda.runtime.deviceGetAttribute(_CLUSTERS, device_id)
            cluster_blocks = largest_cluster(cupy) if clusters else 1
        self.limits: Mapping[str, int] = {
            "shared_bytes": int(attributes["MaxSharedMemoryPerBlockOptin"]),
            "shared_total": int(attributes["MaxSharedMemoryPerMultiprocessor"]),
            "resident_threads": int(attributes["MaxThreadsPerMultiProcessor"]),
            **({} if clusters else {"cluster_blocks": 1}),
            "row_cluster_blocks": cluster_blocks,
        }
        self.gpu = Gpu(self._name(), self.multiprocessors, int(cupy.cuda.runtime.driverGetVersion()))
        self.constants = known(self.gpu, store).values
        self.identity = f"nvrtc {compiler_version()} {self.arch} {OPTIONS} {NUMERIC} {rules_hash()}"
        self.compiled = 0
        self.compiled_kernels: list[str] = []
        self._functions: dict[str, Any] = {}
        self._modules: dict[str, Any] = {}
        self._captures = Captures()
        self._large: set[int] = set()  #: functions that may have clusters of more blocks than every device starts
        self._allowed: dict[int, int] = {}  #: bytes of dynamic shared memory that functions may take, beyond _SHARED

    def _name(self) -> str:
        name = self._cupy.cuda.runtime.getDeviceProperties(self._id)["name"]
        return name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)

    def load(self, kernels: Sequence[KernelInfo]) -> dict[str, Any]:
        keys = {k.name: self._key(k) for k in kernels}
        missing = [k for k in kernels if keys[k.name] not in self._functions]
        if missing:
            self.attach()
            with self._device:
                missing = [k for k in missing if not self._from_store(k, keys[k.name])]
                if missing:
                    self._compile(missing, keys)
        for kernel in kernels:
            self._allow(self._functions[keys[kernel.name]], kernel)
        return {name: self._functions[key] for name, key in keys.items()}

    def _key(self, kernel: KernelInfo) -> str:
        return hashlib.sha256(
            f"{self.identity}\0{kernels_hash(self._store)}\0{kernel.numeric}\0{kernel.text}".encode()
        ).hexdigest()

    def _from_store(self, kernel: KernelInfo, key: str) -> bool:
        entry = self._store.get_json("kernel", key)
        if not isinstance(entry, str):
            return False
        module = self._modules.get(entry)
        if module is None:
            code = self._store.get("cubin", entry)
            if code is None:
                return False
            try:
                module = self._module(code)
            except self._cupy.cuda.driver.CUDADriverError as e:
                if e.status not in _FOREIGN:
                    raise
                self._store.forget("cubin", entry)  # built for another driver: build it again
                return False
            self._modules[entry] = module
        self._functions[key] = module.get_function(kernel.name)
        return True

    def _compile(self, kernels: list[KernelInfo], keys: dict[str, str]) -> None:
        source = module_source(kernels)
        (numeric,) = {k.numeric for k in kernels}  # they are those of one program
        code, _ = compile_cubin(source, self.arch, numeric)
        self.compiled += 1
        self.compiled_kernels += [k.name for k in kernels]
        identity = f"{self.identity}\0{kernels_hash(self._store)}\0{numeric}\0{source}"
        entry = hashlib.sha256(identity.encode()).hexdigest()
        self._store.put("cubin", entry, code)
        module = self._modules[entry] = self._module(code)
        for k in kernels:
            self._functions[keys[k.name]] = module.get_function(k.name)
            self._store.put_json("kernel", keys[k.name], entry)

    def _allow(self, function: Any, kernel: KernelInfo) -> None:
        """Let a kernel have its clusters, and the dynamic shared memory of its launches, of which one text may have several."""
        if (
            kernel.launch is not None
            and kernel.launch["cluster"] > PORTABLE_CLUSTER
            and function.ptr not in self._large
        ):
            self.attach()
            with self._device:
                allow_large(self._cupy, function)
            self._large.add(function.ptr)
        shared = kernel.launch["shared"] if kernel.launch is not None else 0
        if shared > self._allowed.get(function.ptr, _SHARED):
            driver = self._cupy.cuda.driver
            self.attach()
            with self._device:
                driver.funcSetAttribute(function.ptr, driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared)
            self._allowed[function.ptr] = shared

    def _module(self, code: bytes) -> Any:
        module = self._cupy.cuda.function.Module()
        module.load(code)
        return module

    def resident(self, kernel: Any, threads: int, shared: int) -> int:
        self.attach()
        with self._device:
            return int(self._cupy.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor(kernel.ptr, threads, shared))

    def attach(self) -> None:
        """Make the device's primary context the calling thread's.

        The driver wants it done in every thread. CuPy does so before a launch of its own and when it loads a module, but
        not in :func:`launchKernel` nor in what asks about functions.
        """
        with self._device:
            self._cupy.cuda.runtime.memGetInfo()

    def stream(self) -> Stream:
        return self._current_stream(self._id)  # type: ignore[no-any-return]

    def is_capturing(self) -> bool:
        stream = self._current_stream(self._id)
        return bool(stream.ptr and stream.is_capturing())  # the default stream cannot be

    def starter(self, launch: Launch) -> Callable[[int], None]:
        driver = self._cupy.cuda.driver
        function, (x, y), threads, shared = launch.kernel.ptr, launch.grid, launch.threads, launch.shared
        parameters = launch.parameters
        if launch.cooperative:
            together = driver.launchCooperativeKernel

            def run_together(stream: int) -> None:
                together(function, x, y, 1, threads, 1, 1, shared, stream, parameters)

            return run_together
        start = driver.launchKernel

        def run(stream: int) -> None:
            start(function, x, y, 1, threads, 1, 1, shared, stream, parameters, 0)

        return run

    def user_function(self, module: UserModule, name: str) -> Any:
        driver, lowered = self._cupy.cuda.driver, module.lowered.get(name, name)
        self.attach()
        with self._device:
            try:
                return self._module(module.code).get_function(lowered)
            except driver.CUDADriverError as e:
                if e.status == _NOT_FOUND:
                    raise missing_kernel(lowered) from None
                raise

    def start_user_function(
        self, function: Any, grid: Sequence[int], block: Sequence[int], shared: int, arguments: Sequence[Any]
    ) -> None:
        self.attach()
        with self._device:
            if shared > self._allowed.get(function.ptr, _SHARED):
                driver = self._cupy.cuda.driver
                driver.funcSetAttribute(function.ptr, driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared)
                self._allowed[function.ptr] = shared
            function(tuple(grid), tuple(block), [x[()] if isinstance(x, np.ndarray) else x for x in arguments], shared)

    def graph(self, steps: Sequence[Launch | LibraryStart]) -> KernelGraph:
        functions = graph_functions()
        handles = [step.kernel.ptr if isinstance(step, Launch) else 0 for step in steps]
        return CudaGraph(functions, steps, handles, self._captures)
