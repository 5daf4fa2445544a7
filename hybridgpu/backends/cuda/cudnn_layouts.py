# SPDX-License-Identifier: Apache-2.0
"""cuDNN layouts: which of its three computations a convolution is, with which shapes and strides.

The primitive ``conv`` contains its own derivatives (see compiler/primitives/conv.py), cuDNN has a
function for each. With x (N, C, *S), w (O, C / groups, *K) and y (N, O, *T) of cuDNN's convolution::

    forward   y from x and w     what has no base dilation
    data      x from y and w     a base dilation: transposed convolutions, derivatives by the operand
    filter    w from x and y     a kernel that is larger than the result: derivatives by the weight

The last has two ways: with the dilation of the operand (of a transposed convolution's weight) operand
and kernel change places. Everything here is about shapes and views; it needs neither device nor library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from ...compiler.primitives.conv import exchanged_shapes, is_forward, padded
from ...core.dataclass import dataclass
from .ctypes_binding import INT_MAX

__all__ = ["ConvLayout", "data_layout", "filter_layout", "layout_of"]


@dataclass(frozen=True)
class ConvLayout:
    """A convolution as cuDNN sees it, with two or three spatial axes.

    Attributes:
        kind: 'forward', 'data' or 'filter': what is computed.
        x, w, y: shapes of cuDNN's operand, kernel and result.
        pad, stride, dilate: one number a spatial axis.
        low, high: zeros to put around the operand first (negative: elements to cut off).
        shape: of the operand ``low`` and ``high`` belong to, with that many spatial axes.
        exchanged: 'filter' of a dilated operand.
        native: the operands and the result are those of cuDNN's convolution already.
    """

    kind: str
    x: tuple[int, ...]
    w: tuple[int, ...]
    y: tuple[int, ...]
    pad: tuple[int, ...]
    stride: tuple[int, ...]
    dilate: tuple[int, ...]
    groups: int
    low: tuple[int, ...]
    high: tuple[int, ...]
    exchanged: bool = False
    native: bool = False

    @property
    def copies(self) -> bool:
        """Whether the operand is padded in memory first."""
        return any(self.low) or any(self.high)

    @property
    def result(self) -> tuple[int, ...]:
        """Shape of what is computed."""
        return {"forward": self.y, "data": self.x, "filter": self.w}[self.kind]

    def strides(self, given: tuple[int, ...], samples: int) -> tuple[int, ...] | None:
        """Strides of a result that is a slice of a larger array, for all its axes; None if cuDNN cannot write it there.

        Args:
            given: of the primitive's result, in elements.
            samples: its first extent.
        """
        if self.kind == "filter" or given[0] * samples > INT_MAX:
            return None
        return (*given[:2], *given[1:2] * (len(self.result) - len(given)), *given[2:])

    def operands(self, xp: Any, x: Any, w: Any) -> tuple[Any, Any]:
        """cuDNN's two operands, contiguous, of the primitive's: (x, w), (w, y) or (x, y)."""
        rank, groups = len(self.pad), self.groups
        x, w = _spatial(x, rank), _spatial(w, rank)
        if self.kind == "data" and self.native:
            return xp.ascontiguousarray(w), xp.ascontiguousarray(x)
        if self.kind == "forward" or self.native:
            return xp.ascontiguousarray(self._padded(xp, x)), xp.ascontiguousarray(w)
        if self.kind == "data":
            o, c = w.shape[:2]
            turned = _reversed(w).reshape((groups, o // groups, c, *w.shape[2:])).swapaxes(1, 2)
            return xp.ascontiguousarray(turned).reshape(self.w), xp.ascontiguousarray(x)
        a, inner = x.shape[0], x.shape[1] // groups
        # channels become samples, and the samples channels of each group
        x = x.reshape((a, groups, inner, *x.shape[2:]))
        x = x.transpose((2, 1, 0, *range(3, x.ndim))).reshape((inner, groups * a, *x.shape[3:]))
        w = w.swapaxes(0, 1)
        if self.exchanged:
            return xp.ascontiguousarray(self._padded(xp, w)), xp.ascontiguousarray(x)
        return xp.ascontiguousarray(self._padded(xp, x)), xp.ascontiguousarray(w)

    def copy_back(self, result: Any, out: Any) -> None:
        """Put what 'filter' computed where the primitive's result belongs."""
        if self.exchanged:
            groups = self.groups
            result = _reversed(result).reshape((groups, -1, *result.shape[1:]))  # groups, channels, results of a group
            result = result.transpose((1, 0, 2, *range(3, result.ndim)))
        else:
            result = result.swapaxes(0, 1)
        out.reshape(result.shape)[...] = result

    def _padded(self, xp: Any, x: Any) -> Any:
        if not self.copies:
            return x
        return padded(xp, x, {"low": self.low, "high": self.high, "base_dilate": (1,) * len(self.low)})


def _spatial(x: Any, rank: int) -> Any:
    """An array with ``rank`` spatial axes, leading ones of extent 1."""
    missing = rank - (x.ndim - 2)
    return x.reshape((*x.shape[:2], *(1,) * missing, *x.shape[2:])) if missing else x


def _reversed(x: Any) -> Any:
    """A view with the spatial axes from the end to the start."""
    ends: tuple[slice, ...] = (slice(None), slice(None), *[slice(None, None, -1)] * (x.ndim - 2))
    return x[ends]


