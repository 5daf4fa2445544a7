# SPDX-License-Identifier: Apache-2.0
"""Cells that make Symbols: ``cell(inputs, states)`` is one step, ``unroll`` a sequence of them."""

from __future__ import annotations

from typing import Any

from .. import initializer, ndarray, symbol
from ..symbol import Symbol

__all__ = ["BaseRNNCell", "GRUCell", "LSTMCell", "RNNCell", "RNNParams"]

CALLED_DIRECTLY = (
    "After applying modifier cells (e.g. ZoneoutCell) the base cell cannot be called directly. "
    "Call the modifier cell instead."
)


def sequence(length: int, inputs: Any, layout: str, merge: bool | None) -> tuple[Any, int]:
    """(one Symbol if ``merge``, a list if False, whatever it is if None; the time axis)."""
    assert inputs is not None, "unroll(inputs=None) has been deprecated. Please create input variables outside unroll."
    axis = layout.find("T")
    if isinstance(inputs, Symbol):
        if merge is False:
            assert len(inputs.list_outputs()) == 1, (
                "unroll doesn't allow grouped symbol as input. Please convert to list with list(inputs) first or let "
                "unroll handle splitting."
            )
            squeeze: Any = 1  # as in MXNet's files, which hold what was written
            return list(symbol.split(inputs, axis=axis, num_outputs=length, squeeze_axis=squeeze)), axis
        return inputs, axis
    assert length is None or len(inputs) == length
    if merge:
        return symbol.Concat(*(symbol.expand_dims(x, axis=axis) for x in inputs), dim=axis), axis
    return list(inputs), axis


class RNNParams:
    """Variables by name, shared between cells.

    Args:
        prefix: of all names.
    """

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self._params: dict[str, Symbol] = {}

    def get(self, name: str, **kwargs: Any) -> Symbol:
        """The variable of a name, made if there is none."""
        name = self._prefix + name
        if name not in self._params:
            self._params[name] = symbol.Variable(name, **kwargs)
        return self._params[name]


class BaseRNNCell:
    """The base of cells.

    Args:
        prefix: of the names of nodes and variables.
        params: variables to share.
    """

    _gate_names: tuple[str, ...] = ()
    _num_hidden = 0

    def __init__(self, prefix: str = "", params: RNNParams | None = None) -> None:
        self._own_params = params is None
        self._prefix = prefix
        self._params = RNNParams(prefix) if params is None else params
        self._modified = False
        self._cells: list[BaseRNNCell] = []
        self.reset()

    def reset(self) -> None:
        """Start counting steps anew."""
        self._init_counter = self._counter = -1
        for cell in self._cells:
            cell.reset()

    def __call__(self, inputs: Any, states: Any) -> Any:
        """(output, new states) of one step."""
        raise NotImplementedError

    @property
    def params(self) -> RNNParams:
        """The variables; who asks for them shares them."""
        self._own_params = False
        return self._params

    @property
    def state_info(self) -> list[dict[str, Any]]:
        """Shape and layout of each state."""
        raise NotImplementedError

    @property
    def state_shape(self) -> list[tuple[int, ...]]:
        """Shape of each state."""
        return [info["shape"] for info in self.state_info]

    def begin_state(self, func: Any = symbol.zeros, **kwargs: Any) -> list[Any]:
        """Initial states, made by ``func(name=, shape=, …)``."""
        assert not self._modified, CALLED_DIRECTLY
        states = []
        for info in self.state_info:
            self._init_counter += 1
            states.append(func(name=f"{self._prefix}begin_state_{self._init_counter}", **{**kwargs, **info}))
        return states

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: Any = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
    ) -> tuple[Any, list[Any]]:
        """(outputs, last states) of ``length`` steps; outputs as one Symbol if ``merge_outputs``."""
        self.reset()
        steps, _ = sequence(length, inputs, layout, False)
        states = self.begin_state() if begin_state is None else begin_state
        outputs = []
        for k in range(length):
            output, states = self(steps[k], states)
            outputs.append(output)
        return sequence(length, outputs, layout, merge_outputs)[0], states

    def _hg_gates(self, name: str, x: Any, h: Any) -> tuple[Any, Any]:
        """The input's and the state's part of all gates."""
        units = self._num_hidden * len(self._gate_names)
        get = self._params.get
        i2h = symbol.FullyConnected(
            data=x, weight=get("i2h_weight"), bias=get("i2h_bias"), num_hidden=units, name=f"{name}i2h"
        )
        h2h = symbol.FullyConnected(
            data=h, weight=get("h2h_weight"), bias=get("h2h_bias"), num_hidden=units, name=f"{name}h2h"
        )
        return i2h, h2h

    def _get_activation(self, inputs: Any, activation: Any, **kwargs: Any) -> Any:
        """Apply an activation given by name or as a function."""
        if isinstance(activation, str):
            return symbol.Activation(inputs, act_type=activation, **kwargs)
        return activation(inputs, **kwargs)

    def _hg_step(self) -> str:
        """The prefix of the next step's nodes."""
        self._counter += 1
        return f"{self._prefix}t{self._counter}_"

    # -- weights gate by gate

    def unpack_weights(self, args: dict[str, Any]) -> dict[str, Any]:
        """Arrays with the weights of all gates taken apart."""
        args = dict(args)
        h = self._num_hidden
        for group in ("i2h", "h2h") if self._gate_names else ():
            for kind in ("weight", "bias"):
                packed = args.pop(f"{self._prefix}{group}_{kind}")
                for k, gate in enumerate(self._gate_names):
                    args[f"{self._prefix}{group}{gate}_{kind}"] = packed[k * h : (k + 1) * h].copy()
        return args

    def pack_weights(self, args: dict[str, Any]) -> dict[str, Any]:
        """The opposite of ``unpack_weights``."""
        args = dict(args)
        for group in ("i2h", "h2h") if self._gate_names else ():
            for kind in ("weight", "bias"):
                parts = [args.pop(f"{self._prefix}{group}{gate}_{kind}") for gate in self._gate_names]
                args[f"{self._prefix}{group}_{kind}"] = ndarray.concatenate(parts)
        return args


