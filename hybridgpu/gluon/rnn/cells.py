# SPDX-License-Identifier: Apache-2.0
"""Recurrent cells: ``cell(inputs, states)`` is one step, ``cell.unroll(length, inputs)`` a sequence of them."""

from __future__ import annotations

from typing import Any

from ... import ndarray
from ..block import Block
from ..forward import to_be_defined
from ..hybrid import HybridBlock
from ..nn import LeakyReLU
from ..parameter import Parameter, ParameterDict
from .sequence import Sequence, initial_state, is_tensor, masked, zeros_for

__all__ = ["GRUCell", "HybridRecurrentCell", "LSTMCell", "RNNCell", "RecurrentCell"]

_CALLED_DIRECTLY = (
    "After applying modifier cells (e.g. ZoneoutCell) the base cell cannot be called directly. "
    "Call the modifier cell instead."
)


class RecurrentCell(Block):
    """The base of cells.

    A step takes an input (N, C) and a list of states, and gives an output and the new states.
    """

    def __init__(self, prefix: str | None = None, params: ParameterDict | None = None) -> None:
        super().__init__(prefix, params)
        self._modified = False
        self.reset()

    def reset(self) -> None:
        """Start counting steps anew, before another sequence."""
        self._init_counter = self._counter = -1
        for cell in self._children.values():
            if isinstance(cell, RecurrentCell):
                cell.reset()

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Shape and layout of each state."""
        raise NotImplementedError

    def begin_state(self, batch_size: int = 0, func: Any = ndarray.zeros, **kwargs: Any) -> list[Any]:
        """Initial states, made by ``func(name=, shape=, …)``, such as ``nd.zeros`` or ``sym.var``.

        Args:
            batch_size: needed for arrays only.
            kwargs: further arguments of ``func``.
        """
        assert not self._modified, _CALLED_DIRECTLY
        states = []
        for info in self.state_info(batch_size):
            self._init_counter += 1
            name = f"{self._prefix}begin_state_{self._init_counter}"
            states.append(initial_state(func, **{"name": name, **info, **kwargs}))
        return states

    def _hg_start(self, sequence: Sequence, begin_state: Any) -> Any:
        """The states a sequence begins with: zeros if none are given."""
        if begin_state is not None:
            return begin_state
        if not sequence.eager:
            return self.begin_state(func=sequence.F.zeros, batch_size=0)
        whole = is_tensor(sequence.data)
        first, axis = (sequence.data, sequence.layout.find("N")) if whole else (sequence.data[0], 0)
        return self.begin_state(func=zeros_for(first, axis), batch_size=sequence.batch_size, ctx=first.context)

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: Any = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
        valid_length: Any = None,
    ) -> tuple[Any, list[Any]]:
        """Make ``length`` steps.

        Args:
            inputs: a tensor in the given layout, or a list of steps of shape (N, …).
            begin_state: initial states; zeros by default.
            merge_outputs: True for one tensor, False or None for a list of steps.
            valid_length: number of valid steps of each sequence, shape (N,): outputs past it are zero, and
                the states are those of the last valid step.

        Returns:
            (outputs, last states).
        """
        self.reset()
        sequence = Sequence(inputs, layout, length)
        F, steps = sequence.F, sequence.steps()
        states = self._hg_start(sequence, begin_state)
        outputs, history = [], []
        for k in range(length):
            output, states = self(steps[k], states)
            outputs.append(output)
            history.append(states)
        if valid_length is None:
            return Sequence(outputs, layout, length).merged(merge_outputs), states
        states = [
            F.SequenceLast(F.stack(*values, axis=0), sequence_length=valid_length, use_sequence_length=True, axis=0)
            for values in zip(*history, strict=True)
        ]
        whole = masked(F, outputs, length, valid_length, sequence.axis, True)
        return Sequence(whole, layout, length).merged(merge_outputs), states

    def _get_activation(self, F: Any, inputs: Any, activation: Any, **kwargs: Any) -> Any:
        """Apply an activation given by name, as a block, or as a function."""
        if isinstance(activation, str):
            if activation in ("tanh", "relu", "sigmoid", "softsign"):
                return getattr(F, activation)(inputs, **kwargs)
            return F.Activation(inputs, act_type=activation, **kwargs)
        if isinstance(activation, LeakyReLU):
            return F.LeakyReLU(inputs, act_type="leaky", slope=activation._alpha, **kwargs)
        return activation(inputs, **kwargs)

    @to_be_defined
    def forward(self, inputs: Any, states: Any) -> Any:
        """One step; its number is part of the names of its nodes."""
        self.__dict__["_counter"] += 1  # no child and no parameter, for which attributes are looked at
        return super().forward(inputs, states)


class HybridRecurrentCell(RecurrentCell, HybridBlock):
    """A cell that can be hybridized."""

    i2h_weight: Parameter

    @to_be_defined
    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def _hg_add_parameters(self, shapes: dict[str, tuple[int, ...]], initializers: dict[str, Any]) -> None:
        """Make the parameters of a cell, each an attribute."""
        for name, shape in shapes.items():
            parameter: Parameter = self.params.get(name, shape=shape, init=initializers[name], allow_deferred_init=True)
            setattr(self, name, parameter)

    def _hg_dense(self, F: Any, units: int, prefix: str, x: Any, h: Any, parameters: dict[str, Any]) -> tuple[Any, Any]:
        """The input's and the state's part of all gates."""
        i2h = F.FullyConnected(
            data=x,
            weight=parameters["i2h_weight"],
            bias=parameters["i2h_bias"],
            num_hidden=units,
            name=f"{prefix}i2h",
        )
        h2h = F.FullyConnected(
            data=h,
            weight=parameters["h2h_weight"],
            bias=parameters["h2h_bias"],
            num_hidden=units,
            name=f"{prefix}h2h",
        )
        return i2h, h2h


class _DenseCell(HybridRecurrentCell):
    """A cell whose gates are dense layers of the input and of the state."""

    _hg_gates = 1
    _hg_states = 1

    def __init__(
        self,
        hidden_size: int,
        i2h_weight_initializer: Any,
        h2h_weight_initializer: Any,
        i2h_bias_initializer: Any,
        h2h_bias_initializer: Any,
        input_size: int,
        prefix: str | None,
        params: ParameterDict | None,
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        self._hidden_size, self._input_size = hidden_size, input_size
        rows = self._hg_gates * hidden_size
        self._hg_add_parameters(
            {
                "i2h_weight": (rows, input_size),
                "h2h_weight": (rows, hidden_size),
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

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Each state is (N, hidden_size)."""
        return [{"shape": (batch_size, self._hidden_size), "__layout__": "NC"} for _ in range(self._hg_states)]

    def _hg_mapping(self) -> str:
        rows, width = self.i2h_weight.shape or (0, 0)
        return f"{width or None} -> {rows}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._hg_mapping()})"


