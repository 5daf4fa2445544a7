# SPDX-License-Identifier: Apache-2.0
"""Convolutions and transposed convolutions in one to three dimensions."""

from __future__ import annotations

from typing import Any

from ... import symbol
from ...base import MXNetError, numeric_types
from ..hybrid import HybridBlock
from .activations import Activation, activation_of  # noqa: F401 - MXNet's module has it, too

__all__ = ["Conv1D", "Conv1DTranspose", "Conv2D", "Conv2DTranspose", "Conv3D", "Conv3DTranspose"]

_LAYOUTS = {1: ("NCW",), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}


def spread(value: Any, ndim: int) -> Any:
    """A number once for every dimension; anything else as it is."""
    return (value,) * ndim if isinstance(value, numeric_types) else value


def check_layout(layout: str, ndim: int) -> None:
    """Raise MXNet's error for a layout that ``ndim`` dimensions do not have."""
    allowed = _LAYOUTS[ndim]
    assert layout in allowed, f"Only supports {' and '.join(map(repr, allowed))} layout for now"


def window(value: Any, ndim: int, what: str = "kernel_size") -> Any:
    """One extent for every dimension.

    Raises:
        AssertionError: another number of extents.
    """
    value = spread(value, ndim)
    assert len(value) == ndim, f"{what} must be a number or a list of {ndim} ints"
    return value


def _infer_weight_shape(op_name: str, data_shape: Any, kwargs: dict[str, Any]) -> Any:
    """Shapes of the inputs of an operator, by data's; for programs' own layers."""
    data = symbol.var("data", shape=data_shape)
    return getattr(symbol, op_name)(data, **kwargs).infer_shape_partial()[0]


def weight_shape(op_name: str, kernel: Any, channels: int, in_channels: int, groups: int, layout: str) -> Any:
    """The extents of a (transposed) convolution's weight; 0 where the input decides.

    A convolution's weight is (out, in / groups, *kernel), a transposed one's (in, out / groups, *kernel), with the
    second axis where ``layout`` has C.

    Raises:
        MXNetError: channels that the groups do not divide.
    """
    for what, n in (("output num_filter", channels), ("input num_filter", in_channels)):
        if n % groups:
            raise MXNetError(
                f"{what} must divide group size: {n} channels in {groups} groups\nChoose numbers that the groups divide."
            )
    if op_name == "Convolution":
        first, second = channels, in_channels // groups
    else:
        first, second = in_channels, channels // groups
    kernel = list(kernel)
    return (first, second, *kernel) if layout.find("C") == 1 else (first, *kernel, second)


class _Conv(HybridBlock):
    """What all convolution layers share; see :class:`Conv2D`."""

    def __init__(
        self,
        channels: int,
        kernel_size: Any,
        strides: Any,
        padding: Any,
        dilation: Any,
        groups: int,
        layout: str,
        in_channels: int = 0,
        activation: str | None = None,
        use_bias: bool = True,
        weight_initializer: Any = None,
        bias_initializer: Any = "zeros",
        op_name: str = "Convolution",
        adj: Any = None,
        prefix: str | None = None,
        params: Any = None,
        **others: Any,
    ) -> None:
        super().__init__(prefix=prefix, params=params, **others)
        ndim = len(kernel_size)
        with self.name_scope():
            self._channels, self._in_channels = channels, in_channels
            self._op_name = op_name
            self._kwargs = {
                "kernel": kernel_size,
                "stride": spread(strides, ndim),
                "dilate": spread(dilation, ndim),
                "pad": spread(padding, ndim),
                "num_filter": channels,
                "num_group": groups,
                "no_bias": not use_bias,
                "layout": layout,
            }
            if adj is not None:
                self._kwargs["adj"] = adj
            self.weight = self.params.get(
                "weight",
                shape=weight_shape(op_name, kernel_size, channels, in_channels, groups, layout),
                init=weight_initializer,
                allow_deferred_init=True,
            )
            self.bias = (
                self.params.get("bias", shape=(channels,), init=bias_initializer, allow_deferred_init=True)
                if use_bias
                else None
            )
            self.act = activation_of(activation)

    def hybrid_forward(self, F: Any, x: Any, weight: Any, bias: Any = None) -> Any:
        inputs = (x, weight) if bias is None else (x, weight, bias)
        out = getattr(F, self._op_name)(*inputs, name="fwd", **self._kwargs)
        return out if self.act is None else self.act(out)

    def _alias(self) -> str:
        return "conv"

    def __repr__(self) -> str:
        k, ndim = self._kwargs, len(self._kwargs["kernel"])
        first, second = (self.weight.shape or (0, 0))[:2]
        parts = [f"{second or None} -> {first}", f"kernel_size={k['kernel']}", f"stride={k['stride']}"]
        if k["pad"] != (0,) * ndim:
            parts.append(f"padding={k['pad']}")
        if k["dilate"] != (1,) * ndim:
            parts.append(f"dilation={k['dilate']}")
        if k["num_group"] != 1:
            parts.append(f"groups={k['num_group']}")
        if self.bias is None:
            parts.append("bias=False")
        if self.act is not None:
            parts.append(str(self.act))
        return f"{type(self).__name__}({', '.join(parts)})"


class Conv1D(_Conv):
    """Convolution along one axis: (N, C, W) -> (N, channels, W').

    Arguments as for :class:`Conv2D`.
    """

    def __init__(
        self,
        channels: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        layout: str = "NCW",
        activation: str | None = None,
        use_bias: bool = True,
        weight_initializer: Any = None,
        bias_initializer: Any = "zeros",
        in_channels: int = 0,
        **kwargs: Any,
    ) -> None:
        check_layout(layout, 1)
        super().__init__(
            channels, window(kernel_size, 1), strides, padding, dilation, groups, layout, in_channels, activation,
            use_bias, weight_initializer, bias_initializer, kwargs.pop("op_name", "Convolution"), **kwargs,
        )  # fmt: skip


