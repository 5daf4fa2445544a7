# SPDX-License-Identifier: Apache-2.0
"""Micro-benchmarks of a GPU: the constants of its cost model, measured by replaying CUDA graphs.

Each step times one thing at two counts, or over a table of sizes, and makes constants of :class:`GpuConstants` of the
difference: what a replay costs besides cancels. Kernels are the sections of ``kernels/calibrate.cu``. A step that fails,
or whose result is no plausible figure of a GPU, is reported; the others go on without it.
"""

from __future__ import annotations

import ctypes
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ...cache.package_files import kernels_folder
from ...compiler.devices.gpu import PORTABLE_CLUSTER, GpuConstants
from ...compiler.program import KernelInfo
from ...core.dataclass import dataclass, field
from .device_tables import PLAUSIBLE, rounded
from .driver import Driver, Launch, Memory

__all__ = ["STEPS", "Bench", "Step", "Unmeasurable", "event_timer", "kernel_text", "measure", "with_rounded"]

Timer = Callable[[Callable[[int], None]], float]

_THREADS = 256  #: of a block where their number is no question
_ROUNDS = range(3, 30)  #: at least and at most, as often as there is time for
_VECTOR = 16  #: bytes of an access
_ENOUGH = 0.92  #: of the best rate, from which on enough bytes are under way
_FEW_BLOCKS = 8  #: multiprocessors that are at work where the others are idle
_PRODUCTS = (256, 1024, 4096)  #: rows and columns of a library's products

#: what an arithmetic kernel does: type, statement, operations of it
_ARITHMETIC = {
    "float32": ("float", "__fmaf_rn(a[j], b, c)", 1),
    "float64": ("double", "__fma_rn(a[j], b, c)", 1),
    "mixed": ("float", "a[j] * b + c > a[j] ? a[j] - c : a[j] * c", 6),
}


class Unmeasurable(RuntimeError):
    """A step did not come to a figure; the message says why."""


@lru_cache
def _sections() -> dict[str, tuple[tuple[str, ...], str]]:
    """Name -> (headers, text) of the sections of calibrate.cu."""
    text = (kernels_folder() / "calibrate.cu").read_text(encoding="utf-8")
    sections = {}
    for section in re.split(r"^// == ", text, flags=re.M)[1:]:
        title, _, body = section.partition("\n")
        name, _, headers = title.partition(":")
        sections[name.strip()] = (tuple(headers.split()), body)
    return sections


def kernel_text(section: str, **words: object) -> KernelInfo:
    """The kernel of a section, for some values of the words in capitals."""
    headers, text = _sections()[section]
    name = "_".join(["calibrate", section, *(re.sub(r"\W", "", str(v)) for k, v in words.items() if k != "STEP")])
    values = {"NAME": name, **words}
    text = re.sub(rf"\b({'|'.join(values)})\b", lambda m: str(values[m[1]]), text)
    return KernelInfo(name, "calibrate", text, headers, None, [], {})


class Work(NamedTuple):
    """One start of a kernel: pointers as (address, bytes, whether it is written), then numbers."""

    kernel: KernelInfo
    grid: int
    threads: int
    pointers: Sequence[tuple[int, int, bool]]
    numbers: Sequence[int]
    cooperative: bool = False


def event_timer(driver: Driver, xp: Any) -> Timer:
    """Seconds between two CUDA events on the current stream, around a function of that stream."""

    def timed(run: Callable[[int], None]) -> float:
        stream: Any = driver.stream()
        begin, end = xp.cuda.Event(), xp.cuda.Event()
        begin.record(stream)
        run(stream.ptr)
        end.record(stream)
        end.synchronize()
        return float(xp.cuda.get_elapsed_time(begin, end)) * 1e-3

    return timed


def _no_library(kind: str, size: int) -> None:
    """No time: of a device whose library is not to be measured."""