class _DenseCell(BaseRNNCell):
    """A cell whose gates are dense layers."""

    _hg_states = 1

    def __init__(self, num_hidden: int, prefix: str, params: RNNParams | None, bias: Any = None) -> None:
        super().__init__(prefix, params)
        self._num_hidden = num_hidden
        for name in ("i2h_weight", "i2h_bias", "h2h_weight", "h2h_bias"):
            self.params.get(name, **({"init": bias} if bias is not None and name == "i2h_bias" else {}))

    @property
    def state_info(self) -> list[dict[str, Any]]:
        """Each state is (N, num_hidden)."""
        return [{"shape": (0, self._num_hidden), "__layout__": "NC"} for _ in range(self._hg_states)]


class RNNCell(_DenseCell):
    """Elman's network.

    Args:
        num_hidden: units.
        activation: a name or a function.
    """

    _gate_names = ("",)

    def __init__(
        self, num_hidden: int, activation: Any = "tanh", prefix: str = "rnn_", params: RNNParams | None = None
    ) -> None:
        super().__init__(num_hidden, prefix, params)
        self._activation = activation

    def __call__(self, inputs: Any, states: Any) -> Any:
        name = self._hg_step()
        i2h, h2h = self._hg_gates(name, inputs, states[0])
        output = self._get_activation(i2h + h2h, self._activation, name=f"{name}out")
        return output, [output]


class LSTMCell(_DenseCell):
    """Long short-term memory (Hochreiter and Schmidhuber, 1997).

    Args:
        num_hidden: units.
        forget_bias: initial bias of the forget gate.
    """

    _gate_names = ("_i", "_f", "_c", "_o")
    _hg_states = 2

    def __init__(
        self, num_hidden: int, prefix: str = "lstm_", params: RNNParams | None = None, forget_bias: float = 1.0
    ) -> None:
        super().__init__(num_hidden, prefix, params, initializer.LSTMBias(forget_bias=forget_bias))

    def __call__(self, inputs: Any, states: Any) -> Any:
        name = self._hg_step()
        i2h, h2h = self._hg_gates(name, inputs, states[0])
        i, f, c, o = symbol.SliceChannel(i2h + h2h, num_outputs=4, name=f"{name}slice")
        i = symbol.Activation(i, act_type="sigmoid", name=f"{name}i")
        f = symbol.Activation(f, act_type="sigmoid", name=f"{name}f")
        c = symbol.Activation(c, act_type="tanh", name=f"{name}c")
        o = symbol.Activation(o, act_type="sigmoid", name=f"{name}o")
        cell = symbol.elemwise_add(f * states[1], i * c, name=f"{name}state")
        output = symbol.elemwise_mul(o, symbol.Activation(cell, act_type="tanh"), name=f"{name}out")
        return output, [output, cell]


class GRUCell(_DenseCell):
    """Gated recurrent unit (Cho et al., 2014), as cuDNN computes it.

    Args:
        num_hidden: units.
    """

    _gate_names = ("_r", "_z", "_o")

    def __init__(self, num_hidden: int, prefix: str = "gru_", params: RNNParams | None = None) -> None:
        super().__init__(num_hidden, prefix, params)

    def __call__(self, inputs: Any, states: Any) -> Any:
        name = self._hg_step()
        i2h, h2h = self._hg_gates(f"{name}_", inputs, states[0])
        xr, xz, xn = symbol.SliceChannel(i2h, num_outputs=3, name=f"{name}_i2h_slice")
        hr, hz, hn = symbol.SliceChannel(h2h, num_outputs=3, name=f"{name}_h2h_slice")
        reset = symbol.Activation(xr + hr, act_type="sigmoid", name=f"{name}_r_act")
        update = symbol.Activation(xz + hz, act_type="sigmoid", name=f"{name}_z_act")
        new = symbol.Activation(xn + reset * hn, act_type="tanh", name=f"{name}_h_act")
        output = symbol.elemwise_add((1.0 - update) * new, update * states[0], name=f"{name}out")
        return output, [output]
