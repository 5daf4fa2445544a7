# SPDX-License-Identifier: Apache-2.0
"""Input-dilated convolutions on the CPU: transposed ones, and derivatives of strided ones by their operand.

Results a base dilation apart are a *phase*: a plain convolution with those taps that meet elements rather than the
zeros between them. The loops are in ``kernels/conv_input_dilated_cpu.h``.
"""

from __future__ import annotations

from math import prod
from typing import ClassVar

from ....core.dataclass import dataclass
from ...ir.dims import cached_by_extents
from ...ir.graph import Node
from ...target import Target
from ..blocks import Line
from ..choice import Choice
from ..kernel import Kernel
from ..scalar import ScalarProgram
from .bands import BAND_BYTES, BAND_PIXELS, MAX_COPY_BYTES, ConvShape, even_part, utilization
from .direct import convolution, epilogue_lines
from .fields import ConvFields

__all__ = ["phases_of", "schedule_input_dilated_conv"]

_MAX_TAPS = 512  #: elements of a channel's kernel, whose positions are constants in the text
_MAX_PHASES = 16  #: phases, each of which has loops of its own


@dataclass(frozen=True)
class Phases:
    """Numbers of a shape for the kernel; see kernels/conv_input_dilated_cpu.h."""

    phase: tuple[int, int]  #: results of a phase
    rows: int
    origin: tuple[int, int]
    copied: tuple[int, int]
    starts: tuple[int, ...]
    taps: tuple[int, ...]
    weight_indices: tuple[int, ...]  #: numbers of the taps' weights


@dataclass(frozen=True, kw_only=True)
class InputDilatedFields(ConvFields):
    """An input-dilated convolution on the CPU.

    Attributes:
        phases: what the kernel's loops know besides.
        epilogue: what follows for a row.
    """

    template: ClassVar[str] = "cpu/conv_input_dilated.j2"
    phases: Phases
    epilogue: list[Line]


def _offsets(kernel: int, base: int, dilate: int, low: int) -> list[list[tuple[int, int]]]:
    """For each phase along an axis its taps: (number, place from the operand's element of the same number on)."""
    return [
        [(k, (r + k * dilate - low) // base) for k in range(kernel) if (r + k * dilate - low) % base == 0]
        for r in range(base)
    ]


@cached_by_extents(1024)
def phases_of(s: ConvShape, itemsize: int) -> Phases | None:
    """The phases of a convolution, None if it is not spread, or too large."""
    if prod(s.base) == 1 or prod(s.stride) > 1 or s.size[0] > 1 or s.kernel[0] > 1 or s.base[0] > 1 or s.result[0] > 1:
        return None
    if prod(s.kernel) > _MAX_TAPS or prod(s.base) > _MAX_PHASES or s.result[2] > BAND_PIXELS:
        return None
    height, width = (_offsets(s.kernel[a], s.base[a], s.dilate[a], s.low[a]) for a in (1, 2))
    reached = [[place for taps in phases for _, place in taps] for phases in (height, width)]
    top, left = (min(places) for places in reached)
    more = [max(places) - min(places) for places in reached]
    count = (-(-s.result[1] // s.base[1]), -(-s.result[2] // s.base[2]))
    pitch = count[1] + more[1]
    line = s.inputs * pitch * itemsize
    rows = even_part(count[0], min(count[0], BAND_BYTES // line - more[0], BAND_PIXELS // pitch))
    if line * (rows + more[0]) > MAX_COPY_BYTES:
        return None
    starts, taps, at = [0], [], []
    for down in height:
        for across in width:
            for i, y in down:
                for j, x in across:
                    taps.append((y - top) * pitch + x - left)
                    at.append(i * s.kernel[2] + j)
            starts.append(len(taps))
    return Phases(count, rows, (top, left), (rows + more[0], pitch), tuple(starts), tuple(taps), tuple(at))


def schedule_input_dilated_conv(program: ScalarProgram, conv: Node, target: Target, members: list[Node]) -> Kernel:
    """The kernel of a group around ``conv``; ``program.vars`` are the result's axes above extent 1."""
    c = convolution(program, conv, target, members, {}, ())
    shape, phases = c.shape, phases_of(c.shape, conv.dtype.size)
    assert phases is not None
    use = utilization(phases.rows, phases.phase[1], phases.copied[1])
    return c.kernel(
        InputDilatedFields(
            **vars(c.fields),
            phases=phases,
            epilogue=epilogue_lines(c.fields.product, c.axes[-1].name, shape.result[2], c.once, c.each),
        ),
        Choice({"phases": prod(shape.base), "rows": phases.rows, "utilization": round(use, 2)}),
        (c.axes[0].extent * shape.groups * -(-phases.phase[0] // phases.rows),),
        "conv_input_dilated_cpu.h",
        compile_cost=8,
        chunk_multiple=1,
    )
