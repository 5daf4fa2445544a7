# SPDX-License-Identifier: Apache-2.0
"""Disjoint windows: the fold of windows that do not overlap is a view, since each element comes from one window.

The derivative of a pooling sums, for every element, what each place of a window gives to it. Where the stride is no
less than the window, one term of that sum is no zero by construction, and the sum is a view of the windows, which
fuses with what made them.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.graph import Builder, Node

__all__ = ["fold_as_view"]


def fold_as_view(b: Builder, node: Node, inputs: Sequence[Node]) -> Node | None:
    """The sum over offsets of disjoint windows as a view."""
    back = inputs[0]
    if back.prim.name != "fold":
        return None
    x, p = back.inputs[0], back.params
    n = len(p["extent"])
    kernel, positions = x.shape[:n], x.shape[x.ndim - n :]
    axes = node.params["axes"]
    if any(a >= n for a in axes) or any(k > 1 and a not in axes for a, k in enumerate(kernel)):
        return None
    if any(k > 1 and (d > 1 or k > s) for k, s, d in zip(kernel, p["stride"], p["dilate"], strict=True)):
        return None
    lead = x.shape[n : x.ndim - n]
    places = [a for k in range(n) for a in (x.ndim - n + k, k)]  # positions, and behind each what a window has there
    y = b.transpose(x, (*range(n, x.ndim - n), *places))
    gaps = [g for k, s in zip(kernel, p["stride"], strict=True) for g in (0, s - k)]
    if any(gaps):
        y = b.pad(y, low=(0,) * y.ndim, high=(*(0,) * len(lead), *gaps), value=0)
    spread = [t * s for t, s in zip(positions, p["stride"], strict=True)]
    y = b.reshape(y, (*lead, *spread))
    ends = [min(d, s) for d, s in zip(spread, p["extent"], strict=True)]
    if ends != spread:
        y = b.slice(y, (0,) * y.ndim, (*lead, *ends))
    rest = [s - e for s, e in zip(p["extent"], ends, strict=True)]
    if any(rest):
        y = b.pad(y, low=(0,) * y.ndim, high=(*(0,) * len(lead), *rest), value=0)
    y = b.reshape(y, node.shape)
    y = b.add(y, 0.0) if node.dtype.is_float else y  # a sum that began with zero is no negative one
    return b.cast(y, node.dtype)
