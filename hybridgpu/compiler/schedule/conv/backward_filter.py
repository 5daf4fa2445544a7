# SPDX-License-Identifier: Apache-2.0
"""Convolution backward filter on the CPU: when a kernel can be generated, and with which numbers.

Such a derivative is a convolution with a kernel as large as the image: many terms a result, few results. Its operands
are views with batch and channels exchanged, which the kernel reads where they lie. Of both, one is *stationary*: each of its
elements is used at its own position, and vectors run along its channels. The other is *shifted* from tap to tap. The stationary
one is the convolution's kernel (the cotangent), except where the operand is spread by a base dilation (a transposed
convolution): then they change places, for what is shifted must be dense.

The loops are in ``kernels/conv_backward_filter_cpu.h``; the batch is a run-time argument.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import ClassVar

from ....core.dataclass import dataclass
from ....core.dtypes import DType
from ...devices.cpu import CpuConstants
from ...ir.dims import cached_by_extents
from ...ir.graph import Node
from ...primitives.packed_weight import packed_weight
from ...target import Target
from ..blocks import Line
from ..choice import Choice
from ..in_place import in_place_pairs
from ..kernel import CWriter, Kernel, TemplateFields
from ..program_kernel import kernel_of_program
from ..scalar import ScalarProgram
from .bands import ConvShape, shape_of
from .direct import epilogue_lines, epilogue_statements
from .operand_layout import PlaneLayout, plane_layout

__all__ = [
    "FilterGradient",
    "filter_gradient",
    "filter_gradient_of",
    "schedule_conv_backward_filter",
    "why_no_kernel",
]

_BYTES = CpuConstants.vector_bytes  #: of the vectors that estimates are made for
_MAX_COPY_BYTES = (
    128 << 10
)  #: bytes of what the taps of some positions of one channel read, at most: see conv_backward_filter_cpu.h
_UNITS = 64  #: shares of the results, for as many threads; where there are fewer blocks of them, some are empty
_MAX_TAPS = 512  #: sums of one channel, at most


@dataclass(frozen=True)
class FilterGradient:
    """``y[m, s, k] = sum over n, p of stationary[n, s, p] * shifted[n, m, p * step + k * move + start]`` in every group.

    There are exactly three spatial axes, leading ones of extent 1; ``stationary`` and ``shifted`` are channels of a group.
    """

    groups: int
    shifted: int
    stationary: int
    size: tuple[int, ...]  #: plane of the moved operand
    positions: tuple[int, ...]
    taps: tuple[int, ...]
    step: tuple[int, ...]
    move: tuple[int, ...]
    start: tuple[int, ...]
    swapped: bool  #: the still operand is the convolution's own operand

    def flipped(self, reversed: Sequence[int]) -> FilterGradient:
        """The same where both operands are counted from their ends along some axes: then taps move backwards."""
        columns = zip(reversed, self.size, self.positions, self.step, self.move, self.start, strict=True)
        places = [
            (-move, d - 1 - (p - 1) * step - start) if turn else (move, start)
            for turn, d, p, step, move, start in columns
        ]
        return replace(self, move=tuple(m for m, _ in places), start=tuple(s for _, s in places))

    @property
    def footprint(self) -> list[tuple[int, int]]:
        """The first and the last place a tap gets to, along each axis."""
        columns = zip(self.positions, self.taps, self.step, self.move, self.start, strict=True)
        return [
            (start + min(0, (k - 1) * move), start + (p - 1) * step + max(0, (k - 1) * move))
            for p, k, step, move, start in columns
        ]

    @property
    def in_bounds(self) -> bool:
        """Whether no tap leaves the plane of the moved operand."""
        return all(low >= 0 and high < d for (low, high), d in zip(self.footprint, self.size, strict=True))

    @property
    def across_groups(self) -> bool:
        """Whether vectors run along the groups, rather than along the channels of one."""
        return self.groups > 1 and 2 * self.stationary * _vectors(self.groups) <= self.groups * _vectors(
            self.stationary
        )


@dataclass(frozen=True, kw_only=True)
class FilterGradientFields(TemplateFields):
    """A convolution's derivative by its weight on the CPU.

    Attributes:
        shape: what the loops know.
        stationary, shifted: how the operands lie.
        direct, across_groups: C text of flags: no operand is copied; vectors run along the groups.
        axes: variables of the result.
        first, second: C text of the first two of them.
        compute: type of an element of the convolution.
        epilogue: what follows for a row of taps.
        units: shares of the results.
    """

    template: ClassVar[str] = "cpu/conv_backward_filter.j2"
    shape: FilterGradient
    stationary: PlaneLayout
    shifted: PlaneLayout
    direct: str
    across_groups: str
    axes: list[str]
    first: str
    second: str
    compute: str
    epilogue: list[Line]
    units: int


def _vectors(channels: int) -> int:
    return -(-channels * 4 // _BYTES)


@cached_by_extents(1024)
def filter_gradient(s: ConvShape | None, backwards: tuple[bool, ...]) -> FilterGradient | str:
    """The form of a convolution as the derivative of another by its weight, or why it has none.

    Args:
        backwards: for each spatial axis, or for none, whether both operands lie in memory from the end to the start along it.
    """
    if s is None:
        return "more than three spatial axes"
    flips = (False,) * (3 - len(backwards)) + backwards
    back, start = tuple(-v for v in s.stride), tuple(-v for v in s.low)
    plain = FilterGradient(
        s.groups, s.batch, s.outputs, s.size, s.kernel, s.result, s.dilate, s.stride, start, swapped=False
    ).flipped(flips)
    turned = FilterGradient(
        s.groups, s.outputs, s.batch, s.kernel, s.size, s.result, s.base, back, s.low, swapped=True
    ).flipped(flips)
    if max(s.base) > 1:
        return turned if max(s.dilate) == 1 else "both operands are spread"
    # taps that leave the plane meet zeros, which are no factor of elements that the definition leaves out
    better = _vectors(turned.stationary) * turned.shifted < _vectors(plain.stationary) * plain.shifted
    return turned if max(s.dilate) == 1 and turned.in_bounds and better else plain


def why_no_kernel(s: FilterGradient | str, dtype: DType) -> str:
    """Why no kernel is generated, empty if one is."""
    if isinstance(s, str):
        return s
    if prod(s.taps) > _MAX_TAPS:
        return f"{prod(s.taps)} sums of a channel, more than {_MAX_TAPS}"
    lanes = _BYTES // 4 if s.across_groups else 1
    columns = min(s.positions[2], 128)
    rows = max(1, min(s.positions[1], 128 // s.positions[2]))
    copied = 4 * lanes * s.taps[0]
    for count, k, step, move in zip((rows, columns), s.taps[1:], s.step[1:], s.move[1:], strict=True):
        copied *= (count - 1) * step + (k - 1) * abs(move) + 1
    if copied * (2 if dtype.size == 8 and not s.across_groups else 1) > _MAX_COPY_BYTES:
        return f"taps so far apart that they read {copied:,} bytes a channel at once"
    return ""


def filter_gradient_of(conv: Node) -> tuple[FilterGradient, PlaneLayout, PlaneLayout] | None:
    """The form of a convolution and the planes of its operand and its kernel, if it is the derivative of another one."""
    groups, (x, w) = conv.params["groups"], conv.inputs
    planes = plane_layout(x, groups, True), plane_layout(w, groups, False)
    if planes[0] is None or planes[1] is None:
        return None
    outside = [p.samples_outside for p in planes if p is not None]
    if False in outside or (True not in outside and prod(w.shape[2:]) <= conv.size // prod(conv.shape[:2])):
        return None  # a convolution as it was written
    if outside[0] is not True and packed_weight(conv):
        return None  # one picture and blocks of windows of one element, which lie like a matrix that is transposed
    turned = []
    for a, b, m, n in zip(planes[0].reversed, planes[1].reversed, x.shape[2:], w.shape[2:], strict=True):
        if m > 1 and n > 1 and a != b:
            return None
        turned.append(a or b)
    form = filter_gradient(shape_of(conv), tuple(turned))
    return None if isinstance(form, str) or why_no_kernel(form, conv.dtype) else (form, *planes)  # type: ignore[return-value]


def schedule_conv_backward_filter(program: ScalarProgram, conv: Node, target: Target, members: list[Node]) -> Kernel:
    """The kernel of a group around ``conv``; ``program.vars`` are the result's axes above extent 1."""
    form = filter_gradient_of(conv)
    assert form is not None and program.contraction is not None
    shape, *planes = form
    writer = CWriter(target, program)
    with_pointers = [replace(p, pointer=writer.pointers.setdefault(p.node, f"x{len(writer.pointers)}")) for p in planes]
    moved_planes, still_planes = with_pointers[::-1] if shape.swapped else with_pointers
    axes, once, each = epilogue_statements(program, conv, writer)
    product = conv.dtype.compute, writer.names[program.contraction]
    half = conv.dtype.is_half
    copies = shape.across_groups or half or not shape.in_bounds
    fields = FilterGradientFields(
        pointers=writer.pointer_list([s.node for s in program.stores]),
        shape=shape,
        stationary=still_planes,
        shifted=moved_planes,
        direct=str(not copies).lower(),
        across_groups=str(shape.across_groups).lower(),
        axes=[v.name for v in axes],
        # of the result (channels of the operand, channels of the kernel): which of both are those that move
        first="s" if shape.swapped else "m",
        second=f"group * {shape.shifted} + m" if shape.swapped else f"group * {shape.stationary} + s",
        compute=product[0],
        epilogue=epilogue_lines(product, axes[-1].name, shape.taps[2], once, each),
        units=_UNITS,
    )
    writer.runtime_args.named("samples", conv.inputs[1].shape[1])
    whole = list(dict.fromkeys(p.node for p in with_pointers))
    return kernel_of_program(
        writer,
        "conv",
        members,
        fields,
        _choice(shape, copies),
        (_UNITS,),
        ["conv_backward_filter_cpu.h"],
        whole=whole,
        compile_cost=8,
        in_place=in_place_pairs(program, whole),
        chunk_multiple=1,
    )


def _choice(shape: FilterGradient, copies: bool) -> Choice:
    """The numbers, and why in words."""
    along, extent = ("groups", shape.groups) if shape.across_groups else ("channels", shape.stationary)
    return Choice({"along": along, "copies": copies, "swapped": shape.swapped}, why=f"vectors along {extent:,} {along}")
