# SPDX-License-Identifier: Apache-2.0
"""Derivatives of convolutions by their weight: when a generated kernel of the CPU is worth it, and with which numbers.

Such a derivative is a convolution with a kernel as large as the image: many terms a result, few results. Its operands
are views with batch and channels exchanged, which the kernel reads where they lie. Of both, one is *still*: each of its
elements is used at its own position, and vectors run along its channels. The other *moves* from tap to tap. The still
one is the convolution's kernel (the cotangent), except where the operand is spread by a base dilation (a transposed
convolution): then they change places, for what moves must be dense.

The loops are in ``kernels/conv_weights_cpu.h``; the batch is a run-time argument.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from math import prod
from typing import Any

from ....dataclass import dataclass
from ....dtypes import DType, f32
from ...devices.cpu import CpuConstants
from ...ir.graph import Node, Params
from ...target import Target
from ..in_place import at_points
from ..kernel import Kernel, Writer, headers, summary, traffic
from ..scalar import ScalarProgram
from .direct import band_of, epilogue, shape_of
from .operand_layout import PlaneLayout, planes_of

__all__ = ["Weights", "schedule_conv_weights", "wants_weights_kernel", "weights_of", "why_unfolded"]

_BYTES = CpuConstants.vector_bytes  #: of the vectors that estimates are made for
_COPY = 128 << 10  #: bytes of what the taps of some positions of one channel read, at most: see conv_weights_cpu.h
_TAPS = 512  #: sums of one channel, at most


@dataclass(frozen=True)
class Weights:
    """``y[m, s, k] = sum over n, p of still[n, s, p] * moved[n, m, p * step + k * move + start]`` in every group.

    There are exactly three spatial axes, leading ones of extent 1; ``still`` and ``moved`` are channels of a group.
    """

    groups: int
    moved: int
    still: int
    size: tuple[int, ...]  #: plane of the moved operand
    positions: tuple[int, ...]
    taps: tuple[int, ...]
    step: tuple[int, ...]
    move: tuple[int, ...]
    start: tuple[int, ...]
    exchanged: bool  #: the still operand is the convolution's own operand

    def turned(self, reversed: Sequence[int]) -> Weights:
        """The same where both operands are counted from their ends along some axes: then taps move backwards."""
        columns = zip(reversed, self.size, self.positions, self.step, self.move, self.start, strict=True)
        places = [
            (-move, d - 1 - (p - 1) * step - start) if turn else (move, start)
            for turn, d, p, step, move, start in columns
        ]
        return replace(self, move=tuple(m for m, _ in places), start=tuple(s for _, s in places))

    @property
    def reach(self) -> list[tuple[int, int]]:
        """The first and the last place a tap gets to, along each axis."""
        columns = zip(self.positions, self.taps, self.step, self.move, self.start, strict=True)
        return [
            (start + min(0, (k - 1) * move), start + (p - 1) * step + max(0, (k - 1) * move))
            for p, k, step, move, start in columns
        ]

    @property
    def inside(self) -> bool:
        """Whether no tap leaves the plane of the moved operand."""
        return all(low >= 0 and high < d for (low, high), d in zip(self.reach, self.size, strict=True))

    @property
    def across(self) -> bool:
        """Whether vectors run along the groups, rather than along the channels of one."""
        return self.groups > 1 and 2 * self.still * _vectors(self.groups) <= self.groups * _vectors(self.still)


def _vectors(channels: int) -> int:
    return -(-channels * 4 // _BYTES)


@lru_cache(maxsize=1024)
def _weights(
    x: tuple[int, ...],
    w: tuple[int, ...],
    out: tuple[int, ...],
    params: tuple[tuple[str, Any], ...],
    reversed: tuple[bool, ...],
) -> Weights | str:
    """The form of a convolution of such shapes, or why it has none."""
    p = dict(params)
    rank, groups = len(x) - 2, p["groups"]
    if rank > 3:
        return "more than three spatial axes"

    def three(values: Sequence[int], missing: int) -> tuple[int, ...]:
        return (missing,) * (3 - rank) + tuple(values)

    low, dilate = three(p["low"], 0), three(p["dilate"], 1)
    stride, base = three(p["stride"], 1), three(p["base_dilate"], 1)
    taps = three(out[2:], 1)
    size, kernel = three(x[2:], 1), three(w[2:], 1)
    plain = Weights(
        groups, x[0], w[0] // groups, size, kernel, taps, dilate, stride, tuple(-v for v in low), exchanged=False
    ).turned(three(reversed, 0))
    turned = Weights(
        groups, w[0] // groups, x[0], kernel, size, taps, base, tuple(-v for v in stride), low, exchanged=True
    ).turned(three(reversed, 0))
    if max(base) > 1:
        return turned if max(dilate) == 1 else "both operands are spread"
    # taps that leave the plane meet zeros, which are no factor of elements that the definition leaves out
    better = _vectors(turned.still) * turned.moved < _vectors(plain.still) * plain.moved
    return turned if max(dilate) == 1 and turned.inside and better else plain


def weights_of(
    x: tuple[int, ...], w: tuple[int, ...], out: tuple[int, ...], params: Params, reversed: tuple[bool, ...]
) -> Weights | str:
    """The form of a convolution of such shapes as the derivative of another by its weight, or why it has none.

    Both operands lie in memory from the end to the start along the axes that are ``reversed``.
    """
    named = ("stride", "low", "dilate", "base_dilate")
    return _weights(x, w, out, (*((k, tuple(params[k])) for k in named), ("groups", params["groups"])), reversed)


def _refused(s: Weights | str, dtype: DType) -> str:
    """Why no kernel is generated, empty if one is."""
    if isinstance(s, str):
        return s
    if not dtype.is_float:
        return "no floating point numbers"
    if prod(s.taps) > _TAPS:
        return f"{prod(s.taps)} sums of a channel, more than {_TAPS}"
    lanes = _BYTES // 4 if s.across else 1
    columns = min(s.positions[2], 128)
    rows = max(1, min(s.positions[1], 128 // s.positions[2]))
    copied = 4 * lanes * s.taps[0]
    for count, k, step, move in zip((rows, columns), s.taps[1:], s.step[1:], s.move[1:], strict=True):
        copied *= (count - 1) * step + (k - 1) * abs(move) + 1
    if copied * (2 if dtype.size == 8 and not s.across else 1) > _COPY:
        return f"taps so far apart that they read {copied:,} bytes a channel at once"
    return ""


def _form(conv: Node) -> tuple[Weights, PlaneLayout, PlaneLayout] | None:
    """The form of a convolution and the planes of its operand and its kernel, if it is the derivative of another one."""
    groups, (x, w) = conv.params["groups"], conv.inputs
    planes = planes_of(x, groups, True), planes_of(w, groups, False)
    if planes[0] is None or planes[1] is None:
        return None
    outside = [p.samples_outside for p in planes if p is not None]
    if False in outside or (True not in outside and prod(w.shape[2:]) <= conv.size // prod(conv.shape[:2])):
        return None  # a convolution as it was written
    turned = []
    for a, b, m, n in zip(planes[0].reversed, planes[1].reversed, x.shape[2:], w.shape[2:], strict=True):
        if m > 1 and n > 1 and a != b:
            return None
        turned.append(a or b)
    form = weights_of(x.shape, w.shape, conv.shape, conv.params, tuple(turned))
    return None if isinstance(form, str) or _refused(form, conv.dtype) else (form, *planes)  # type: ignore[return-value]


def wants_weights_kernel(target: Target, node: Node) -> bool:
    """True if ``node`` is the derivative of a convolution by its weight that a generated kernel computes best."""
    if target.name != "cpu" or node.prim.name != "conv" or node.size == 0:
        return False
    return _form(node) is not None


def why_unfolded(target: Target, node: Node) -> str:
    """Why the CPU unfolds a convolution for BLAS; empty for anything else."""
    if target.name != "cpu" or node.prim.name != "conv":
        return ""
    x, w = node.inputs
    shape = shape_of(node)
    reason = ""
    if prod(w.shape[2:]) > node.size // max(1, prod(node.shape[:2])):
        form = weights_of(x.shape, w.shape, node.shape, node.params, (False,) * (node.ndim - 2))
        reason = form if isinstance(form, str) else _refused(form, node.dtype)
    band = None if shape is None else band_of(shape, max(node.dtype.size, f32.size))  # halves would be widened
    if reason:
        pass
    elif shape is None:
        reason = "more than three spatial axes"
    elif band is None:
        reason = "no band of rows fits the cache"
    else:
        reason = f"{band.use / prod(shape.base):.0%} of what a kernel computes would count"
    return f"unfolded for BLAS: {reason}"


def schedule_conv_weights(program: ScalarProgram, conv: Node, target: Target, members: list[Node]) -> Kernel:
    """The kernel of a group around ``conv``; ``program.vars`` are the result's axes above extent 1."""
    form = _form(conv)
    assert form is not None and program.result is not None
    shape, *planes = form
    writer = Writer(target, program)
    outputs = [s.node for s in program.stores]
    found = [replace(p, pointer=writer.pointers.setdefault(p.node, f"x{len(writer.pointers)}")) for p in planes]
    moved_planes, still_planes = found[::-1] if shape.exchanged else found
    axes, once, each = epilogue(program, conv, writer)
    read, written = traffic(program, list(dict.fromkeys(p.node for p in found)))
    half = conv.dtype.is_half
    fields: dict[str, Any] = {
        "pointers": writer.pointer_list(outputs),
        "shape": shape,
        "still": still_planes,
        "moved": moved_planes,
        "direct": str(shape.inside and not shape.across and not half).lower(),
        "across": str(shape.across).lower(),
        "axes": [v.name for v in axes],
        # of the result (channels of the operand, channels of the kernel): which of both are those that move
        "first": "s" if shape.exchanged else "m",
        "second": f"group * {shape.moved} + m" if shape.exchanged else f"group * {shape.still} + s",
        "once": once,
        "each": each,
        "product": (conv.dtype.compute, writer.names[program.result]),
    }
    return Kernel(
        numbers=writer.numbers,
        kind="conv",
        effort=3,
        template=f"{target.name}/conv_weights.j2",
        summary=summary(members),
        fields=fields,
        inputs=writer.inputs,
        outputs=outputs,
        extents=(conv.inputs[1].shape[1],),
        headers=(*headers(program), "conv_weights_cpu.h"),
        members=members,
        choice=_chosen(shape, fields["direct"] == "false"),
        bytes_read=read,
        bytes_written=written,
        in_place=at_points(program, [p.node for p in found]),
    )


def _chosen(shape: Weights, copies: bool) -> dict[str, Any]:
    """The numbers, and why in words."""
    along, extent = ("groups", shape.groups) if shape.across else ("channels", shape.still)
    return {
        "along": along,
        "copies": copies,
        "exchanged": shape.exchanged,
        "why": f"derivative by a weight, vectors along {extent:,} {along}",
    }
