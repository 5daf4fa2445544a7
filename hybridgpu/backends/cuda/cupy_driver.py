# SPDX-License-Identifier: Apache-2.0
"""The driver for real GPUs, through CuPy.

Kernels are cached by the hash of their text. Those that a program lacks are compiled together as one
module, which takes half the time of compiling them one by one; the cache remembers which module
holds which kernel.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from ...compiler.program import KernelInfo
from ...resources import kernels_hash
from ...store import Store
from .driver import Memory, module_source
from .nvrtc import OPTIONS, architecture, compile_cubin, compiler_version

__all__ = ["CupyDriver"]


class CupyDriver:
    """Compiles with NVRTC, loads and launches with CuPy, on one device."""

    def __init__(self, device_id: int, store: Store) -> None:
        import cupy  # type: ignore[import-untyped,import-not-found,unused-ignore]

        self._cupy, self._device, self._store = cupy, cupy.cuda.Device(device_id), store
        capability = int(self._device.compute_capability)
        self.arch, self._binary = architecture(capability)
        self.multiprocessors = int(self._device.attributes["MultiProcessorCount"])
        self.identity = f"nvrtc {compiler_version()} {self.arch} {OPTIONS}"
        self.compiled = 0
        self._functions: dict[str, Any] = {}
        self._modules: dict[str, Any] = {}

    def load(self, kernels: Sequence[KernelInfo]) -> dict[str, Any]:
        keys = {k.name: self._key(k) for k in kernels}
        missing = [
            k for k in kernels if keys[k.name] not in self._functions and not self._from_store(k.name, keys[k.name])
        ]
        if missing:
            self._compile(missing, keys)
        return {name: self._functions[key] for name, key in keys.items()}

    def _key(self, kernel: KernelInfo) -> str:
        return hashlib.sha256(f"{self.identity}\0{kernels_hash()}\0{kernel.text}".encode()).hexdigest()

    def _from_store(self, name: str, key: str) -> bool:
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
            except self._cupy.cuda.driver.CUDADriverError:  # built for another driver: build it again
                self._store.forget("cubin", entry)
                return False
            self._modules[entry] = module
        self._functions[key] = module.get_function(name)
        return True

    def _compile(self, kernels: list[KernelInfo], keys: dict[str, str]) -> None:
        source = module_source(kernels)
        code, _ = compile_cubin(source, self.arch)
        self.compiled += 1
        entry = hashlib.sha256(f"{self.identity}\0{kernels_hash()}\0{source}".encode()).hexdigest()
        self._store.put("cubin", entry, code)
        module = self._modules[entry] = self._module(code)
        for k in kernels:
            self._functions[keys[k.name]] = module.get_function(k.name)
            self._store.put_json("kernel", keys[k.name], entry)

    def _module(self, code: bytes) -> Any:
        module = self._cupy.cuda.function.Module()
        with self._device:
            module.load(code)
        return module

    def launch(
        self,
        kernel: Any,
        grid: tuple[int, int],
        threads: int,
        shared: int,
        memory: Sequence[Memory],
        numbers: Sequence[int],
    ) -> None:
        arguments = (*(self._cupy.uint64(m.address) for m in memory), *(self._cupy.int64(n) for n in numbers))
        kernel((*grid, 1), (threads, 1, 1), arguments, shared_mem=shared)
