# SPDX-License-Identifier: Apache-2.0
"""Symbolic cells whose gates are convolutions (Shi et al., 2015)."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from .. import symbol
from .cells import BaseRNNCell, RNNParams

__all__ = ["BaseConvRNNCell", "ConvGRUCell", "ConvLSTMCell", "ConvRNNCell"]

_LEAKY = functools.partial(symbol.LeakyReLU, act_type="leaky", slope=0.2)


class BaseConvRNNCell(BaseRNNCell):
    """The base of convolutional cells.

    Args:
        input_shape: of a step, (N, C, H, W) in ``conv_layout``.
        num_hidden: channels of the state.
        h2h_kernel, h2h_dilate: of the convolution of the state, which keeps its size.
        i2h_kernel, i2h_stride, i2h_pad, i2h_dilate: of that of the input.
        activation: a name or a function.
    """

    _hg_states = 1
    _hg_default_prefix = ""

    def __init__(
        self,
        input_shape: Sequence[int],
        num_hidden: int,
        h2h_kernel: Sequence[int] = (3, 3),
        h2h_dilate: Sequence[int] = (1, 1),
        i2h_kernel: Sequence[int] = (3, 3),
        i2h_stride: Sequence[int] = (1, 1),
        i2h_pad: Sequence[int] = (1, 1),
        i2h_dilate: Sequence[int] = (1, 1),
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        activation: Any = _LEAKY,
        prefix: str | None = None,
        params: RNNParams | None = None,
        conv_layout: str = "NCHW",
    ) -> None:
        super().__init__(self._hg_default_prefix if prefix is None else prefix, params)
        assert all(k % 2 == 1 for k in h2h_kernel), f"Only support odd number, get h2h_kernel= {h2h_kernel}"
        self._num_hidden, self._activation, self._hg_layout = num_hidden, activation, conv_layout
        pad = tuple(d * (k - 1) // 2 for d, k in zip(h2h_dilate, h2h_kernel, strict=True))
        self._hg_h2h: dict[str, Any] = {
            "kernel": tuple(h2h_kernel),
            "dilate": tuple(h2h_dilate),
            "pad": pad,
            "stride": (1, 1),
        }
        self._hg_i2h: dict[str, Any] = {
            "kernel": tuple(i2h_kernel),
            "dilate": tuple(i2h_dilate),
            "pad": tuple(i2h_pad),
            "stride": tuple(i2h_stride),
        }
        spatial = [input_shape[conv_layout.index(axis)] for axis in "HW"]
        size = {
            axis: (d + 2 * p - w * (k - 1) - 1) // s + 1
            for axis, d, k, p, w, s in zip("HW", spatial, i2h_kernel, i2h_pad, i2h_dilate, i2h_stride, strict=True)
        }
        extents = {"N": 0, "C": num_hidden, **size}
        self._state_shape = tuple(extents[axis] for axis in conv_layout)
        fillers = {
            "i2h_weight": i2h_weight_initializer,
            "h2h_weight": h2h_weight_initializer,
            "i2h_bias": i2h_bias_initializer,
            "h2h_bias": h2h_bias_initializer,
        }
        for name, filler in fillers.items():
            self.params.get(name, **({} if filler is None else {"init": filler}))

    @property
    def state_info(self) -> list[dict[str, Any]]:
        """Each state has the shape of the convolved input."""
        return [{"shape": self._state_shape, "__layout__": self._hg_layout} for _ in range(self._hg_states)]

    def _hg_gates(self, name: str, x: Any, h: Any) -> tuple[Any, Any]:
        units = self._num_hidden * len(self._gate_names)
        get = self._params.get
        parts = []
        for group, data, options in (("i2h", x, self._hg_i2h), ("h2h", h, self._hg_h2h)):
            parts.append(
                symbol.Convolution(
                    data=data,
                    weight=get(f"{group}_weight"),
                    bias=get(f"{group}_bias"),
                    num_filter=units,
                    layout=self._hg_layout,
                    name=f"{name}{group}",
                    **options,
                )
            )
        return parts[0], parts[1]

    def _hg_split(self, x: Any, name: str) -> list[Any]:
        return list(
            symbol.SliceChannel(x, num_outputs=len(self._gate_names), axis=self._hg_layout.index("C"), name=name)
        )


class ConvRNNCell(BaseConvRNNCell):
    """Convolutional Elman cell."""

    _gate_names = ("",)
    _hg_default_prefix = "ConvRNN_"

    def __call__(self, inputs: Any, states: Any) -> Any:
        name = self._hg_step()
        i2h, h2h = self._hg_gates(name, inputs, states[0])
        output = self._get_activation(i2h + h2h, self._activation, name=f"{name}out")
        return output, [output]


class ConvLSTMCell(BaseConvRNNCell):
    """Convolutional LSTM cell."""

    _gate_names = ("_i", "_f", "_c", "_o")
    _hg_default_prefix = "ConvLSTM_"
    _hg_states = 2

    def __call__(self, inputs: Any, states: Any) -> Any:
        name = self._hg_step()
        i2h, h2h = self._hg_gates(name, inputs, states[0])
        i, f, c, o = self._hg_split(i2h + h2h, f"{name}slice")
        i = symbol.Activation(i, act_type="sigmoid", name=f"{name}i")
        f = symbol.Activation(f, act_type="sigmoid", name=f"{name}f")
        c = self._get_activation(c, self._activation, name=f"{name}c")
        o = symbol.Activation(o, act_type="sigmoid", name=f"{name}o")
        cell = symbol.elemwise_add(f * states[1], i * c, name=f"{name}state")
        output = symbol.elemwise_mul(o, self._get_activation(cell, self._activation), name=f"{name}out")
        return output, [output, cell]


class ConvGRUCell(BaseConvRNNCell):
    """Convolutional GRU cell."""

    _gate_names = ("_r", "_z", "_o")
    _hg_default_prefix = "ConvGRU_"

    def __call__(self, inputs: Any, states: Any) -> Any:
        name = self._hg_step()
        i2h, h2h = self._hg_gates(name, inputs, states[0])
        xr, xz, xn = self._hg_split(i2h, f"{name}_i2h_slice")
        hr, hz, hn = self._hg_split(h2h, f"{name}_h2h_slice")
        reset = symbol.Activation(xr + hr, act_type="sigmoid", name=f"{name}_r_act")
        update = symbol.Activation(xz + hz, act_type="sigmoid", name=f"{name}_z_act")
        new = self._get_activation(xn + reset * hn, self._activation, name=f"{name}_h_act")
        output = symbol.elemwise_add((1.0 - update) * new, update * states[0], name=f"{name}out")
        return output, [output]