class Conv2D(_Conv):
    """Convolution of images: (N, C, H, W) -> (N, channels, H', W'), H' = (H + 2 p - d (k - 1) - 1) // s + 1.

    Args:
        channels: of the result.
        kernel_size, strides, padding, dilation: a number, or one for each axis.
        groups: parts of the channels that are convolved each on its own.
        layout: order of the axes of input and weight.
        activation: name of an activation that follows.
        use_bias: add one number for each channel.
        in_channels: of the input; 0 takes them from the first call.

    Raises:
        AssertionError: a layout or kernel of another dimension.
        MXNetError: channels that the groups do not divide.
    """

    def __init__(
        self,
        channels: int,
        kernel_size: Any,
        strides: Any = (1, 1),
        padding: Any = (0, 0),
        dilation: Any = (1, 1),
        groups: int = 1,
        layout: str = "NCHW",
        activation: str | None = None,
        use_bias: bool = True,
        weight_initializer: Any = None,
        bias_initializer: Any = "zeros",
        in_channels: int = 0,
        **kwargs: Any,
    ) -> None:
        check_layout(layout, 2)
        super().__init__(
            channels, window(kernel_size, 2), strides, padding, dilation, groups, layout, in_channels, activation,
            use_bias, weight_initializer, bias_initializer, kwargs.pop("op_name", "Convolution"), **kwargs,
        )  # fmt: skip


class Conv3D(_Conv):
    """Convolution of volumes: (N, C, D, H, W) -> (N, channels, D', H', W').

    Arguments as for :class:`Conv2D`.
    """

    def __init__(
        self,
        channels: int,
        kernel_size: Any,
        strides: Any = (1, 1, 1),
        padding: Any = (0, 0, 0),
        dilation: Any = (1, 1, 1),
        groups: int = 1,
        layout: str = "NCDHW",
        activation: str | None = None,
        use_bias: bool = True,
        weight_initializer: Any = None,
        bias_initializer: Any = "zeros",
        in_channels: int = 0,
        **kwargs: Any,
    ) -> None:
        check_layout(layout, 3)
        super().__init__(
            channels, window(kernel_size, 3), strides, padding, dilation, groups, layout, in_channels, activation,
            use_bias, weight_initializer, bias_initializer, kwargs.pop("op_name", "Convolution"), **kwargs,
        )  # fmt: skip


class _ConvTranspose(_Conv):
    """What the transposed convolutions share: the adjoint of a convolution, as a layer."""

    def __init__(
        self, ndim: int, kernel_size: Any, output_padding: Any, layout: str, *args: Any, **kwargs: Any
    ) -> None:
        check_layout(layout, ndim)
        kernel_size = window(kernel_size, ndim)
        self.outpad = window(output_padding, ndim, "output_padding")
        kwargs.setdefault("op_name", "Deconvolution")
        channels, strides, padding, dilation, groups, in_channels, activation, use_bias, weights, biases = args
        super().__init__(
            channels, kernel_size, strides, padding, dilation, groups, layout, in_channels, activation, use_bias,
            weights, biases, adj=self.outpad, **kwargs,
        )  # fmt: skip


class Conv1DTranspose(_ConvTranspose):
    """Transposed convolution along one axis; arguments as for :class:`Conv2DTranspose`."""

    def __init__(
        self,
        channels: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        layout: str = "NCW",
        activation: str | None = None,
        use_bias: bool = True,
        weight_initializer: Any = None,
        bias_initializer: Any = "zeros",
        in_channels: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            1, kernel_size, output_padding, layout, channels, strides, padding, dilation, groups, in_channels,
            activation, use_bias, weight_initializer, bias_initializer, **kwargs,
        )  # fmt: skip


class Conv2DTranspose(_ConvTranspose):
    """Transposed convolution of images: H' = (H - 1) s - 2 p + k + output_padding.

    Args:
        output_padding: rows and columns added on one side of the result.

    The others as for :class:`Conv2D`.
    """

    def __init__(
        self,
        channels: int,
        kernel_size: Any,
        strides: Any = (1, 1),
        padding: Any = (0, 0),
        output_padding: Any = (0, 0),
        dilation: Any = (1, 1),
        groups: int = 1,
        layout: str = "NCHW",
        activation: str | None = None,
        use_bias: bool = True,
        weight_initializer: Any = None,
        bias_initializer: Any = "zeros",
        in_channels: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            2, kernel_size, output_padding, layout, channels, strides, padding, dilation, groups, in_channels,
            activation, use_bias, weight_initializer, bias_initializer, **kwargs,
        )  # fmt: skip


class Conv3DTranspose(_ConvTranspose):
    """Transposed convolution of volumes; arguments as for :class:`Conv2DTranspose`."""

    def __init__(
        self,
        channels: int,
        kernel_size: Any,
        strides: Any = (1, 1, 1),
        padding: Any = (0, 0, 0),
        output_padding: Any = (0, 0, 0),
        dilation: Any = (1, 1, 1),
        groups: int = 1,
        layout: str = "NCDHW",
        activation: str | None = None,
        use_bias: bool = True,
        weight_initializer: Any = None,
        bias_initializer: Any = "zeros",
        in_channels: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            3, kernel_size, output_padding, layout, channels, strides, padding, dilation, groups, in_channels,
            activation, use_bias, weight_initializer, bias_initializer, **kwargs,
        )  # fmt: skip
