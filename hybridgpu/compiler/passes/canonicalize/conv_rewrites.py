# SPDX-License-Identifier: Apache-2.0
"""Convolution rewrites: without taps that meet padding alone, and with operand and kernel swapped where that is less work.

A product with a convolution's own zeros is no part of its result here, whatever the weight holds there (an
infinity, too). The derivative of a convolution by its operand is where such kernels come from: a kernel as
wide as the image makes it one element an image under a kernel of many taps, padded by all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...ir.graph import Builder, Node

__all__ = ["cancel_reversal", "swap_operands", "trim_kernel"]

_MIN_KERNEL_RATIO = 4  #: times more taps than elements from which an exchange pays: it transposes the result


def _live_taps(extent: int, taps: int, out: int, stride: int, low: int, dilate: int) -> range:
    """The taps from the first to the last one that meets an element (or a zero between two) at some result."""
    first = max(0, -(-(low - (out - 1) * stride) // dilate))
    last = min(taps - 1, (low + extent - 1) // dilate)
    return range(first, last + 1)


def trim_kernel(b: Builder, node: Node, inputs: Sequence[Node]) -> Node | None:
    """Trim the ends of a kernel that only ever meet padding, as most of 3 x 3 does on a single pixel."""
    (x, w), p = inputs, node.params
    spans = [(d - 1) * base + 1 for d, base in zip(x.shape[2:], p["base_dilate"], strict=True)]
    columns = (spans, w.shape[2:], node.shape[2:], p["stride"], p["low"], p["dilate"])
    live = [_live_taps(*c) for c in zip(*columns, strict=True)]
    if any(not k for k in live):
        return b.full(node.shape, 0, node.dtype)
    if all(len(k) == taps for k, taps in zip(live, w.shape[2:], strict=True)):
        return None
    low = tuple(lo - k.start * d for lo, k, d in zip(p["low"], live, p["dilate"], strict=True))
    high = tuple(
        hi - (taps - k.stop) * d for hi, taps, k, d in zip(p["high"], w.shape[2:], live, p["dilate"], strict=True)
    )
    part = b.slice(w, (0, 0, *(k.start for k in live)), (*w.shape[:2], *(k.stop for k in live)))
    return b.conv(x, part, **{**p, "low": low, "high": high})


def swap_operands(b: Builder, node: Node, inputs: Sequence[Node]) -> Node | None:
    """Swap a kernel of far more taps than its operand has elements with the operand, which slides over the kernel then.

    With both reversed, sample and output channel change places, and so do the two dilations.
    """
    (x, w), p = inputs, node.params
    if prod(w.shape[2:]) < _MIN_KERNEL_RATIO * prod(x.shape[2:]):
        return None
    groups = p["groups"]
    low, high = [], []
    for d, k, s, stride, lo, dilate, base in zip(
        x.shape[2:], w.shape[2:], node.shape[2:], p["stride"], p["low"], p["dilate"], p["base_dilate"], strict=True
    ):
        operand, kernel = (d - 1) * base + 1, (k - 1) * dilate + 1
        low.append(lo + operand - kernel)
        high.append((s - 1) * stride - lo)
    y = b.conv(
        _groups_inside(b, _reverse_spatial(b, w), groups),
        _groups_outside(b, _reverse_spatial(b, x), groups),
        stride=p["stride"],
        low=tuple(low),
        high=tuple(high),
        dilate=p["base_dilate"],
        base_dilate=p["dilate"],
        groups=groups,
    )
    if groups == 1:
        return b.transpose(y, (1, 0, *range(2, y.ndim)))
    o, _, *result = y.shape
    y = b.reshape(y, (o, groups, x.shape[0], *result))
    return b.reshape(b.transpose(y, (2, 1, 0, *range(3, y.ndim))), node.shape)


def cancel_reversal(b: Builder, node: Node, inputs: Sequence[Node]) -> Node | None:
    """A result that is wanted reversed, of operands that are: all three as they lie, with the pads at the other ends."""
    conv, axes, perm = inputs[0], node.params["axes"], None
    if conv.prim.name == "transpose":
        perm = conv.params["perm"]
        conv, axes = conv.inputs[0], tuple(perm[a] for a in axes)
    if conv.prim.name != "conv" or not all(_is_reversed(i, a) for i in conv.inputs for a in axes):
        return None
    (x, w), p = (_without_reversal(b, i, axes) for i in conv.inputs), conv.params
    low, high = list(p["low"]), list(p["high"])
    for a in axes:
        k = a - 2
        operand, kernel = (x.shape[a] - 1) * p["base_dilate"][k] + 1, (w.shape[a] - 1) * p["dilate"][k] + 1
        # what is left over behind the last result is cut off
        low[k], high[k] = (conv.shape[a] - 1) * p["stride"][k] + kernel - operand - p["low"][k], p["low"][k]
    y = b.conv(x, w, **{**p, "low": tuple(low), "high": tuple(high)})
    return y if perm is None else b.transpose(y, perm)


def _is_reversed(x: Node, axis: int) -> bool:
    return axis >= 2 and (x.shape[axis] == 1 or (x.prim.name == "reverse" and axis in x.params["axes"]))


def _without_reversal(b: Builder, x: Node, axes: Sequence[int]) -> Node:
    if x.prim.name != "reverse":
        return x
    rest = tuple(a for a in x.params["axes"] if a not in axes)
    return b.reverse(x.inputs[0], axes=rest) if rest else x.inputs[0]


def _reverse_spatial(b: Builder, x: Node) -> Node:
    axes = tuple(a for a in range(2, x.ndim) if x.shape[a] > 1)
    return b.reverse(x, axes=axes) if axes else x


def _groups_inside(b: Builder, w: Node, groups: int) -> Node:
    """(groups * O, C, *K) -> (O, groups * C, *K)."""
    if groups == 1:
        return w
    o, c, *k = w.shape
    w = b.transpose(b.reshape(w, (groups, o // groups, c, *k)), (1, 0, *range(2, w.ndim + 1)))
    return b.reshape(w, (o // groups, groups * c, *k))


def _groups_outside(b: Builder, x: Node, groups: int) -> Node:
    """(N, groups * C, *D) -> (groups * N, C, *D)."""
    if groups == 1:
        return x
    n, c, *d = x.shape
    x = b.transpose(b.reshape(x, (n, groups, c // groups, *d)), (1, 0, *range(2, x.ndim + 1)))
    return b.reshape(x, (groups * n, c // groups, *d))
