# SPDX-License-Identifier: Apache-2.0
"""Symbolic cells made of other cells, and the fused cell."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .. import initializer, ndarray, symbol
from ..base import numeric_types
from ..symbol import Symbol
from .cells import CALLED_DIRECTLY, BaseRNNCell, GRUCell, LSTMCell, RNNCell, RNNParams, sequence

__all__ = [
    "BidirectionalCell",
    "DropoutCell",
    "FusedRNNCell",
    "ModifierCell",
    "ResidualCell",
    "SequentialRNNCell",
    "ZoneoutCell",
]


class _Group(BaseRNNCell):
    """What cells with several children share."""

    @property
    def state_info(self) -> list[dict[str, Any]]:
        """Those of all cells."""
        return [info for cell in self._cells for info in cell.state_info]

    def begin_state(self, func: Any = symbol.zeros, **kwargs: Any) -> list[Any]:
        """Those of all cells."""
        assert not self._modified, CALLED_DIRECTLY
        return [s for cell in self._cells for s in cell.begin_state(func, **kwargs)]

    def unpack_weights(self, args: dict[str, Any]) -> dict[str, Any]:
        """Of all cells."""
        for cell in self._cells:
            args = cell.unpack_weights(args)
        return args

    def pack_weights(self, args: dict[str, Any]) -> dict[str, Any]:
        """Of all cells."""
        for cell in self._cells:
            args = cell.pack_weights(args)
        return args


class SequentialRNNCell(_Group):
    """Cells on top of each other."""

    def __init__(self, params: RNNParams | None = None) -> None:
        super().__init__("", params)
        self._hg_override = params is not None

    def add(self, cell: BaseRNNCell) -> None:
        """Append a cell."""
        self._cells.append(cell)
        if self._hg_override:
            assert cell._own_params, "Either specify params for SequentialRNNCell or child cells, not both."
            cell.params._params.update(self.params._params)
        self.params._params.update(cell.params._params)

    def __call__(self, inputs: Any, states: Any) -> Any:
        self._counter += 1
        after: list[Any] = []
        at = 0
        for cell in self._cells:
            count = len(cell.state_info)
            inputs, new = cell(inputs, states[at : at + count])
            at += count
            after += new
        return inputs, after

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: Any = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
    ) -> tuple[Any, list[Any]]:
        """Unroll one cell after the other."""
        self.reset()
        begin_state = self.begin_state() if begin_state is None else begin_state
        after: list[Any] = []
        at = 0
        for k, cell in enumerate(self._cells):
            count = len(cell.state_info)
            merge = merge_outputs if k == len(self._cells) - 1 else None
            inputs, states = cell.unroll(length, inputs, begin_state[at : at + count], layout, merge)
            at += count
            after += states
        return inputs, after


class BidirectionalCell(_Group):
    """Two cells over a sequence, the second one from its end. It can only be unrolled."""

    def __init__(
        self, l_cell: BaseRNNCell, r_cell: BaseRNNCell, params: RNNParams | None = None, output_prefix: str = "bi_"
    ) -> None:
        super().__init__("", params)
        self._output_prefix = output_prefix
        for cell in (l_cell, r_cell):
            if params is not None:
                assert cell._own_params, "Either specify params for BidirectionalCell or child cells, not both."
                cell.params._params.update(self.params._params)
            self.params._params.update(cell.params._params)
        self._cells = [l_cell, r_cell]

    def __call__(self, inputs: Any, states: Any) -> Any:
        raise NotImplementedError("Bidirectional cannot be stepped. Please use unroll")

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: Any = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
    ) -> tuple[Any, list[Any]]:
        """Unroll both cells; the states are two lists."""
        self.reset()
        steps, axis = sequence(length, inputs, layout, False)
        begin_state = self.begin_state() if begin_state is None else begin_state
        left, right = self._cells
        count = len(left.state_info)
        one, one_states = left.unroll(length, steps, begin_state[:count], layout, merge_outputs)
        two, two_states = right.unroll(length, steps[::-1], begin_state[count:], layout, merge_outputs)
        if merge_outputs is None:
            merge_outputs = isinstance(one, Symbol) and isinstance(two, Symbol)
            if not merge_outputs:
                one, _ = sequence(length, one, layout, False)
                two, _ = sequence(length, two, layout, False)
        if merge_outputs:
            turned = symbol.reverse(two, axis=axis)
            return symbol.Concat(one, turned, dim=2, name=f"{self._output_prefix}out"), [one_states, two_states]
        outputs = [
            symbol.Concat(x, y, dim=1, name=f"{self._output_prefix}t{k}")
            for k, (x, y) in enumerate(zip(one, reversed(two), strict=True))
        ]
        return outputs, [one_states, two_states]


class DropoutCell(BaseRNNCell):
    """Dropout on the input; there are no states.

    Args:
        dropout: share of elements that become zero.
    """

    def __init__(self, dropout: float, prefix: str = "dropout_", params: RNNParams | None = None) -> None:
        super().__init__(prefix, params)
        assert isinstance(dropout, numeric_types), "dropout probability must be a number"
        self.dropout = dropout

    @property
    def state_info(self) -> list[dict[str, Any]]:
        """None."""
        return []

    def __call__(self, inputs: Any, states: Any) -> Any:
        return (symbol.Dropout(data=inputs, p=self.dropout) if self.dropout > 0 else inputs), states

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: Any = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
    ) -> tuple[Any, list[Any]]:
        """All steps at once where they are one Symbol."""
        self.reset()
        data, _ = sequence(length, inputs, layout, merge_outputs)
        if isinstance(data, Symbol):
            return self(data, [])  # type: ignore[no-any-return]
        return super().unroll(length, data, begin_state, layout, merge_outputs)


class ModifierCell(BaseRNNCell):
    """A cell around another one, whose variables and states it shares."""

    def __init__(self, base_cell: BaseRNNCell) -> None:
        self.base_cell = base_cell
        super().__init__()
        base_cell._modified = True

    @property
    def params(self) -> RNNParams:
        """Those of the base cell."""
        self._own_params = False
        return self.base_cell.params

    @property
    def state_info(self) -> list[dict[str, Any]]:
        """Those of the base cell."""
        return self.base_cell.state_info

    def begin_state(self, init_sym: Any = symbol.zeros, **kwargs: Any) -> list[Any]:  # type: ignore[override]
        """Those of the base cell."""
        assert not self._modified, CALLED_DIRECTLY
        self.base_cell._modified = False
        begin = self.base_cell.begin_state(func=init_sym, **kwargs)
        self.base_cell._modified = True
        return begin

    def unpack_weights(self, args: dict[str, Any]) -> dict[str, Any]:
        """Of the base cell."""
        return self.base_cell.unpack_weights(args)

    def pack_weights(self, args: dict[str, Any]) -> dict[str, Any]:
        """Of the base cell."""
        return self.base_cell.pack_weights(args)


class ZoneoutCell(ModifierCell):
    """Keeps old outputs and states at random (Krueger et al., 2016)."""

    def __init__(self, base_cell: BaseRNNCell, zoneout_outputs: float = 0.0, zoneout_states: float = 0.0) -> None:
        assert not isinstance(base_cell, FusedRNNCell), "FusedRNNCell doesn't support zoneout. Please unfuse first."
        assert not isinstance(base_cell, BidirectionalCell), (
            "BidirectionalCell doesn't support zoneout since it doesn't support step. "
            "Please add ZoneoutCell to the cells underneath instead."
        )
        self.prev_output: Any = None
        super().__init__(base_cell)
        self.zoneout_outputs, self.zoneout_states = zoneout_outputs, zoneout_states

    def reset(self) -> None:
        """Forget the last output too."""
        super().reset()
        self.prev_output = None

    def __call__(self, inputs: Any, states: Any) -> Any:
        output, new = self.base_cell(inputs, states)
        previous = symbol.zeros((0, 0)) if self.prev_output is None else self.prev_output

        def mixed(p: float, fresh: Any, old: Any) -> Any:
            return symbol.where(symbol.Dropout(symbol.ones_like(fresh), p=p), fresh, old)

        if self.zoneout_outputs != 0:
            output = mixed(self.zoneout_outputs, output, previous)
        if self.zoneout_states != 0:
            new = [mixed(self.zoneout_states, n, s) for n, s in zip(new, states, strict=True)]
        self.prev_output = output
        return output, new


class ResidualCell(ModifierCell):
    """Adds the input to the output (Wu et al., 2016)."""

    def __call__(self, inputs: Any, states: Any) -> Any:
        output, states = self.base_cell(inputs, states)
        return symbol.elemwise_add(output, inputs, name=f"{output.name}_plus_residual"), states

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: Any = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
    ) -> tuple[Any, list[Any]]:
        """Unroll the base cell, then add the inputs."""
        self.reset()
        self.base_cell._modified = False
        outputs, states = self.base_cell.unroll(length, inputs, begin_state, layout, merge_outputs)
        self.base_cell._modified = True
        merge = isinstance(outputs, Symbol) if merge_outputs is None else merge_outputs
        data, _ = sequence(length, inputs, layout, merge)

        def added(output: Any, x: Any) -> Any:
            return symbol.elemwise_add(output, x, name=f"{output.name}_plus_residual")

        if merge:
            return added(outputs, data), states
        return [added(o, x) for o, x in zip(outputs, data, strict=True)], states


class FusedRNNCell(BaseRNNCell):
    """Layers of cells as one operator over the whole sequence. It can only be unrolled.

    Args:
        num_hidden: units of a layer.
        num_layers: layers on top of each other.
        mode: 'rnn_relu', 'rnn_tanh', 'lstm' or 'gru'.
        bidirectional: every layer runs in both directions.
        dropout: rate between layers.
        get_next_state: return the last states.
        forget_bias: initial bias of the forget gate.
    """

    def __init__(
        self,
        num_hidden: int,
        num_layers: int = 1,
        mode: str = "lstm",
        bidirectional: bool = False,
        dropout: float = 0.0,
        get_next_state: bool = False,
        forget_bias: float = 1.0,
        prefix: str | None = None,
        params: RNNParams | None = None,
    ) -> None:
        super().__init__(f"{mode}_" if prefix is None else prefix, params)
        kinds: dict[str, Any] = {"lstm": LSTMCell, "gru": GRUCell}
        self._hg_cell: Any = kinds.get(mode, RNNCell)
        self._gate_names = self._hg_cell._gate_names
        self._num_hidden, self._num_layers, self._mode = num_hidden, num_layers, mode
        self._bidirectional, self._dropout, self._get_next_state = bidirectional, dropout, get_next_state
        filler = initializer.FusedRNN(None, num_hidden, num_layers, mode, bidirectional, forget_bias)
        self._parameter = self.params.get("parameters", init=filler)

    @property
    def state_info(self) -> list[dict[str, Any]]:
        """Each state is (layers * directions, N, num_hidden)."""
        shape = ((1 + self._bidirectional) * self._num_layers, 0, self._num_hidden)
        return [{"shape": shape, "__layout__": "LNC"} for _ in range(2 if self._mode == "lstm" else 1)]

    def __call__(self, inputs: Any, states: Any) -> Any:
        raise NotImplementedError("FusedRNNCell cannot be stepped. Please use unroll")

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: Any = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
    ) -> tuple[Any, list[Any]]:
        """The whole sequence."""
        self.reset()
        data, axis = sequence(length, inputs, layout, True)
        if axis == 1:
            data = symbol.swapaxes(data, dim1=0, dim2=1)
        begin = self.begin_state() if begin_state is None else begin_state
        states = dict(zip(("state", "state_cell"), begin, strict=False))
        result = symbol.RNN(
            data=data,
            parameters=self._parameter,
            state_size=self._num_hidden,
            num_layers=self._num_layers,
            bidirectional=self._bidirectional,
            p=self._dropout,
            state_outputs=self._get_next_state,
            mode=self._mode,
            name=f"{self._prefix}rnn",
            **states,
        )
        last = [result[k + 1] for k in range(len(states))] if self._get_next_state else []
        outputs = result[0]
        if axis == 1:
            outputs = symbol.swapaxes(outputs, dim1=0, dim2=1)
        return sequence(length, outputs, layout, merge_outputs)[0], last

    def unfuse(self) -> SequentialRNNCell:
        """The same network as a stack of cells."""
        stack = SequentialRNNCell()

        def cell(prefix: str) -> BaseRNNCell:
            if self._hg_cell is RNNCell:
                return RNNCell(self._num_hidden, self._mode[4:], prefix=prefix)
            result: BaseRNNCell = self._hg_cell(self._num_hidden, prefix=prefix)
            return result

        for k in range(self._num_layers):
            left = cell(f"{self._prefix}l{k}_")
            if self._bidirectional:
                right = cell(f"{self._prefix}r{k}_")
                stack.add(BidirectionalCell(left, right, output_prefix=f"{self._prefix}bi_l{k}_"))
            else:
                stack.add(left)
            if self._dropout > 0 and k != self._num_layers - 1:
                stack.add(DropoutCell(self._dropout, prefix=f"{self._prefix}_dropout{k}_"))
        return stack

    # -- the vector of all parameters

    def _hg_pieces(self, inputs: int) -> Iterator[tuple[str, tuple[int, ...]]]:
        """(name, shape) of every gate's part of the vector, in order."""
        h, sides = self._num_hidden, "lr"[: 1 + self._bidirectional]
        for kind in ("weight", "bias"):
            for layer in range(self._num_layers):
                for side in sides:
                    for group in ("i2h", "h2h"):
                        width = h if group == "h2h" else inputs if layer == 0 else h * len(sides)
                        shape = (h, width) if kind == "weight" else (h,)
                        for gate in self._gate_names:
                            yield f"{self._prefix}{side}{layer}_{group}{gate}_{kind}", shape

    def unpack_weights(self, args: dict[str, Any]) -> dict[str, Any]:
        """Arrays with the vector taken apart, gate by gate."""
        args = dict(args)
        packed = args.pop(self._parameter.name or "")
        b, m, h = 1 + self._bidirectional, len(self._gate_names), self._num_hidden
        inputs = packed.size // b // h // m - (self._num_layers - 1) * (h + b * h + 2) - h - 2
        at = 0
        for name, shape in self._hg_pieces(inputs):
            size = shape[0] * (shape[1] if len(shape) > 1 else 1)
            args[name] = packed[at : at + size].reshape(shape).copy()
            at += size
        assert at == packed.size, "Invalid parameters size for FusedRNNCell"
        return args

    def pack_weights(self, args: dict[str, Any]) -> dict[str, Any]:
        """The opposite of ``unpack_weights``."""
        args = dict(args)
        inputs = args[f"{self._prefix}l0_i2h{self._gate_names[0]}_weight"].shape[1]
        parts = [args.pop(name).reshape((-1,)) for name, _ in self._hg_pieces(inputs)]
        args[self._parameter.name or ""] = ndarray.concatenate(parts)
        return args
