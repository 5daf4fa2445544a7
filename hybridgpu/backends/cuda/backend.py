# SPDX-License-Identifier: Apache-2.0
"""Programs on a CUDA device: one launch a kernel, library calls through CuPy in between."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from ...compiler.program import HostStep, KernelStep, Program
from ...compiler.target import CUDA
from ...dtypes import from_short
from ..base import BuildInfo
from ..library import run_host_step
from .driver import Driver, Memory

__all__ = ["CudaBackend", "CudaProgram"]

_ALIGNMENT = 16  #: bytes; wide accesses need it


class _LibraryCall(NamedTuple):
    step: HostStep
    body: CudaProgram | None  #: what a loop runs


class CudaProgram:
    """A program bound to its kernels."""

    def __init__(self, program: Program, driver: Driver, xp: Any, address: Any, info: BuildInfo) -> None:
        self.program, self.info = program, info
        self._driver, self._xp, self._address = driver, xp, address
        handles = driver.load(program.kernels)
        self._launches: list[tuple[Any, tuple[int, int], int, int, KernelStep, int] | _LibraryCall | None] = []
        for step in program.steps:
            if isinstance(step, HostStep):
                body = None if step.body is None else CudaProgram(step.body, driver, xp, address, info)
                self._launches.append(_LibraryCall(step, body))
                continue
            kernel = program.kernels[step.kernel]
            launch = kernel.launch
            assert launch is not None, f"kernel {kernel.name} was made for another target"
            blocks = -(-step.extents[launch["extent"]] * launch["scale"] // launch["per_block"])
            if launch["limit"]:
                blocks = min(blocks, launch["limit"] * driver.multiprocessors)
            second = step.extents[launch["second"]] if launch["second"] >= 0 else 1
            if blocks == 0 or second == 0:
                self._launches.append(None)
                continue
            written = step.outputs
            self._launches.append(
                (handles[kernel.name], (blocks, second), launch["threads"], launch["shared"], step, written)
            )

    def __call__(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        xp, program = self._xp, self.program
        inputs = [a if self._address(a) % _ALIGNMENT == 0 else xp.array(a, order="C", copy=True) for a in inputs]
        given, outputs = outputs, [a if self._address(a) % _ALIGNMENT == 0 else xp.empty_like(a) for a in outputs]
        arena = xp.empty(program.arena_bytes, xp.uint8) if program.arena_bytes else None
        base = self._address(arena) if arena is not None else 0
        addresses = []
        for b in program.buffers:
            if b.place == "arena":
                addresses.append(base + b.index)
            else:
                addresses.append(self._address((inputs if b.place == "input" else outputs)[b.index]))

        def array(index: int, shape: tuple[int, ...]) -> Any:
            b = program.buffers[index]
            if b.place == "arena":
                assert arena is not None
                return arena[b.index : b.index + b.nbytes].view(from_short(b.dtype).np).reshape(shape)
            return (inputs if b.place == "input" else outputs)[b.index].reshape(shape)

        for launch in self._launches:
            if launch is None:
                continue
            if isinstance(launch, _LibraryCall):
                run_host_step(launch.step, array, program, xp, launch.body)
                continue
            handle, grid, threads, shared, step, written = launch
            first_output = len(step.buffers) - written
            memory = [
                Memory(addresses[b], program.buffers[b].nbytes, k >= first_output) for k, b in enumerate(step.buffers)
            ]
            self._driver.launch(handle, grid, threads, shared, memory, step.extents)
        for target, value in zip(given, outputs, strict=True):
            if target is not value:
                target[...] = value


class CudaBackend:
    """Compiles programs for one CUDA device."""

    target = CUDA

    def __init__(self, driver: Driver, xp: Any, address: Any) -> None:
        self.driver, self.xp, self._address = driver, xp, address

    def key(self) -> str:
        return f"cuda {self.driver.identity}"

    def load(self, program: Program) -> CudaProgram:
        start, before = time.perf_counter(), self.driver.compiled
        info = BuildInfo(0.0, 0, self.driver.identity)
        loaded = CudaProgram(program, self.driver, self.xp, self._address, info)
        info.seconds, info.compiled = time.perf_counter() - start, self.driver.compiled - before
        return loaded