@dataclass
class Bench:
    """A device under measurement.

    Attributes:
        gpu: its constants as they are known so far; steps use those of earlier ones.
        seconds: that a step may take, about.
        multiply: (f32, tf32 or f16; rows and columns) -> what starts a square product of a library, or None.
        figures: what was measured besides constants: name -> value, for people.
    """

    driver: Driver
    xp: Any
    address: Callable[[Any], int]
    timer: Timer
    gpu: GpuConstants
    seconds: float = 2.0
    multiply: Callable[[str, int], Callable[[], None] | None] = _no_library
    figures: dict[str, Any] = field(default_factory=dict)
    _alive: list[Any] = field(default_factory=list)
    _handles: dict[str, Any] = field(default_factory=dict)

    def room(self, nbytes: int, zero: bool = False) -> tuple[int, int, bool]:
        """Memory of the device that kernels write, as :class:`Work` has it."""
        array = (self.xp.zeros if zero else self.xp.empty)(nbytes, np.uint8)
        self._alive.append(array)
        return self.address(array), nbytes, True

    def given(self, array: Any) -> tuple[int, int, bool]:
        """An array of the host on the device, which kernels read."""
        device_array = self.xp.asarray(array)
        self._alive.append(device_array)
        return self.address(device_array), array.nbytes, False

    def free_bytes(self) -> int:
        """A part of the device's memory that nobody misses for a while."""
        free, _ = self.xp.cuda.runtime.memGetInfo()
        return int(free) // 4

    def forget(self) -> None:
        """Give memory back."""
        self._alive.clear()

    def launch(self, work: Work) -> Launch:
        """A start of a kernel, prepared."""
        handle = self._handles.get(work.kernel.name)
        if handle is None:
            handle = self._handles[work.kernel.name] = self.driver.load([work.kernel])[work.kernel.name]
        values = (ctypes.c_int64 * (len(work.pointers) + len(work.numbers)))(
            *(address for address, _, _ in work.pointers), *work.numbers
        )
        places = (ctypes.c_void_p * len(values))(*(ctypes.addressof(values) + 8 * k for k in range(len(values))))
        self._alive.append((values, places))
        memory = tuple(Memory(nbytes, written) for _, nbytes, written in work.pointers)
        return Launch(
            handle,
            (work.grid, 1),
            work.threads,
            0,
            ctypes.addressof(places),
            memory,
            len(work.numbers),
            work.cooperative,
        )

    def times(self, *runs: Callable[[int], None]) -> list[float]:
        """The least seconds of each, in turns."""
        for run in runs:  # once for nothing: clocks rise, code is loaded
            self.timer(run)
        best = [float("inf")] * len(runs)
        end = time.perf_counter() + self.seconds / 5
        for k in range(_ROUNDS.stop):
            best = [min(b, self.timer(run)) for b, run in zip(best, runs, strict=True)]
            if k + 1 >= _ROUNDS.start and time.perf_counter() > end:
                break
        return best

    def graph_seconds(self, *chains: Sequence[Work]) -> list[float]:
        """The same of CUDA graphs of kernels."""
        return self.times(*(self.driver.graph([self.launch(w) for w in chain]).launch for chain in chains))

    def each(self, make: Callable[[int], Sequence[Work]], few: int, many: int) -> float:
        """Seconds that each of ``many - few`` more takes."""
        one, other = self.graph_seconds(make(few), make(many))
        if other <= one:
            raise Unmeasurable(f"{many} took no longer than {few}")
        return (other - one) / (many - few)

    def turns(self, work: Work, few: int, many: int) -> float:
        """Seconds of a turn of a kernel's loop, whose number is its last argument."""
        return self.each(lambda n: [work._replace(numbers=[*work.numbers, n])], few, many)


Found = dict[str, float]


def _clock(b: Bench) -> Found:
    out = b.room(8 * b.gpu.multiprocessors)
    kernel = kernel_text("cycles")
    waited = []
    for n in (2_000_000, 12_000_000):
        work = Work(kernel, b.gpu.multiprocessors, 1, [out], [n])
        (seconds,) = b.graph_seconds([work])
        waited.append((float(_read(b, out).mean()), seconds))
    (one, begin), (other, end) = waited
    if end <= begin or other <= one:
        raise Unmeasurable("more cycles took no longer")
    return {"clock": (other - one) / (end - begin)}