class RNNCell(_DenseCell):
    """Elman's network: act(W x + b + U h + c).

    Args:
        hidden_size: units.
        activation: a name, a block or a function.
        input_size: width of the input, 0 to infer it.
    """

    def __init__(
        self,
        hidden_size: int,
        activation: Any = "tanh",
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        input_size: int = 0,
        prefix: str | None = None,
        params: ParameterDict | None = None,
    ) -> None:
        super().__init__(
            hidden_size,
            i2h_weight_initializer,
            h2h_weight_initializer,
            i2h_bias_initializer,
            h2h_bias_initializer,
            input_size,
            prefix,
            params,
        )
        self._activation = activation

    def _alias(self) -> str:
        return "rnn"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._hg_mapping()}, {self._activation})"

    def hybrid_forward(self, F: Any, inputs: Any, states: Any, **parameters: Any) -> Any:  # type: ignore[override]
        prefix = f"t{self._counter}_"
        i2h, h2h = self._hg_dense(F, self._hidden_size, prefix, inputs, states[0], parameters)
        total = F.elemwise_add(i2h, h2h, name=f"{prefix}plus0")
        output = self._get_activation(F, total, self._activation, name=f"{prefix}out")
        return output, [output]


class LSTMCell(_DenseCell):
    """Long short-term memory (Hochreiter and Schmidhuber, 1997); the states are h and c.

    Args:
        hidden_size: units.
        input_size: width of the input, 0 to infer it.
        activation, recurrent_activation: of the new content and of the gates.
    """

    _hg_gates = 4
    _hg_states = 2

    def __init__(
        self,
        hidden_size: int,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        input_size: int = 0,
        prefix: str | None = None,
        params: ParameterDict | None = None,
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
    ) -> None:
        super().__init__(
            hidden_size,
            i2h_weight_initializer,
            h2h_weight_initializer,
            i2h_bias_initializer,
            h2h_bias_initializer,
            input_size,
            prefix,
            params,
        )
        self._activation, self._recurrent_activation = activation, recurrent_activation

    def _alias(self) -> str:
        return "lstm"

    def hybrid_forward(self, F: Any, inputs: Any, states: Any, **parameters: Any) -> Any:  # type: ignore[override]
        prefix = f"t{self._counter}_"
        i2h, h2h = self._hg_dense(F, 4 * self._hidden_size, prefix, inputs, states[0], parameters)
        gates = F.elemwise_add(i2h, h2h, name=f"{prefix}plus0")
        i, f, c, o = F.SliceChannel(gates, num_outputs=4, name=f"{prefix}slice")
        i = self._get_activation(F, i, self._recurrent_activation, name=f"{prefix}i")
        f = self._get_activation(F, f, self._recurrent_activation, name=f"{prefix}f")
        c = self._get_activation(F, c, self._activation, name=f"{prefix}c")
        o = self._get_activation(F, o, self._recurrent_activation, name=f"{prefix}o")
        retained = F.elemwise_mul(f, states[1], name=f"{prefix}mul0")
        cell = F.elemwise_add(retained, F.elemwise_mul(i, c, name=f"{prefix}mul1"), name=f"{prefix}state")
        shown = F.Activation(cell, act_type=self._activation, name=f"{prefix}activation0")
        output = F.elemwise_mul(o, shown, name=f"{prefix}out")
        return output, [output, cell]


