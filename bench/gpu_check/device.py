# SPDX-License-Identifier: Apache-2.0
"""gpu(0) as steps use it: arrays, random data, and times of what a GPU does in microseconds."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.gpu_check.rows import Rows
from hybridgpu.backends.devices import device_of
from hybridgpu.cli.bench.timing import CudaClock, HostClock, Samples, compare, loop
from hybridgpu.compiler.program import KernelStep, Program
from hybridgpu.context import gpu
from hybridgpu.core.dtypes import from_short

__all__ = ["Device", "Timer", "arguments", "families", "kinds", "open_rows"]

CAPTURED = 64  #: launches in a CUDA graph, whose time is divided by them: Python takes longer than a small kernel
LONG = 200.0  #: microseconds of a call from which on the time between two launches does not count
ROUNDS, BATCH_SECONDS = 7, 0.005
BEYOND_L2 = 1 << 28  #: bytes that inputs take together, in turns, so that none is found in a cache
DRAWN = 1 << 22  #: random numbers that are drawn; larger arrays repeat them


class Device:
    """gpu(0), real or emulated (tests/emulated.py).

    Args:
        pool: False takes every array from the driver, so that compute-sanitizer sees where each begins and ends.
    """

    def __init__(self, emulate: bool = False, pool: bool = True) -> None:
        self.emulate = emulate
        if emulate:
            from emulated import install

            install()
        self.device = device_of(gpu(0))
        self.xp, self.backend = self.device.xp, self.device.backend()
        if not emulate and not pool:
            self.xp.cuda.set_allocator(None)
        self._drawn: dict[str, Any] = {}

    def filled(self, shape: tuple[int, ...], short: str) -> Any:
        """An array whose bits are all set: what a kernel leaves unwritten is NaN."""
        dtype = from_short(short).np
        nbytes = int(np.prod(shape)) * dtype.itemsize
        return self.device.from_host(np.full(nbytes, 0xFF, np.uint8).view(dtype).reshape(shape))

    def empty(self, shape: tuple[int, ...], short: str) -> Any:
        """An array for a result that is not looked at."""
        return self.xp.empty(shape, from_short(short).np)

    def random(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """Normally distributed numbers; of integers 0, 1, 2, …"""
        if dtype.kind == "i":
            return self.device.from_host(np.arange(int(np.prod(shape)), dtype=dtype.np).reshape(shape))
        drawn = self._drawn.get(dtype.short)
        if drawn is None:
            host = np.random.default_rng(3).standard_normal(DRAWN, np.float32)
            drawn = self._drawn[dtype.short] = self.device.from_host(host.astype(dtype.np))
        made = self.xp.empty(int(np.prod(shape)), dtype.np)
        for at in range(0, made.size, DRAWN):
            part = made[at : at + DRAWN]
            part[...] = drawn[: part.size]
        return made.reshape(shape)

    def release(self) -> None:
        """Give memory that is not used back to the device."""
        if not self.emulate:
            self.device.empty_cache()


def kinds(program: Program) -> list[str]:
    """Of the program's kernels in order, 'library' for other steps."""
    return [program.kernels[s.kernel].kind if isinstance(s, KernelStep) else "library" for s in program.steps]


def families(program: Program) -> str:
    """What a program's kernels wait for that may never come, '' if nothing: such a case is run last, and the others of its
    family are left out after one that does wait for ever."""
    launches = [k.launch for k in program.kernels if k.launch is not None]
    if any(launch.get("cooperative") for launch in launches):
        return "grid barrier"
    return "cluster" if any(launch.get("cluster", 1) > 1 for launch in launches) else ""


@dataclass
class Time:
    """Microseconds of a call: the least of the rounds, their median, and how they were taken."""

    us: float
    median_us: float
    timed: str


