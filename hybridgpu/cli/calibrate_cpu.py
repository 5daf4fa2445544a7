# SPDX-License-Identifier: Apache-2.0
"""Micro-benchmarks of a processor, on one core: copies in each level of memory, arithmetic, one more kernel."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..compiler.target import CPU

__all__ = ["STEPS", "Step", "measure"]

_ROUNDS = range(5, 2000)  #: at least and at most, as often as there is time for
_OPERATIONS = 32  #: of an element of the arithmetic kernel
_KERNELS = 32  #: of the program that starts many
Seconds = Callable[..., list[float]]


class Step(NamedTuple):
    """What a step came to: constants as measured, or why there are none; ``seconds`` that it took."""

    name: str
    found: dict[str, float]
    failed: str
    seconds: float


def _least(seconds: float, *runs: Callable[[], Any]) -> list[float]:
    """The least seconds of each, in turns."""
    for run in runs:
        run()
    best = [float("inf")] * len(runs)
    end = time.perf_counter() + seconds
    for k in range(_ROUNDS.stop):
        for j, run in enumerate(runs):
            begin = time.perf_counter()
            run()
            best[j] = min(best[j], time.perf_counter() - begin)
        if k + 1 >= _ROUNDS.start and time.perf_counter() > end:
            break
    return best


def _copies(seconds: float) -> dict[str, float]:
    """Bytes read and written by NumPy's copies, of arrays that lie in a level together."""
    device: Any = CPU.device
    measured = {}
    sizes = {
        "l2_byte_seconds": device.l2_bytes // 4,
        "l3_byte_seconds": device.l3_bytes // 4,
        "byte_seconds": 128 << 20,
    }
    for name, nbytes in sizes.items():
        source, target = np.zeros(nbytes, np.uint8), np.zeros(nbytes, np.uint8)
        times = max(1, (4 << 20) // nbytes)

        def several(source: Any, target: Any, times: int) -> None:
            for _ in range(times):
                np.copyto(target, source)

        (one,) = _least(seconds / len(sizes), partial(several, source, target, times))
        measured[name] = one / times / (2 * nbytes)
    return measured


def _arithmetic(seconds: float) -> dict[str, float]:
    """A kernel of so many operations an element, at two sizes that stay in the second-level cache."""
    runs = [_program(n, _OPERATIONS) for n in (16_384, 65_536)]
    few, many = _least(seconds, *runs)
    return {"op_seconds": _difference(few, many) / ((65_536 - 16_384) * _OPERATIONS)}


def _launches(seconds: float) -> dict[str, float]:
    """The same operations of a few elements in one kernel, and in many."""
    one, many = _program(16, _KERNELS), _program(16, _KERNELS, max_nodes=2)
    whole, apart = _least(seconds, one, many)
    more = len(many.func.program.steps) - len(one.func.program.steps)
    return {"launch_seconds": _difference(whole, apart) / more}


def _difference(less: float, more: float) -> float:
    if more <= less:
        raise RuntimeError("more took no longer")
    return more - less


def _program(elements: int, operations: int, **limits: int) -> Any:
    """Calls of a program of elementwise operations, none of which can be left out."""
    from ..backends.cpu.backend import cpu_backend
    from ..compiler.ir.types import tensor_type
    from ..compiler.pipeline import compile_graph
    from ..compiler.primitives import builder
    from ..core.dtypes import f32

    backend = cpu_backend()
    if backend is None:
        raise RuntimeError("there is no C++ compiler")
    b = builder()
    x = b.input(tensor_type((elements,), f32), "x")
    y = x
    for k in range(operations // 2):
        y = b.max(y * (0.5 + k / 64), x)
    program = compile_graph(b.finish([y], "calibrate"), CPU.changed(**limits))
    loaded: Any = backend.load(program)
    inputs, outputs = [np.linspace(0, 1, elements, dtype=np.float32)], [np.empty(elements, np.float32)]
    return partial(loaded, inputs, outputs)


STEPS: dict[str, Callable[[float], dict[str, float]]] = {
    "copies": _copies,
    "arithmetic": _arithmetic,
    "launches": _launches,
}


def measure(seconds: float, on_step: Callable[[str], None] = lambda step: None) -> Iterator[Step]:
    """Run all steps, each for so many seconds; ``said`` is told each before it begins."""
    for name, step in STEPS.items():
        on_step(name)
        begin = time.perf_counter()
        try:
            constants, failed = step(seconds), ""
        except Exception as e:  # the other steps need not suffer
            constants, failed = {}, (str(e).strip().splitlines() or [type(e).__name__])[0]
        yield Step(name, constants, failed, time.perf_counter() - begin)
