# SPDX-License-Identifier: Apache-2.0
"""Cells whose gates are convolutions of the input and of the state (Shi et al., 2015)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...parameter import ParameterDict
from ...rnn import HybridRecurrentCell

__all__ = [
    "Conv1DGRUCell",
    "Conv1DLSTMCell",
    "Conv1DRNNCell",
    "Conv2DGRUCell",
    "Conv2DLSTMCell",
    "Conv2DRNNCell",
    "Conv3DGRUCell",
    "Conv3DLSTMCell",
    "Conv3DRNNCell",
]

_LAYOUTS = {1: "NCW", 2: "NCHW", 3: "NCDHW"}


class _ConvCell(HybridRecurrentCell):
    """The base of convolutional cells.

    Args:
        input_shape: of a step of one sample, such as (C, H, W).
        hidden_channels: channels of the state.
        i2h_kernel, i2h_pad, i2h_dilate: of the convolution of the input.
        h2h_kernel, h2h_dilate: of that of the state, which keeps its size; kernels are odd.
        conv_layout: 'NCW', 'NCHW', 'NCDHW' or with the channels last.
        activation: a name, a block or a function.
    """

    _hg_dims = 0
    _hg_gates = 1
    _hg_states = 1

    def __init__(
        self,
        input_shape: Sequence[int],
        hidden_channels: int,
        i2h_kernel: Any,
        h2h_kernel: Any,
        i2h_pad: Any = 0,
        i2h_dilate: Any = 1,
        h2h_dilate: Any = 1,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        conv_layout: str | None = None,
        activation: Any = "tanh",
        prefix: str | None = None,
        params: ParameterDict | None = None,
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        self._hidden_channels, self._activation = hidden_channels, activation
        self._conv_layout = conv_layout or _LAYOUTS[self._hg_dims]
        self._i2h_kernel, self._i2h_pad = self._hg_tuple(i2h_kernel), self._hg_tuple(i2h_pad)
        self._i2h_dilate, self._h2h_dilate = self._hg_tuple(i2h_dilate), self._hg_tuple(h2h_dilate)
        self._h2h_kernel = self._hg_tuple(h2h_kernel)
        assert all(k % 2 == 1 for k in self._h2h_kernel), f"Only support odd number, get h2h_kernel= {h2h_kernel}"
        self._h2h_pad = tuple(d * (k - 1) // 2 for d, k in zip(self._h2h_dilate, self._h2h_kernel, strict=True))
        self._channel_axis = self._conv_layout.find("C")
        first = self._channel_axis == 1
        *spatial, channels = (*input_shape[1:], input_shape[0]) if first else input_shape
        size = tuple(
            d + 2 * p - w * (k - 1) if d else 0
            for d, k, p, w in zip(spatial, self._i2h_kernel, self._i2h_pad, self._i2h_dilate, strict=True)
        )
        self._state_shape = (hidden_channels, *size) if first else (*size, hidden_channels)
        rows = hidden_channels * self._hg_gates

        def weight(inputs: int, kernel: tuple[int, ...]) -> tuple[int, ...]:
            return (rows, inputs, *kernel) if first else (rows, *kernel, inputs)

        self._hg_add_parameters(
            {
                "i2h_weight": weight(channels, self._i2h_kernel),
                "h2h_weight": weight(hidden_channels, self._h2h_kernel),
                "i2h_bias": (rows,),
                "h2h_bias": (rows,),
            },
            {
                "i2h_weight": i2h_weight_initializer,
                "h2h_weight": h2h_weight_initializer,
                "i2h_bias": i2h_bias_initializer,
                "h2h_bias": h2h_bias_initializer,
            },
        )

    def _hg_tuple(self, value: Any) -> tuple[int, ...]:
        if isinstance(value, int):
            return (value,) * self._hg_dims
        values = tuple(value)
        assert len(values) == self._hg_dims, (
            f"For {self._hg_dims}D convolution, the convolution settings can only be either int or list/tuple of length "
            f"{self._hg_dims}"
        )
        return values

    def __repr__(self) -> str:
        shape = self.i2h_weight.shape or ()
        channels = shape[1 if self._channel_axis == 1 else -1]
        mapping = f"{channels or None} -> {shape[0]}"
        return f"{type(self).__name__}({mapping}, {self._activation}, {self._conv_layout})"

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Each state has the shape of the convolved input."""
        shape = (batch_size, *self._state_shape)
        return [{"shape": shape, "__layout__": self._conv_layout} for _ in range(self._hg_states)]

    def _hg_convolved(self, F: Any, x: Any, h: Any, parameters: dict[str, Any]) -> tuple[Any, Any]:
        """The input's and the state's part of all gates."""
        common = {
            "num_filter": self._hidden_channels * self._hg_gates,
            "stride": (1,) * self._hg_dims,
            "layout": self._conv_layout,
        }
        prefix = f"t{self._counter}_"
        i2h = F.Convolution(
            data=x,
            weight=parameters["i2h_weight"],
            bias=parameters["i2h_bias"],
            kernel=self._i2h_kernel,
            pad=self._i2h_pad,
            dilate=self._i2h_dilate,
            name=f"{prefix}i2h",
            **common,
        )
        h2h = F.Convolution(
            data=h,
            weight=parameters["h2h_weight"],
            bias=parameters["h2h_bias"],
            kernel=self._h2h_kernel,
            pad=self._h2h_pad,
            dilate=self._h2h_dilate,
            name=f"{prefix}h2h",
            **common,
        )
        return i2h, h2h