def _fit(extent: int, low: int, span: int, stride: int, out: int) -> tuple[int, int, int]:
    """(pad at both ends, zeros to add before, behind) so that ``out`` results are computed, no more."""
    if low >= 0 and extent + 2 * low >= span and (extent + 2 * low - span) // stride + 1 == out:
        return low, 0, 0
    return 0, low, (out - 1) * stride + span - extent - low


def layout_of(
    x: Sequence[int], w: Sequence[int], out: Sequence[int], params: Mapping[str, Any], half: bool = False
) -> ConvLayout | str:
    """cuDNN's layout of ``conv``, or why it has none.

    Args:
        x, w, out: shapes of the primitive's operands and result.
        half: two bytes an element, which cuBLAS is given widened only.
    """
    rank, groups = len(x) - 2, params["groups"]
    if rank > 3:
        return "more than three spatial axes"
    if not (prod(x) and prod(w) and prod(out)):
        return "nothing to compute"
    missing = max(0, 2 - rank)
    size, kernel, result = ((*(1,) * missing, *s[2:]) for s in (x, w, out))
    stride, dilate, base = ((*(1,) * missing, *params[k]) for k in ("stride", "dilate", "base_dilate"))
    low = (*(0,) * missing, *params["low"])
    span = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilate, strict=True))
    of_weight = prod(kernel) > prod(result)  # a derivative by the weight, or as good as one
    plain = max(base) == 1
    if plain and not half and prod(result) == 1 and kernel == size and not any(low):
        return "one position: a matrix product"
    if is_forward(w, out, params):
        fits = [_fit(*c) for c in zip(size, low, span, stride, result, strict=True)]
        pad, before, behind = zip(*fits, strict=True)
        operand = _grown(size, before, behind)
        shapes = (*x[:2], *operand), (*w[:2], *kernel), (*out[:2], *result)
        return _small(ConvLayout("forward", *shapes, pad, stride, dilate, groups, before, behind))
    if plain:
        reach = tuple((r - 1) * s + 1 for r, s in zip(result, stride, strict=True))
        fits = [_fit(*c) for c in zip(size, low, reach, dilate, kernel, strict=True)]
        pad, before, behind = zip(*fits, strict=True)
        inner = x[1] // groups
        shapes = (
            (inner, groups * x[0], *_grown(size, before, behind)),
            (w[0], x[0], *result),
            (inner, w[0], *kernel),
        )
        return _small(ConvLayout("filter", *shapes, pad, dilate, stride, groups, before, behind))
    if of_weight and max(dilate) == 1:
        reach = tuple((r - 1) * s + 1 for r, s in zip(result, stride, strict=True))
        first = [r - 1 - lo for r, lo in zip(reach, low, strict=True)]
        fits = [_fit(*c) for c in zip(kernel, first, reach, base, size, strict=True)]
        pad, before, behind = zip(*fits, strict=True)
        inner = x[1] // groups
        shapes = (
            (inner, w[0], *_grown(kernel, before, behind)),
            (groups * x[0], w[0] // groups, *result),
            (inner, groups * x[0], *size),
        )
        return _small(ConvLayout("filter", *shapes, pad, base, stride, groups, before, behind, exchanged=True))
    if max(stride) > 1:
        return "a stride and a dilated operand together"
    pad = tuple(s - 1 - lo for s, lo in zip(span, low, strict=True))
    fits_back = [
        p >= 0 and t + 2 * p >= s and (t + 2 * p - s) // b + 1 == d
        for d, t, p, s, b in zip(size, result, pad, span, base, strict=True)
    ]
    if not all(fits_back):
        return "padding that no transposed convolution has"
    shapes = (*out[:2], *result), (x[1], w[0] // groups, *kernel), (*x[:2], *size)
    none = (0,) * len(pad)
    return _small(ConvLayout("data", *shapes, pad, base, dilate, groups, none, none))


def filter_layout(
    x: Sequence[int], y: Sequence[int], out: Sequence[int], params: Mapping[str, Any]
) -> ConvLayout | str:
    """cuDNN's layout of ``conv_backward_filter``, or why it has none.

    Args:
        x, y, out: shapes of the primitive's operands and result.
        params: of it.
    """
    # a matrix product, of which it may be one, would want the samples of both operands side by side
    exchanged = exchanged_shapes(x, y, params["groups"])
    layout = layout_of(*exchanged, (out[1], out[0], *out[2:]), params, half=True)
    if isinstance(layout, str):
        return layout
    return (
        replace(layout, native=True)
        if layout.kind == "filter" and not layout.exchanged
        else "not a derivative by a weight"
    )


def data_layout(y: Sequence[int], w: Sequence[int], out: Sequence[int], params: Mapping[str, Any]) -> ConvLayout | str:
    """cuDNN's layout of ``conv_backward_data``, or why it has none.

    Args:
        y, w, out: shapes of the primitive's operands and result.
        params: of it.
    """
    groups = params["groups"]
    layout = layout_of(y, (groups * w[1], w[0] // groups, *w[2:]), out, params)
    if isinstance(layout, str):
        return layout
    return replace(layout, native=True) if layout.kind == "data" else "not a derivative by an operand"


def _grown(size: Sequence[int], before: Sequence[int], behind: Sequence[int]) -> tuple[int, ...]:
    return tuple(d + lo + hi for d, lo, hi in zip(size, before, behind, strict=True))


def _small(layout: ConvLayout) -> ConvLayout | str:
    """The layout, unless cuDNN cannot count its elements."""
    if max(prod(layout.x), prod(layout.w), prod(layout.y)) > INT_MAX:
        return "more than 2^31 elements"
    return layout