class Timer:
    """Times of calls in turns.

    What takes less than LONG is captured into a CUDA graph CAPTURED times, and the graph is timed; where CUDA cannot
    capture it, calls are, and the row says so. Inputs come in several sets, used in turns, so that they lie beyond the
    L2, as those of a net do.
    """

    def __init__(self, device: Device, beyond: int = BEYOND_L2) -> None:
        self._device, self._beyond = device, beyond
        self._clock = HostClock() if device.emulate else CudaClock(device.xp)
        self._stream = None if device.emulate else device.xp.cuda.Stream(non_blocking=True)

    def sets(self, inputs: Sequence[Any]) -> list[list[Any]]:
        """Copies of the inputs, as many as lie beyond the L2 together, CAPTURED at most."""
        nbytes = max(1, sum(a.nbytes for a in inputs))
        count = 1 if self._device.emulate else max(1, min(CAPTURED, self._beyond // nbytes))
        return [list(inputs), *([a.copy() for a in inputs] for _ in range(count - 1))]

    def times(self, calls: Mapping[str, Callable[[int], object]]) -> dict[str, Time]:
        """Of calls by name, each given the number of the set of inputs to take."""
        if self._device.emulate:
            samples = compare({k: loop(c, 0) for k, c in calls.items()}, self._clock, 1, 0.0, 1)
            return {k: Time(s.minimum, s.median, "calls, emulated") for k, s in samples.items()}
        self._device.device.synchronize()  # inputs are of another stream
        with self._stream:
            return self._interleaved(calls)

    def _interleaved(self, calls: Mapping[str, Callable[[int], object]]) -> dict[str, Time]:
        loops: dict[str, Callable[[int], None]] = {}
        divide: dict[str, int] = {}
        how: dict[str, str] = {}
        for name, call in calls.items():
            plain = _in_turns(call)
            plain(3)
            loops[name], divide[name], how[name] = plain, 1, "calls"
            if self._clock.measure(plain, 4) / 4 * 1e6 < LONG:
                try:
                    loops[name] = self._captured(call)
                except Exception as e:
                    how[name] = f"calls, which Python makes: {type(e).__name__}: {' '.join(str(e).split())}"[:200]
                    continue
                divide[name], how[name] = CAPTURED, f"{CAPTURED} launches in a graph"
        samples: dict[str, Samples] = compare(loops, self._clock, ROUNDS, BATCH_SECONDS)
        return {k: Time(s.minimum / divide[k], s.median / divide[k], how[k]) for k, s in samples.items()}

    def _captured(self, call: Callable[[int], object]) -> Callable[[int], None]:
        runtime = self._device.xp.cuda.runtime
        stream = self._stream
        assert stream is not None
        driver = self._device.backend.driver
        # as calls usually are: in a user's capture each has memory, and a cleared word for its barrier, of its own
        driver.is_capturing = lambda: False
        stream.begin_capture(runtime.streamCaptureModeRelaxed)
        try:
            for k in range(CAPTURED):
                call(k)
        finally:
            del driver.is_capturing
            graph = stream.end_capture()
        graph.launch(stream)
        stream.synchronize()
        return loop(graph.launch, stream)


def _in_turns(call: Callable[[int], object]) -> Callable[[int], None]:
    def run(count: int) -> None:
        for k in range(count):
            call(k)

    return run


def arguments(description: str | None, *more: tuple[str, dict[str, Any]]) -> argparse.ArgumentParser:
    """What all steps take."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, options in more:
        parser.add_argument(name, **options)
    parser.add_argument("--rows", type=Path, metavar="FILE", help="where rows go; those it has are not measured again")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="after which no part is begun")
    parser.add_argument("--patience", type=float, default=0, help="seconds that a part may take")
    parser.add_argument("--bytes", type=int, default=1 << 28, help="of large arrays")
    parser.add_argument("--only", default="", metavar="WORD", help="parts that have it in their name")
    parser.add_argument("--peer", action="append", default=[], help=argparse.SUPPRESS)
    parser.add_argument("--emulate", action="store_true", help="rehearse on the CPU, with small arrays")
    return parser


def open_rows(options: argparse.Namespace, device: Device | None = None) -> Rows:
    """The step's rows, as the options say."""
    alive = device.device.synchronize if device is not None else lambda: None
    return Rows(options.rows, 0 if options.emulate else options.patience, options.seconds, alive, options.only)
