# SPDX-License-Identifier: Apache-2.0
"""Cells made of other cells: sequences of cells, two directions, and modifiers."""

from __future__ import annotations

from typing import Any

from ... import symbol
from ...base import numeric_types
from ..block import indent
from ..parameter import ParameterDict
from .cells import _CALLED_DIRECTLY, HybridRecurrentCell, RecurrentCell
from .sequence import Sequence, is_tensor, masked, reversed_steps

__all__ = [
    "BidirectionalCell",
    "DropoutCell",
    "HybridSequentialRNNCell",
    "ModifierCell",
    "ResidualCell",
    "SequentialRNNCell",
    "ZoneoutCell",
]


class _CellContainer(RecurrentCell):
    """Cells that have the states of all their children, one after the other."""

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Those of all cells."""
        return [info for cell in self._children.values() for info in cell.state_info(batch_size)]  # type: ignore[attr-defined]

    def begin_state(self, batch_size: int = 0, **kwargs: Any) -> list[Any]:  # type: ignore[override]
        """Those of all cells."""
        assert not self._modified, _CALLED_DIRECTLY
        return [s for cell in self._children.values() for s in cell.begin_state(batch_size=batch_size, **kwargs)]  # type: ignore[attr-defined]


class _Stack(_CellContainer):
    """What both kinds of stacks share."""

    def __repr__(self) -> str:
        lines = [f"({name}): {indent(repr(cell), 2)}" for name, cell in self._children.items()]
        return f"{type(self).__name__}(\n" + "\n".join(lines) + "\n)"

    def add(self, cell: Any) -> None:
        """Append a cell."""
        self.register_child(cell)

    def __getitem__(self, i: int) -> Any:
        return self._children[str(i)]

    def __len__(self) -> int:
        return len(self._children)

    def __call__(self, inputs: Any, states: Any) -> Any:
        self._counter += 1
        after: list[Any] = []
        at = 0
        for cell in self._children.values():
            assert not isinstance(cell, BidirectionalCell), "BidirectionalCell cannot be stepped. Please use unroll"
            count = len(cell.state_info())  # type: ignore[attr-defined]
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
        valid_length: Any = None,
    ) -> tuple[Any, list[Any]]:
        """Unroll one cell after the other; see RecurrentCell."""
        self.reset()
        begin_state = self._hg_start(Sequence(inputs, layout, length), begin_state)
        cells = list(self._children.values())
        after: list[Any] = []
        at = 0
        for k, cell in enumerate(cells):
            count = len(cell.state_info())  # type: ignore[attr-defined]
            inputs, states = cell.unroll(  # type: ignore[attr-defined]
                length,
                inputs=inputs,
                begin_state=begin_state[at : at + count],
                layout=layout,
                merge_outputs=merge_outputs if k == len(cells) - 1 else None,
                valid_length=valid_length,
            )
            at += count
            after += states
        return inputs, after


class SequentialRNNCell(_Stack):
    """Cells on top of each other."""

    def hybrid_forward(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


class HybridSequentialRNNCell(_Stack, HybridRecurrentCell):
    """Hybridizable cells on top of each other."""

    def hybrid_forward(self, F: Any, inputs: Any, states: Any) -> Any:  # type: ignore[override]
        return self(inputs, states)


class DropoutCell(HybridRecurrentCell):
    """Dropout on the input; there are no states.

    Args:
        rate: share of elements that become zero.
        axes: axes along which one mask is shared.
    """

    def __init__(
        self, rate: float, axes: Any = (), prefix: str | None = None, params: ParameterDict | None = None
    ) -> None:
        super().__init__(prefix, params)
        assert isinstance(rate, numeric_types), "rate must be a number"
        self._rate, self._axes = rate, axes

    def __repr__(self) -> str:
        return f"{type(self).__name__}(rate={self._rate}, axes={self._axes})"

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """None."""
        return []

    def _alias(self) -> str:
        return "dropout"

    def hybrid_forward(self, F: Any, inputs: Any, states: Any) -> Any:  # type: ignore[override]
        if self._rate > 0:
            inputs = F.Dropout(data=inputs, p=self._rate, axes=self._axes, name=f"t{self._counter}_fwd")
        return inputs, states

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: Any = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
        valid_length: Any = None,
    ) -> tuple[Any, list[Any]]:
        """All steps at once where they are one tensor."""
        self.reset()
        sequence = Sequence(inputs, layout, length)
        data = sequence.merged(merge_outputs)
        if is_tensor(data):
            return self.hybrid_forward(sequence.F, data, begin_state or [])  # type: ignore[no-any-return]
        return super().unroll(length, data, begin_state=begin_state, layout=layout, merge_outputs=merge_outputs)


class ModifierCell(HybridRecurrentCell):
    """A cell around another one, whose parameters and states it shares; call it instead of the other."""

    def __init__(self, base_cell: Any) -> None:
        assert not base_cell._modified, f"Cell {base_cell.name} is already modified. One cell cannot be modified twice"
        base_cell._modified = True
        super().__init__(prefix=base_cell.prefix + self._alias(), params=None)
        self.base_cell = base_cell

    @property
    def params(self) -> ParameterDict:
        """Those of the base cell."""
        inner_params: ParameterDict = self.base_cell.params
        return inner_params

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Those of the base cell."""
        infos: list[dict[str, Any]] = self.base_cell.state_info(batch_size)
        return infos

    def begin_state(self, func: Any = symbol.zeros, **kwargs: Any) -> list[Any]:  # type: ignore[override]
        """Those of the base cell."""
        assert not self._modified, _CALLED_DIRECTLY
        self.base_cell._modified = False
        try:
            begin: list[Any] = self.base_cell.begin_state(func=func, **kwargs)
        finally:
            self.base_cell._modified = True
        return begin

    def hybrid_forward(self, F: Any, inputs: Any, states: Any) -> Any:  # type: ignore[override]
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_cell})"


