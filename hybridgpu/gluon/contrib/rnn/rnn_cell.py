# SPDX-License-Identifier: Apache-2.0
"""Variational dropout, projected LSTM, and unrolling by foreach."""

from __future__ import annotations

from typing import Any

from ...parameter import ParameterDict
from ...rnn import BidirectionalCell, HybridRecurrentCell, ModifierCell
from ...rnn.sequence import Sequence, masked

__all__ = ["LSTMPCell", "VariationalDropoutCell", "dynamic_unroll"]


class VariationalDropoutCell(ModifierCell):
    """Dropout with one mask for all steps (Gal and Ghahramani, 2016), until ``reset``.

    Args:
        drop_inputs, drop_states, drop_outputs: rates; of the states, the first one is dropped.
    """

    def __init__(
        self, base_cell: Any, drop_inputs: float = 0.0, drop_states: float = 0.0, drop_outputs: float = 0.0
    ) -> None:
        assert not drop_states or not isinstance(base_cell, BidirectionalCell), (
            "BidirectionalCell doesn't support variational state dropout. "
            "Please add VariationalDropoutCell to the cells underneath instead."
        )
        super().__init__(base_cell)
        self.drop_inputs, self.drop_states, self.drop_outputs = drop_inputs, drop_states, drop_outputs
        self._hg_masks: dict[str, Any] = {}

    def _alias(self) -> str:
        return "vardrop"

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p_out = {self.drop_outputs}, p_state = {self.drop_states})"

    def reset(self) -> None:
        """Draw new masks at the next step."""
        super().reset()
        self._hg_masks = {}

    def _hg_dropped(self, F: Any, x: Any, name: str, rate: float) -> Any:
        if not rate:
            return x
        if name not in self._hg_masks:
            self._hg_masks[name] = F.Dropout(F.ones_like(x), p=rate)
        return x * self._hg_masks[name]

    def hybrid_forward(self, F: Any, inputs: Any, states: Any) -> Any:  # type: ignore[override]
        if self.drop_states:  # a cell without states has no first one
            states = [self._hg_dropped(F, states[0], "states", self.drop_states), *states[1:]]
        inputs = self._hg_dropped(F, inputs, "x", self.drop_inputs)
        output, new = self.base_cell(inputs, states)
        return self._hg_dropped(F, output, "outputs", self.drop_outputs), new

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: Any = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
        valid_length: Any = None,
    ) -> tuple[Any, list[Any]]:
        """As RecurrentCell; where states are not dropped, whole sequences are."""
        if self.drop_states:
            return super().unroll(length, inputs, begin_state, layout, merge_outputs, valid_length)
        self.reset()
        sequence = Sequence(inputs, layout, length)
        F, axis, data = sequence.F, sequence.axis, sequence.tensor()
        states = self._hg_start(sequence, begin_state)
        if self.drop_inputs:
            data = F.Dropout(data, p=self.drop_inputs, axes=(axis,))
        outputs, states = self.base_cell.unroll(length, data, states, layout, True, valid_length)
        if self.drop_outputs:
            outputs = F.Dropout(outputs, p=self.drop_outputs, axes=(axis,))
        merge = True if merge_outputs is None else merge_outputs
        if valid_length is not None:
            return masked(F, outputs, length, valid_length, axis, merge), states
        return Sequence(outputs, layout, length).merged(merge), states