class GRUCell(_DenseCell):
    """Gated recurrent unit (Cho et al., 2014); the reset gate acts after the matrix product, as in cuDNN.

    Args:
        hidden_size: units.
        input_size: width of the input, 0 to infer it.
    """

    _hg_gates = 3

    def __init__(
        self,
        hidden_size: int,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        input_size: int = 0,
        prefix: str | None = None,
        params: ParameterDict | None = None,
    ) -> None:
        super().__init__(
            hidden_size,
            i2h_weight_initializer,
            h2h_weight_initializer,
            i2h_bias_initializer,
            h2h_bias_initializer,
            input_size,
            prefix,
            params,
        )

    def _alias(self) -> str:
        return "gru"

    def hybrid_forward(self, F: Any, inputs: Any, states: Any, **parameters: Any) -> Any:  # type: ignore[override]
        prefix, old = f"t{self._counter}_", states[0]
        i2h, h2h = self._hg_dense(F, 3 * self._hidden_size, prefix, inputs, old, parameters)
        xr, xz, xn = F.SliceChannel(i2h, num_outputs=3, name=f"{prefix}i2h_slice")
        hr, hz, hn = F.SliceChannel(h2h, num_outputs=3, name=f"{prefix}h2h_slice")
        reset = F.Activation(F.elemwise_add(xr, hr, name=f"{prefix}plus0"), act_type="sigmoid", name=f"{prefix}r_act")
        update = F.Activation(F.elemwise_add(xz, hz, name=f"{prefix}plus1"), act_type="sigmoid", name=f"{prefix}z_act")
        remembered = F.elemwise_mul(reset, hn, name=f"{prefix}mul0")
        new = F.Activation(
            F.elemwise_add(xn, remembered, name=f"{prefix}plus2"), act_type="tanh", name=f"{prefix}h_act"
        )
        ones = F.ones_like(update, name=f"{prefix}ones_like0")
        share = F.elemwise_sub(ones, update, name=f"{prefix}minus0")
        output = F.elemwise_add(
            F.elemwise_mul(share, new, name=f"{prefix}mul1"),
            F.elemwise_mul(update, old, name=f"{prefix}mul20"),
            name=f"{prefix}out",
        )
        return output, [output]