class ZoneoutCell(ModifierCell):
    """Keeps old outputs and states at random (Krueger et al., 2016).

    Args:
        zoneout_outputs, zoneout_states: probability of keeping an element.
    """

    def __init__(self, base_cell: Any, zoneout_outputs: float = 0.0, zoneout_states: float = 0.0) -> None:
        assert not isinstance(base_cell, BidirectionalCell), (
            "BidirectionalCell doesn't support zoneout since it doesn't support step. "
            "Please add ZoneoutCell to the cells underneath instead."
        )
        super().__init__(base_cell)
        self.zoneout_outputs, self.zoneout_states = zoneout_outputs, zoneout_states
        self._prev_output: Any = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p_out={self.zoneout_outputs}, p_state={self.zoneout_states}, {self.base_cell})"

    def _alias(self) -> str:
        return "zoneout"

    def reset(self) -> None:
        """Forget the last output too."""
        super().reset()
        self._prev_output = None

    def hybrid_forward(self, F: Any, inputs: Any, states: Any) -> Any:  # type: ignore[override]
        output, new = self.base_cell(inputs, states)
        previous = self._prev_output
        if previous is None:
            previous = F.zeros_like(output)

        def mixed(p: float, fresh: Any, old: Any) -> Any:
            return F.where(F.Dropout(F.ones_like(fresh), p=p), fresh, old)

        if self.zoneout_outputs != 0:
            output = mixed(self.zoneout_outputs, output, previous)
        if self.zoneout_states != 0:
            new = [mixed(self.zoneout_states, n, s) for n, s in zip(new, states, strict=True)]
        self._prev_output = output
        return output, new


class ResidualCell(ModifierCell):
    """Adds the input to the output (Wu et al., 2016)."""

    def hybrid_forward(self, F: Any, inputs: Any, states: Any) -> Any:  # type: ignore[override]
        output, states = self.base_cell(inputs, states)
        return F.elemwise_add(output, inputs, name=f"t{self._counter}_fwd"), states

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: Any = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
        valid_length: Any = None,
    ) -> tuple[Any, list[Any]]:
        """Unroll the base cell, then add the inputs; see RecurrentCell."""
        self.reset()
        self.base_cell._modified = False
        try:
            outputs, states = self.base_cell.unroll(
                length,
                inputs=inputs,
                begin_state=begin_state,
                layout=layout,
                merge_outputs=merge_outputs,
                valid_length=valid_length,
            )
        finally:
            self.base_cell._modified = True
        merge = is_tensor(outputs) if merge_outputs is None else merge_outputs
        sequence = Sequence(inputs, layout, length)
        F, data = sequence.F, sequence.merged(merge)
        if valid_length is not None:
            data = masked(F, data, length, valid_length, sequence.axis, merge)
        if merge:
            return F.elemwise_add(outputs, data), states
        return [F.elemwise_add(o, x) for o, x in zip(outputs, data, strict=True)], states


class BidirectionalCell(_CellContainer, HybridRecurrentCell):
    """Two cells over a sequence, the second one from its end; outputs lie side by side. It can only be unrolled.

    Args:
        l_cell, r_cell: from the beginning, and from the end.
        output_prefix: of the names of the joined outputs.
    """

    def __init__(self, l_cell: Any, r_cell: Any, output_prefix: str = "bi_") -> None:
        super().__init__(prefix="", params=None)
        self.register_child(l_cell, "l_cell")
        self.register_child(r_cell, "r_cell")
        self._output_prefix = output_prefix

    def __call__(self, inputs: Any, states: Any) -> Any:
        raise NotImplementedError("Bidirectional cannot be stepped. Please use unroll")

    def __repr__(self) -> str:
        cells = self._children
        return f"{type(self).__name__}(forward={cells['l_cell']}, backward={cells['r_cell']})"

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: Any = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
        valid_length: Any = None,
    ) -> tuple[Any, list[Any]]:
        """Unroll both cells; see RecurrentCell."""
        self.reset()
        sequence = Sequence(inputs, layout, length)
        F, axis, steps = sequence.F, sequence.axis, sequence.steps()
        states = self._hg_start(sequence, begin_state)
        left: Any
        right: Any
        left, right = self._children.values()
        first = len(left.state_info(sequence.batch_size))
        backwards = reversed_steps(steps, length, valid_length)  # before any node of a cell, as MXNet numbers them
        one, one_states = left.unroll(
            length,
            inputs=steps,
            begin_state=states[:first],
            layout=layout,
            merge_outputs=merge_outputs,
            valid_length=valid_length,
        )
        two, two_states = right.unroll(
            length,
            inputs=backwards,
            begin_state=states[first:],
            layout=layout,
            merge_outputs=False,
            valid_length=valid_length,
        )
        two = reversed_steps(two, length, valid_length)
        merge = is_tensor(one) if merge_outputs is None else merge_outputs
        if merge:
            outputs = F.concat(one, F.stack(*two, axis=axis), dim=2, name=f"{self._output_prefix}out")
        else:
            outputs = [
                F.concat(x, y, dim=1, name=f"{self._output_prefix}t{k}")
                for k, (x, y) in enumerate(zip(one, two, strict=True))
            ]
        if valid_length is not None:
            outputs = masked(F, outputs, length, valid_length, axis, merge)
        return outputs, one_states + two_states