class _ConvRNNCell(_ConvCell):
    def _alias(self) -> str:
        return "conv_rnn"

    def hybrid_forward(self, F: Any, inputs: Any, states: Any, **parameters: Any) -> Any:  # type: ignore[override]
        i2h, h2h = self._hg_convolved(F, inputs, states[0], parameters)
        output = self._get_activation(F, i2h + h2h, self._activation, name=f"t{self._counter}_out")
        return output, [output]


class _ConvLSTMCell(_ConvCell):
    _hg_gates = 4
    _hg_states = 2

    def _alias(self) -> str:
        return "conv_lstm"

    def hybrid_forward(self, F: Any, inputs: Any, states: Any, **parameters: Any) -> Any:  # type: ignore[override]
        prefix = f"t{self._counter}_"
        i2h, h2h = self._hg_convolved(F, inputs, states[0], parameters)
        i, f, c, o = F.SliceChannel(i2h + h2h, num_outputs=4, name=f"{prefix}slice", axis=self._channel_axis)
        i = F.Activation(i, act_type="sigmoid", name=f"{prefix}i")
        f = F.Activation(f, act_type="sigmoid", name=f"{prefix}f")
        c = self._get_activation(F, c, self._activation, name=f"{prefix}c")
        o = F.Activation(o, act_type="sigmoid", name=f"{prefix}o")
        cell = F.elemwise_add(f * states[1], i * c, name=f"{prefix}state")
        output = F.elemwise_mul(o, self._get_activation(F, cell, self._activation), name=f"{prefix}out")
        return output, [output, cell]


class _ConvGRUCell(_ConvCell):
    _hg_gates = 3

    def _alias(self) -> str:
        return "conv_gru"

    def hybrid_forward(self, F: Any, inputs: Any, states: Any, **parameters: Any) -> Any:  # type: ignore[override]
        prefix, axis = f"t{self._counter}_", self._channel_axis
        i2h, h2h = self._hg_convolved(F, inputs, states[0], parameters)
        xr, xz, xn = F.SliceChannel(i2h, num_outputs=3, name=f"{prefix}i2h_slice", axis=axis)
        hr, hz, hn = F.SliceChannel(h2h, num_outputs=3, name=f"{prefix}h2h_slice", axis=axis)
        reset = F.Activation(xr + hr, act_type="sigmoid", name=f"{prefix}r_act")
        update = F.Activation(xz + hz, act_type="sigmoid", name=f"{prefix}z_act")
        new = self._get_activation(F, xn + reset * hn, self._activation, name=f"{prefix}h_act")
        output = F.elemwise_add((1.0 - update) * new, update * states[0], name=f"{prefix}out")
        return output, [output]


class Conv1DRNNCell(_ConvRNNCell):
    """Convolutional Elman cell over one axis."""

    _hg_dims = 1


class Conv2DRNNCell(_ConvRNNCell):
    """Convolutional Elman cell over two axes."""

    _hg_dims = 2


class Conv3DRNNCell(_ConvRNNCell):
    """Convolutional Elman cell over three axes."""

    _hg_dims = 3


class Conv1DLSTMCell(_ConvLSTMCell):
    """Convolutional LSTM cell over one axis."""

    _hg_dims = 1


class Conv2DLSTMCell(_ConvLSTMCell):
    """Convolutional LSTM cell over two axes."""

    _hg_dims = 2


class Conv3DLSTMCell(_ConvLSTMCell):
    """Convolutional LSTM cell over three axes."""

    _hg_dims = 3


class Conv1DGRUCell(_ConvGRUCell):
    """Convolutional GRU cell over one axis."""

    _hg_dims = 1


class Conv2DGRUCell(_ConvGRUCell):
    """Convolutional GRU cell over two axes."""

    _hg_dims = 2


class Conv3DGRUCell(_ConvGRUCell):
    """Convolutional GRU cell over three axes."""

    _hg_dims = 3