class LSTMPCell(HybridRecurrentCell):
    """LSTM whose output is projected to fewer units (Sak et al., 2014); the states are the projection and c.

    Args:
        hidden_size: units of c.
        projection_size: units of the output.
        input_size: width of the input, 0 to infer it.
    """

    def __init__(
        self,
        hidden_size: int,
        projection_size: int,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        h2r_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        input_size: int = 0,
        prefix: str | None = None,
        params: ParameterDict | None = None,
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        self._hidden_size, self._projection_size, self._input_size = hidden_size, projection_size, input_size
        rows = 4 * hidden_size
        self._hg_add_parameters(
            {
                "i2h_weight": (rows, input_size),
                "h2h_weight": (rows, projection_size),
                "h2r_weight": (projection_size, hidden_size),
                "i2h_bias": (rows,),
                "h2h_bias": (rows,),
            },
            {
                "i2h_weight": i2h_weight_initializer,
                "h2h_weight": h2h_weight_initializer,
                "h2r_weight": h2r_weight_initializer,
                "i2h_bias": i2h_bias_initializer,
                "h2h_bias": h2h_bias_initializer,
            },
        )

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """The projection and c."""
        sizes = (self._projection_size, self._hidden_size)
        return [{"shape": (batch_size, size), "__layout__": "NC"} for size in sizes]

    def _alias(self) -> str:
        return "lstmp"

    def __repr__(self) -> str:
        rows, width = self.i2h_weight.shape or (0, 0)
        return f"{type(self).__name__}({width or None} -> {rows} -> {self._projection_size})"

    def hybrid_forward(self, F: Any, inputs: Any, states: Any, **parameters: Any) -> Any:  # type: ignore[override]
        prefix = f"t{self._counter}_"
        i2h, h2h = self._hg_dense(F, 4 * self._hidden_size, prefix, inputs, states[0], parameters)
        i, f, c, o = F.SliceChannel(i2h + h2h, num_outputs=4, name=f"{prefix}slice")
        i = F.Activation(i, act_type="sigmoid", name=f"{prefix}i")
        f = F.Activation(f, act_type="sigmoid", name=f"{prefix}f")
        c = F.Activation(c, act_type="tanh", name=f"{prefix}c")
        o = F.Activation(o, act_type="sigmoid", name=f"{prefix}o")
        cell = F.elemwise_add(f * states[1], i * c, name=f"{prefix}state")
        hidden = F.elemwise_mul(o, F.Activation(cell, act_type="tanh"), name=f"{prefix}hidden")
        output = F.FullyConnected(
            data=hidden,
            num_hidden=self._projection_size,
            weight=parameters["h2r_weight"],
            no_bias=True,
            name=f"{prefix}out",
        )
        return output, [output, cell]


def dynamic_unroll(
    cell: Any,
    inputs: Any,
    begin_state: Any,
    drop_inputs: float = 0,
    drop_outputs: float = 0,
    layout: str = "TNC",
    valid_length: Any = None,
) -> tuple[Any, Any]:
    """Unroll a cell by ``contrib.foreach``, over as many steps as the input has.

    Args:
        inputs: one tensor in the given layout.
        begin_state: initial states.
        drop_inputs, drop_outputs: rates of dropout with one mask for all steps.
        valid_length: number of valid steps of each sequence, shape (N,).

    Returns:
        (outputs, last states).
    """
    sequence = Sequence(inputs, layout)
    F, axis, data = sequence.F, sequence.axis, sequence.tensor()
    order = list(range(len(layout)))
    order[0], order[axis] = order[axis], order[0]

    def turned(x: Any) -> Any:
        return F.transpose(x, axes=order) if axis else x

    data = turned(data)
    if drop_inputs:
        data = F.Dropout(data, p=drop_inputs, axes=(axis,))
    states: Any = begin_state
    step = cell
    if valid_length is not None:
        states = [*([states] if not isinstance(states, (list, tuple)) else states), F.zeros((1,))]

        def step(x: Any, states: Any) -> Any:
            *old, number = states
            output, new = cell(x, old)
            active = F.broadcast_greater(valid_length, number)
            masked = [F.where(active, n, o) for n, o in zip(new, old, strict=True)]
            return output, [*masked, number + 1]

    outputs, states = F.contrib.foreach(step, data, states)
    if drop_outputs:
        outputs = F.Dropout(outputs, p=drop_outputs, axes=(axis,))
    outputs = turned(outputs)
    if valid_length is None:
        return outputs, states
    outputs = F.SequenceMask(outputs, sequence_length=valid_length, use_sequence_length=True, axis=axis)
    return outputs, states[:-1]
