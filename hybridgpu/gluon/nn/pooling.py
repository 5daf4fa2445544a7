# SPDX-License-Identifier: Apache-2.0
"""Pooling in one to three dimensions, and padding by reflection."""

from __future__ import annotations

from typing import Any

from ...base import numeric_types
from ..hybrid import HybridBlock
from .conv import spread

__all__ = [
    "AvgPool1D", "AvgPool2D", "AvgPool3D", "GlobalAvgPool1D", "GlobalAvgPool2D", "GlobalAvgPool3D", "GlobalMaxPool1D",
    "GlobalMaxPool2D", "GlobalMaxPool3D", "MaxPool1D", "MaxPool2D", "MaxPool3D", "ReflectionPad2D",
]  # fmt: skip

_LAYOUTS = {1: ("NCW", "NWC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}


class _Pooling(HybridBlock):
    """What all pooling layers share; subclasses say how many dimensions and which kind."""

    _hg_ndim: int
    _hg_kind: str

    def __init__(
        self,
        pool_size: Any,
        strides: Any,
        padding: Any,
        ceil_mode: bool,
        layout: str,
        count_include_pad: bool | None = None,
        global_pool: bool = False,
        **kwargs: Any,
    ) -> None:
        ndim, allowed = self._hg_ndim, _LAYOUTS[self._hg_ndim]
        assert layout in allowed, f"Only {allowed[0]} and {allowed[1]} layouts are valid for {ndim}D Pooling"
        pool_size = spread(pool_size, ndim)
        assert len(pool_size) == ndim, f"pool_size must be a number or a list of {ndim} ints"
        super().__init__(**kwargs)
        self._kwargs = {
            "kernel": pool_size,
            "stride": spread(pool_size if strides is None else strides, ndim),
            "pad": spread(padding, ndim),
            "global_pool": global_pool,
            "pool_type": self._hg_kind,
            "layout": layout,
            "pooling_convention": "full" if ceil_mode else "valid",
        }
        if count_include_pad is not None:
            self._kwargs["count_include_pad"] = count_include_pad

    def _alias(self) -> str:
        return "pool"

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.Pooling(x, name="fwd", **self._kwargs)

    def __repr__(self) -> str:
        k = self._kwargs
        return (
            f"{type(self).__name__}(size={k['kernel']}, stride={k['stride']}, padding={k['pad']}, "
            f"ceil_mode={k['pooling_convention'] == 'full'}, global_pool={k['global_pool']}, "
            f"pool_type={k['pool_type']}, layout={k['layout']})"
        )


class _GlobalPooling(_Pooling):
    """What the pools over whole images share."""

    def __init__(self, layout: str, **kwargs: Any) -> None:
        super().__init__(1, None, 0, True, layout, global_pool=True, **kwargs)


class MaxPool1D(_Pooling):
    """The largest entry of each window of (N, C, W); arguments as for :class:`MaxPool2D`."""

    _hg_ndim, _hg_kind = 1, "max"

    def __init__(
        self,
        pool_size: Any = 2,
        strides: Any = None,
        padding: Any = 0,
        layout: str = "NCW",
        ceil_mode: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(pool_size, strides, padding, ceil_mode, layout, **kwargs)


class MaxPool2D(_Pooling):
    """The largest entry of each window of (N, C, H, W).

    Args:
        pool_size, strides, padding: a number, or one for each axis; strides None means ``pool_size``.
        layout: order of the axes.
        ceil_mode: round the extents of the result up, not down.

    Raises:
        AssertionError: a layout or window of another dimension.
    """

    _hg_ndim, _hg_kind = 2, "max"

    def __init__(
        self,
        pool_size: Any = (2, 2),
        strides: Any = None,
        padding: Any = 0,
        layout: str = "NCHW",
        ceil_mode: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(pool_size, strides, padding, ceil_mode, layout, **kwargs)


class MaxPool3D(_Pooling):
    """The largest entry of each window of (N, C, D, H, W); arguments as for :class:`MaxPool2D`."""

    _hg_ndim, _hg_kind = 3, "max"

    def __init__(
        self,
        pool_size: Any = (2, 2, 2),
        strides: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        layout: str = "NCDHW",
        **kwargs: Any,
    ) -> None:
        super().__init__(pool_size, strides, padding, ceil_mode, layout, **kwargs)


class AvgPool1D(_Pooling):
    """The mean of each window of (N, C, W); arguments as for :class:`AvgPool2D`."""

    _hg_ndim, _hg_kind = 1, "avg"

    def __init__(
        self,
        pool_size: Any = 2,
        strides: Any = None,
        padding: Any = 0,
        layout: str = "NCW",
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(pool_size, strides, padding, ceil_mode, layout, count_include_pad, **kwargs)


class AvgPool2D(_Pooling):
    """The mean of each window of (N, C, H, W).

    Args:
        count_include_pad: divide by the window's size even where it reaches into the padding.

    The others as for :class:`MaxPool2D`.
    """

    _hg_ndim, _hg_kind = 2, "avg"

    def __init__(
        self,
        pool_size: Any = (2, 2),
        strides: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        layout: str = "NCHW",
        count_include_pad: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(pool_size, strides, padding, ceil_mode, layout, count_include_pad, **kwargs)


class AvgPool3D(_Pooling):
    """The mean of each window of (N, C, D, H, W); arguments as for :class:`AvgPool2D`."""

    _hg_ndim, _hg_kind = 3, "avg"

    def __init__(
        self,
        pool_size: Any = (2, 2, 2),
        strides: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        layout: str = "NCDHW",
        count_include_pad: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(pool_size, strides, padding, ceil_mode, layout, count_include_pad, **kwargs)


class GlobalMaxPool1D(_GlobalPooling):
    """The largest entry of each channel: (N, C, W) -> (N, C, 1)."""

    _hg_ndim, _hg_kind = 1, "max"

    def __init__(self, layout: str = "NCW", **kwargs: Any) -> None:
        super().__init__(layout, **kwargs)


class GlobalMaxPool2D(_GlobalPooling):
    """The largest entry of each channel: (N, C, H, W) -> (N, C, 1, 1)."""

    _hg_ndim, _hg_kind = 2, "max"

    def __init__(self, layout: str = "NCHW", **kwargs: Any) -> None:
        super().__init__(layout, **kwargs)


class GlobalMaxPool3D(_GlobalPooling):
    """The largest entry of each channel: (N, C, D, H, W) -> (N, C, 1, 1, 1)."""

    _hg_ndim, _hg_kind = 3, "max"

    def __init__(self, layout: str = "NCDHW", **kwargs: Any) -> None:
        super().__init__(layout, **kwargs)


class GlobalAvgPool1D(_GlobalPooling):
    """The mean of each channel: (N, C, W) -> (N, C, 1)."""

    _hg_ndim, _hg_kind = 1, "avg"

    def __init__(self, layout: str = "NCW", **kwargs: Any) -> None:
        super().__init__(layout, **kwargs)


class GlobalAvgPool2D(_GlobalPooling):
    """The mean of each channel: (N, C, H, W) -> (N, C, 1, 1)."""

    _hg_ndim, _hg_kind = 2, "avg"

    def __init__(self, layout: str = "NCHW", **kwargs: Any) -> None:
        super().__init__(layout, **kwargs)


class GlobalAvgPool3D(_GlobalPooling):
    """The mean of each channel: (N, C, D, H, W) -> (N, C, 1, 1, 1)."""

    _hg_ndim, _hg_kind = 3, "avg"

    def __init__(self, layout: str = "NCDHW", **kwargs: Any) -> None:
        super().__init__(layout, **kwargs)


class ReflectionPad2D(HybridBlock):
    """Rows and columns mirrored at the border of (N, C, H, W).

    Args:
        padding: how many on each side, or the eight numbers of ``pad_width``.
    """

    def __init__(self, padding: Any = 0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if isinstance(padding, numeric_types):
            padding = (0, 0, 0, 0, padding, padding, padding, padding)
        assert len(padding) == 8
        self._padding = padding

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return F.pad(x, mode="reflect", pad_width=self._padding)
