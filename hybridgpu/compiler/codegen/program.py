# SPDX-License-Identifier: Apache-2.0
"""The CPU's translation unit: all kernels of a program and one entry function a segment.

A segment is a run of kernels without a library call in between. Its entry takes the arena, a table
of numbers (extents and arena offsets, so that the text does not depend on the batch size), the
addresses of the inputs that never move, and one pointer for every other argument and result.
"""

from __future__ import annotations

from ...dtypes import from_short
from ..program import Buffer, KernelStep, Program
from .render import includes, render

__all__ = ["cpu_source"]


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
            arguments += ["0", _number(program, "extent", step.extents[0])]
            calls.append((kernel.name, arguments))
        entries.append(calls)
    program.source = render(
        "cpu/program.j2",
        headers=includes(k.headers for k in program.kernels),
        kernels=[k.text for k in program.kernels],
        parameters=[f"char* {b.place}{b.index}" for b in program.buffers if _is_passed(program, b)],
        entries=entries,
    )


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
        return f"({storage}*){b.place}{b.index}"
    return f"({storage}*)w[{program.fixed.index(b.index)}]"
