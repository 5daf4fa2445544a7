# SPDX-License-Identifier: Apache-2.0
"""The CPU's translation units: all kernels of a program and one entry function a segment.

A segment is a run of kernels without a library call in between. Its entry takes the arena, a table
of numbers (extents and arena offsets, so that the text does not depend on the batch size), the
addresses of the inputs that never move, and one pointer for every other argument and result (where
these are hundreds, the address of an array of pointers).

Few kernels make one unit with their entries. Many are dealt out to several units, which a compiler
can be given at the same time; then the entries are the last unit.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from ...dtypes import from_short
from ..program import Buffer, KernelInfo, KernelStep, Program
from .render import includes, render

__all__ = ["END_OF_UNIT", "cpu_source"]

END_OF_UNIT = "\f\n"  #: between units; a blank of C++, so that the whole text is a unit as well
_TOGETHER = 12  #: kernels of a unit: parsing the headers again costs as much as compiling one
_TYPES = ("half.h",)  #: headers of element types, which declarations spell


def cpu_source(program: Program) -> None:
    """Fill in ``source``, ``segments`` and ``table`` of a CPU program."""
    program.segments = _segments(program)
    entries = []
    for begin, end in program.segments:
        calls = []
        for step in program.steps[begin:end]:
            assert isinstance(step, KernelStep)
            kernel = program.kernels[step.kernel]
            arguments = [_argument(program, b) for b in step.buffers]
            arguments += ["0", *(_number(program, "extent", n) for n in step.extents)]
            calls.append((kernel.name, arguments))
        entries.append(calls)
    if program.packed:
        parameters = ["char* const* p"]
    else:
        passed = dict.fromkeys(f"{b.place}{b.index}" for b in program.buffers if _is_passed(program, b))
        parameters = [f"char* {name}" for name in passed]  # a result's memory may hold others before, under its name

    def unit(
        kernels: Sequence[KernelInfo], declarations: Sequence[str], entries: Sequence[object], shared: bool
    ) -> str:
        needed = includes(k.headers for k in program.kernels)
        return render(
            "cpu/program.j2",
            headers=includes(k.headers for k in kernels) if kernels else [h for h in needed if h in _TYPES],
            kernels=[k.text for k in kernels],
            declarations=declarations,
            parameters=parameters,
            entries=entries,
            shared=shared,
        )

    count = -(-len(program.kernels) // _TOGETHER)
    if count <= 1:
        program.source = unit(program.kernels, (), entries, False)
        return
    # neighbours are of a kind, and cost alike: every unit gets some of each
    units = [unit(program.kernels[k::count], (), (), True) for k in range(count)]
    units.append(unit((), [_declaration(k) for k in program.kernels], entries, True))
    program.source = END_OF_UNIT.join(units)


def _declaration(kernel: KernelInfo) -> str:
    """The head of the kernel's function, as templates/cpu write it."""
    (head,) = (line for line in kernel.text.splitlines() if line.startswith("HG_KERNEL "))
    return head.removesuffix(" {")


def _segments(program: Program) -> list[tuple[int, int]]:
    segments: list[tuple[int, int]] = []
    start = None
    for k, step in enumerate(program.steps):
        if isinstance(step, KernelStep):
            start = k if start is None else start
        elif start is not None:
            segments.append((start, k))
            start = None
    if start is not None:
        segments.append((start, len(program.steps)))
    return segments


def _number(program: Program, kind: str, value: int) -> str:
    program.table.append((kind, value))
    return f"e[{len(program.table) - 1}]"


def _is_passed(program: Program, b: Buffer) -> bool:
    """True for what every call passes: inputs that may move, and outputs."""
    return b.place == "output" or (b.place == "input" and b.index not in program.fixed)


def _argument(program: Program, buffer: int) -> str:
    b = program.buffers[buffer]
    storage = from_short(b.dtype).storage
    if b.place == "arena":
        return f"({storage}*)(arena + {_number(program, 'offset', b.index)})"
    if _is_passed(program, b):
        return f"({storage}*){_pointer(program, b)}"
    return f"({storage}*)w[{program.fixed.index(b.index)}]"


def _pointer(program: Program, b: Buffer) -> str:
    if not program.packed:
        return f"{b.place}{b.index}"
    if b.place == "input":
        return f"p[{b.index - bisect_left(program.fixed, b.index)}]"
    return f"p[{len(program.inputs) - len(program.fixed) + b.index}]"