def _read(b: Bench, out: tuple[int, int, bool]) -> Any:
    device_array = next(a for a in b._alive if not isinstance(a, tuple) and b.address(a) == out[0])
    return np.asarray(device_array.get() if hasattr(device_array, "get") else device_array).view(np.int64)


def _launches(b: Bench) -> Found:
    kernel = kernel_text("nothing")
    work = Work(kernel, b.gpu.multiprocessors, _THREADS, [], [0])
    node = b.each(lambda n: [work] * n, 32, 288)
    start = b.driver.starter(b.launch(work))

    def several(count: int) -> Callable[[int], None]:
        def run(stream: int) -> None:
            for _ in range(count):
                start(stream)

        return run

    few, many = b.times(several(32), several(544))
    if many <= few:
        raise Unmeasurable("more launches took no longer")
    return {"launch_seconds": (many - few) / 512, "graph_node_seconds": node}


def _cooperative(b: Bench) -> Found:
    if not b.driver.cooperative:
        raise Unmeasurable("the driver has no cooperative launches")
    kernel = kernel_text("nothing")

    def chain(together: bool, n: int) -> list[Work]:
        return [Work(kernel, b.gpu.multiprocessors, _THREADS, [], [0], together)] * n

    plain = b.each(lambda n: chain(False, n), 16, 144)
    together = b.each(lambda n: chain(True, n), 16, 144)
    return {"cooperative_seconds": max(together - plain, PLAUSIBLE["cooperative_seconds"][0])}


def _grid_barriers(b: Bench) -> Found:
    if not b.driver.cooperative:
        raise Unmeasurable("the driver has no cooperative launches")
    kernel, word = kernel_text("grid_barriers"), (*b.room(4, zero=True)[:2], False)
    seconds = []
    for grid in (few := 8, many := 2 * b.gpu.multiprocessors):
        out = b.room(4 * grid * _THREADS)
        seconds.append(b.turns(Work(kernel, grid, _THREADS, [out, word], [], True), 50, 1050))
    b.figures["grid_barrier_seconds"] = {str(few): seconds[0], str(many): seconds[1]}
    arrival = max((seconds[1] - seconds[0]) / (many - few), PLAUSIBLE["grid_arrival_seconds"][0])
    return {"grid_barrier_seconds": seconds[0] - few * arrival, "grid_arrival_seconds": arrival}


