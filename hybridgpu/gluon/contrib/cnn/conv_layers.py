# SPDX-License-Identifier: Apache-2.0
"""Deformable convolutions: the elements of a window are moved by offsets that another convolution computes."""

from __future__ import annotations

from typing import Any

from ...hybrid import HybridBlock
from ...nn.activations import Activation
from ...nn.conv import check_layout, spread, weight_shape

__all__ = ["DeformableConvolution", "ModulatedDeformableConvolution"]


class DeformableConvolution(HybridBlock):
    """Deformable convolution (Dai et al., 2017): (N, C, H, W) -> (N, channels, H', W').

    Args:
        channels: number of results.
        kernel_size, strides, padding, dilation: a number or one for each axis.
        groups: channels are convolved in so many parts.
        num_deformable_group: parts of the channels that have offsets of their own.
        layout: only 'NCHW' can be run.
        use_bias, offset_use_bias: whether the results, and the offsets, have a bias.
        activation: name of a function that follows.
        weight_initializer, bias_initializer: of the convolution.
        offset_weight_initializer, offset_bias_initializer: of the one that computes offsets; with zeros, windows begin
            as those of an ordinary convolution.
        op_name: without effect, as in MXNet.
        adj: refused by the convolution, as in MXNet.

    Raises:
        AssertionError: another layout than 'NCHW' and 'NHWC'.
    """

    _hg_per_element = 2  #: numbers that are computed for an element of a window

    def __init__(
        self,
        channels: int,
        kernel_size: Any = (1, 1),
        strides: Any = (1, 1),
        padding: Any = (0, 0),
        dilation: Any = (1, 1),
        groups: int = 1,
        num_deformable_group: int = 1,
        layout: str = "NCHW",
        use_bias: bool = True,
        in_channels: int = 0,
        activation: str | None = None,
        weight_initializer: Any = None,
        bias_initializer: Any = "zeros",
        offset_weight_initializer: Any = "zeros",
        offset_bias_initializer: Any = "zeros",
        offset_use_bias: bool = True,
        op_name: str = "DeformableConvolution",
        adj: Any = None,
        prefix: str | None = None,
        params: Any = None,
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        check_layout(layout, 2)
        kernel = spread(kernel_size, 2)
        window = num_deformable_group * kernel[0] * kernel[1]
        shared = {
            "kernel": kernel,
            "stride": spread(strides, 2),
            "dilate": spread(dilation, 2),
            "pad": spread(padding, 2),
            "num_group": groups,
            "layout": layout,
            **({} if adj is None else {"adj": adj}),
        }
        self._hg_moved = 2 * window
        self._kwargs_offset = {
            **shared, "num_filter": self._hg_per_element * window, "no_bias": not offset_use_bias,
        }  # fmt: skip
        self._kwargs_deformable_conv = {
            **shared, "num_filter": channels, "num_deformable_group": num_deformable_group, "no_bias": not use_bias,
        }  # fmt: skip

        def weight(name: str, number: int, init: Any) -> Any:
            shape = weight_shape("Convolution", kernel, number, in_channels, groups, layout)
            return self.params.get(name, shape=shape, init=init, allow_deferred_init=True)

        def bias(name: str, number: int, init: Any, enabled: bool) -> Any:
            if not enabled:
                return None
            return self.params.get(name, shape=(number,), init=init, allow_deferred_init=True)

        with self.name_scope():
            number = self._hg_per_element * window
            self.offset_weight = weight("offset_weight", number, offset_weight_initializer)
            self.offset_bias = bias("offset_bias", number, offset_bias_initializer, offset_use_bias)
            self.deformable_conv_weight = weight("deformable_conv_weight", channels, weight_initializer)
            self.deformable_conv_bias = bias("deformable_conv_bias", channels, bias_initializer, use_bias)
            self.act = Activation(activation, prefix=f"{activation}_") if activation else None

    def hybrid_forward(
        self,
        F: Any,
        x: Any,
        offset_weight: Any,
        deformable_conv_weight: Any,
        offset_bias: Any = None,
        deformable_conv_bias: Any = None,
    ) -> Any:
        inputs = [x, offset_weight] if offset_bias is None else [x, offset_weight, offset_bias]
        offset = F.Convolution(*inputs, **self._kwargs_offset)
        weights = {"weight": deformable_conv_weight}
        if deformable_conv_bias is not None:
            weights["bias"] = deformable_conv_bias
        out = self._hg_convolve(F, x, offset, {**weights, **self._kwargs_deformable_conv})
        return out if self.act is None else self.act(out)

    def _hg_convolve(self, F: Any, x: Any, offset: Any, arguments: dict[str, Any]) -> Any:
        return F.contrib.DeformableConvolution(data=x, offset=offset, name="fwd", **arguments)

    def _alias(self) -> str:
        return "deformable_conv"

    def __repr__(self) -> str:
        k = self._kwargs_deformable_conv
        first, second = (self.deformable_conv_weight.shape or (0, 0))[:2]
        parts = [f"{second or None} -> {first}", f"kernel_size={k['kernel']}", f"stride={k['stride']}"]
        if k["pad"] != (0, 0):
            parts.append(f"padding={k['pad']}")
        if k["dilate"] != (1, 1):
            parts.append(f"dilation={k['dilate']}")
        if k["num_group"] != 1:
            parts.append(f"groups={k['num_group']}")
        if self.deformable_conv_bias is None:
            parts.append("bias=False")
        if self.act is not None:
            parts.append(str(self.act))
        return f"{type(self).__name__}({', '.join(parts)})"


class ModulatedDeformableConvolution(DeformableConvolution):
    """Deformable convolution whose windows' elements also have a weight between 0 and 2 that is computed (Zhu et al.,
    2018); see :class:`DeformableConvolution`."""

    _hg_per_element = 3

    def _hg_convolve(self, F: Any, x: Any, offset: Any, arguments: dict[str, Any]) -> Any:
        moved = F.slice_axis(offset, axis=1, begin=0, end=self._hg_moved)
        mask = F.sigmoid(F.slice_axis(offset, axis=1, begin=self._hg_moved, end=None)) * 2
        return F.contrib.ModulatedDeformableConvolution(data=x, offset=moved, mask=mask, name="fwd", **arguments)

    def _alias(self) -> str:
        return "modulated_deformable_conv"
