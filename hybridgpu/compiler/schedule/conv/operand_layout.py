# SPDX-License-Identifier: Apache-2.0
"""Layout of a convolution's operands, where these are views with batch and channels swapped.

The derivative of a convolution by its weight is one of such views; kernels read them where they lie.
"""

from __future__ import annotations

from math import prod

from ....core.dataclass import dataclass
from ...ir.graph import Node
from ...ir.indexing import Var, linearize, of_var, view_operands
from ...primitives.views import PERMUTING_VIEWS

__all__ = ["PlaneLayout", "layout_of_copy", "plane_layout"]


@dataclass(frozen=True)
class PlaneLayout:
    """An operand: the node behind its views, of whole row-major planes, and how far samples, groups and channels
    of one are apart there (0 where there is one)."""

    node: Node
    sample: int
    group: int
    channel: int
    reversed: tuple[bool, ...]  #: along each spatial axis: its elements are counted from the end
    pointer: str = ""

    @property
    def samples_outside(self) -> bool | None:
        """Whether samples are further apart than channels; None if one of both has no distance."""
        inner = max(self.group, self.channel)
        return self.sample > inner if self.sample and inner else None


def layout_of_copy(operand: Node, groups: int, is_data: bool) -> PlaneLayout:
    """Their layout in a copy of the operand whose first two axes are swapped."""
    first, second, *spatial = operand.shape
    plane = prod(spatial)
    group = second // groups * first if is_data else first // groups
    samples, channels = (second // groups, first) if is_data else (second, first // groups)
    # (as planes_of has it, there is no way to the next of one)
    sample, channel = first * plane if samples > 1 else 0, plane if channels > 1 else 0
    return PlaneLayout(operand, sample, group * plane if groups > 1 else 0, channel, (False,) * len(spatial))


def plane_layout(operand: Node, groups: int, is_data: bool) -> PlaneLayout | None:
    """The layout of the planes of an operand of the convolution; None if its elements are not whole planes.

    ``is_data`` operands are (channel, group and sample, …), still ones (group and channel, sample, …).
    """
    first, second, *spatial = operand.shape
    group, plane = Var("group", groups), [Var(f"p{k}", d) for k, d in enumerate(spatial)]
    if is_data:
        channel, sample = Var("channel", first), Var("sample", second // groups)
        index = (of_var(channel), of_var(group) * sample.extent + of_var(sample), *map(of_var, plane))
    else:
        channel, sample = Var("channel", first // groups), Var("sample", second)
        index = (of_var(group) * channel.extent + of_var(channel), of_var(sample), *map(of_var, plane))
    node = operand
    while node.prim.name in PERMUTING_VIEWS:
        (part,) = view_operands(node, index)
        node, index = part.node, part.index
    offset = linearize(index, node.shape)
    if not offset.affine:
        return None
    step, start = 1, 0
    turned = []
    for v in reversed(plane):
        factor = offset.coefficient(v)
        if v.extent > 1 and abs(factor) != step:
            return None
        turned.append(factor < 0)
        start += step * (v.extent - 1) if factor < 0 else 0
        step *= v.extent
    if offset.const != start:
        return None
    apart = [offset.coefficient(v) for v in (sample, group, channel)]
    return PlaneLayout(node, apart[0], apart[1], apart[2], tuple(turned[::-1]))