def _cluster_barriers(b: Bench) -> Found:
    if b.gpu.cluster_blocks < PORTABLE_CLUSTER:
        raise Unmeasurable("the device has no clusters")
    grid = PORTABLE_CLUSTER * (b.gpu.multiprocessors // (2 * PORTABLE_CLUSTER) or 1)
    kernel, out = kernel_text("cluster_barriers", CLUSTER=PORTABLE_CLUSTER), b.room(4 * grid * _THREADS)
    seconds = b.turns(Work(kernel, grid, _THREADS, [out], []), 100, 4100)
    return {"cluster_barrier_cycles": seconds * b.gpu.clock}


def _in_blocks(b: Bench) -> Found:
    lanes, out = b.room(4 * 32), b.room(4 * _THREADS)
    shuffle = b.turns(Work(kernel_text("shuffles"), 1, 32, [lanes], []), 1000, 41_000) * b.gpu.clock
    barrier = b.turns(Work(kernel_text("barriers"), 1, _THREADS, [out], []), 1000, 41_000) * b.gpu.clock
    empty, many = kernel_text("nothing"), b.gpu.multiprocessors
    start = b.each(lambda n: [Work(empty, n * many, 32, [], [0])], 64, 1088)
    b.figures["block_barrier_cycles"] = {str(_THREADS): barrier}
    own = max(barrier - 4 * (_THREADS // 32), PLAUSIBLE["barrier_cycles"][0])  # the model counts four a warp
    return {"shuffle_cycles": shuffle, "barrier_cycles": own, "block_cycles": start * b.gpu.clock}


def links(nbytes: int, line: int = 128) -> Any:
    """One cycle through all lines of so many bytes, by chance: at the beginning of each where the next one begins."""
    count, words = nbytes // line, line // 4
    order = np.random.default_rng(0).permutation(count - 1) + 1
    order = np.concatenate([[0], order]).astype(np.uint32)
    cycle = np.zeros((count, words), np.uint32)
    cycle[order, 0] = np.roll(order, -1) * words
    return cycle.reshape(-1)


def _latency(b: Bench) -> Found:
    kernel, out = kernel_text("chase"), b.room(4)

    def chase(nbytes: int, few: int, many: int) -> float:
        following = b.given(links(nbytes))
        return b.turns(Work(kernel, 1, 1, [following, out], []), few, many)

    near = chase(2 << 20, 20_000, 40_000)
    return {"l2_seconds": near, "memory_seconds": chase(min(256 << 20, b.free_bytes()), 2000, 22_000)}


def _bandwidth(b: Bench) -> Found:
    most = min(512 << 20, b.free_bytes() // 2)
    source, target = b.room(most, zero=True), b.room(most)
    source = (*source[:2], False)
    points: dict[int, float] = {}
    for at_once in (1, 2, 4):
        kernel = kernel_text("copy", THREADS=_THREADS, AT_ONCE=at_once)
        for blocks in (1, 2, 4, 8):
            grid = blocks * b.gpu.multiprocessors
            rate = _copy_rate(b, kernel, grid, _THREADS, at_once, source, target)
            flying = blocks * _THREADS * at_once * _VECTOR
            points[flying] = max(rate, points.get(flying, 0.0))
    best = max(points.values())
    b.figures["bytes_in_flight"] = {str(k): points[k] for k in sorted(points)}
    enough = min(k for k, rate in points.items() if rate >= _ENOUGH * best)
    kernel = kernel_text("copy", THREADS=1024, AT_ONCE=8)
    few = {n: _copy_rate(b, kernel, n, 1024, 8, source, target, n) for n in (_FEW_BLOCKS, 4 * _FEW_BLOCKS)}
    b.figures["active_multiprocessors"] = {str(k): rate for k, rate in few.items()}
    share = few[_FEW_BLOCKS] / _FEW_BLOCKS / (best / b.gpu.multiprocessors)
    return {
        "byte_seconds": 1 / best,
        "bytes_in_flight": enough,
        "product_bytes_in_flight": enough,
        "lone_share": max(1.0, share),
    }


def _copy_rate(
    b: Bench,
    kernel: KernelInfo,
    grid: int,
    threads: int,
    at_once: int,
    source: tuple[int, int, bool],
    target: tuple[int, int, bool],
    part: int = 0,
) -> float:
    """Bytes a second, read and written; ``part``: so many blocks copy a part of all that is as small."""
    once = grid * threads * at_once
    n = source[1] // _VECTOR
    n = n * min(part, b.gpu.multiprocessors) // b.gpu.multiprocessors if part else n
    n = max(n // once, 1) * once
    if n * _VECTOR > source[1]:
        raise Unmeasurable("too little memory is free")
    work = Work(kernel, grid, threads, [source, target], [n])
    seconds = b.each(lambda n: [work] * n, 1, 3)
    return 2 * n * _VECTOR / seconds


def _second_level(b: Bench) -> Found:
    grid, at_once = 4 * b.gpu.multiprocessors, 8
    once = grid * _THREADS * at_once
    n = max((24 << 20) // 4 // once, 1) * once
    source = (*b.room(4 * n, zero=True)[:2], False)
    out = b.room(4 * grid * _THREADS)
    kernel = kernel_text("read", THREADS=_THREADS, AT_ONCE=at_once)
    seconds = b.turns(Work(kernel, grid, _THREADS, [source, out], [n]), 2, 34)
    return {"l2_cycle_bytes": 4 * n / seconds / (b.gpu.multiprocessors * b.gpu.clock)}


def _arithmetic(b: Bench) -> Found:
    rates = {}
    grid = 4 * b.gpu.multiprocessors
    for name, (kind, step, operations) in _ARITHMETIC.items():
        kernel = kernel_text("arithmetic", THREADS=_THREADS, TYPE=kind, STEP=step)
        kernel.name, kernel.text = f"{kernel.name}_{name}", kernel.text.replace(kernel.name, f"{kernel.name}_{name}")
        out = b.room(8 * grid * _THREADS) if kind == "double" else b.room(4 * grid * _THREADS)
        seconds = b.turns(Work(kernel, grid, _THREADS, [out], []), 200, 2200)
        rates[name] = operations * 8 * grid * _THREADS / seconds
    b.figures["operations_a_second"] = rates
    cycles = b.gpu.multiprocessors * b.gpu.clock
    return {
        "lanes": rates["float32"] / cycles,
        "wide_lanes": rates["float64"] / cycles,
        "op_seconds": 1 / rates["mixed"],
    }


def _products(b: Bench) -> Found:
    seconds: dict[str, dict[str, float]] = {}
    for kind in ("f32", "tf32", "f16"):
        for size in _PRODUCTS:
            start = b.multiply(kind, size)
            if start is not None:
                seconds.setdefault(kind, {})[str(size)] = _of_calls(b, start, 40 if size < 4096 else 4)
    if not {"f32", "f16"} <= seconds.keys():
        raise Unmeasurable("there is no cuBLASLt")
    b.figures["product_seconds"] = seconds
    small, large = str(_PRODUCTS[0]), str(_PRODUCTS[-1])
    work = _PRODUCTS[-1] ** 3 / (b.gpu.multiprocessors * b.gpu.clock)
    return {
        "library_seconds": seconds["f32"][small] - b.gpu.launch_seconds,
        "library_share": min(1.0, work / seconds["f32"][large] / b.gpu.lanes),
        "tensor_lanes": work / seconds["f16"][large],
    }


def _of_calls(b: Bench, start: Callable[[], None], count: int) -> float:
    """Seconds of a call, of so many behind each other."""

    def run(stream: int) -> None:
        for _ in range(count):
            start()

    return b.times(run)[0] / count


#: what is done, in this order: later steps use what earlier ones found
STEPS: dict[str, Callable[[Bench], Found]] = {
    "clock": _clock,
    "launches": _launches,
    "cooperative launches": _cooperative,
    "barriers of the grid": _grid_barriers,
    "barriers of clusters": _cluster_barriers,
    "warps and blocks": _in_blocks,
    "latency of memory": _latency,
    "bandwidth": _bandwidth,
    "second-level cache": _second_level,
    "arithmetic": _arithmetic,
    "products of a library": _products,
}


def with_rounded(constants: Found) -> dict[str, Any]:
    """Constants as they are used and stored."""
    return {name: rounded(name, value) for name, value in constants.items()}


class Step(NamedTuple):
    """The outcome of a step: constants as measured, or why there are none; ``seconds`` that it took."""

    name: str
    found: Found
    failed: str
    seconds: float


def measure(b: Bench, on_step: Callable[[str], None] = lambda step: None) -> Iterator[Step]:
    """Run all steps; ``said`` is told each before it begins. The constants of ``b`` become what was measured."""
    for name, step in STEPS.items():
        on_step(name)
        begin = time.perf_counter()
        constants: Found = {}
        failed = ""
        try:
            for constant, value in step(b).items():
                low, high = PLAUSIBLE[constant]
                if low <= value <= high:
                    constants[constant] = value
                else:
                    failed = f"{constant} came out as {value:.3g}, which is not between {low:g} and {high:g}"
        except Exception as e:  # whatever a driver raises: the other steps need not suffer
            constants, failed = {}, (str(e).strip().splitlines() or [type(e).__name__])[0]
        finally:
            b.forget()
        measured: dict[str, Any] = dict(constants)  # as it came: rounding would add up
        b.gpu = replace(b.gpu, **measured)
        yield Step(name, constants, failed, time.perf_counter() - begin)
