# SPDX-License-Identifier: Apache-2.0
"""Attributes whose values are not known when an operator is lowered, but given to the program when it runs.

A learning rate changes with every step of a schedule. As a constant of the graph it would ask for a new program each
time; a :class:`Late` attribute is an argument of the graph instead, a number of its own. Which attributes can be late
is said by their descriptors (``varies``), and the lowering is the one of the operator's record: it reads its
attributes through ``Scalars`` (ops/optimizer.py), which makes the arithmetic the same for both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..compiler.ir import Builder, Node
from ..compiler.ir.types import tensor_type
from ..dtypes import DType
from .params import Floats, Param, Shape, Values
from .record import Operator

__all__ = ["Late", "LateNumbers", "Slot"]


class Slot(NamedTuple):
    """One number that a program takes.

    Attributes:
        call: which call of an operator it belongs to.
        attribute: its name.
        entry: its place in an attribute that is a list, None for a plain one.
        base: the argument is this number to the power of the attribute; None for the attribute itself.
    """

    call: int
    attribute: str
    entry: int | None
    base: float | None

    def value(self, numbers: Mapping[str, Any]) -> float:
        """The argument, for the attributes of the call: rounded to float, as MXNet keeps attributes."""
        given = numbers[self.attribute]
        if self.entry is not None:
            given = given[self.entry]
        return float(np.float32(given)) if self.base is None else self.base**given


class LateNumbers:
    """The late attributes of the calls that are lowered into one graph.

    Attributes:
        slots: the numbers in use, in the order of the graph's arguments behind ``first``.
    """

    def __init__(self, b: Builder) -> None:
        self._b = b
        self._nodes: dict[Any, Node] = {}
        self.slots: list[Slot] = []

    def values(self, op: Operator, call: int, constants: Mapping[str, Any], count: int) -> Values:
        """The attributes of a call: ``constants``, and late ones wherever the record says that they vary.

        Args:
            call: its number.
            count: length of the late attributes that are lists.
        """
        late = {n: self._late(call, n, p, count) for n, p in op.params.items() if p.varies}
        # late ones that the record requires are checked with a stand-in, which any number is as good for
        stand_in = {n: (1,) * count if isinstance(v, tuple) else 1 for n, v in late.items()}
        return Values({**op.parse({**constants, **stand_in}).as_dict(), **late})

    def _late(self, call: int, name: str, param: Param, count: int) -> Late | tuple[Late, ...]:
        if isinstance(param, (Floats, Shape)):
            return tuple(Late(self, call, name, k) for k in range(count))
        return Late(self, call, name, None)

    def argument(self, slot: Slot, dtype: DType) -> Node:
        """The argument that holds a number, made at its first use."""
        # the factor of gradients is one for all
        key = (slot if slot.attribute != "rescale_grad" else slot._replace(call=0), dtype)
        found = self._nodes.get(key)
        if found is None:
            name = f"{slot.attribute}{slot.call}" + ("" if slot.entry is None else f"_{slot.entry}")
            found = self._nodes[key] = self._b.input(tensor_type((), dtype), name)
            self.slots.append(slot)
        return found


class Late:
    """An attribute of a call, or an entry of one."""

    def __init__(self, numbers: LateNumbers, call: int, attribute: str, entry: int | None) -> None:
        self._numbers, self._place = numbers, (call, attribute, entry)

    def number(self, dtype: DType) -> Node:
        """It, as an argument of shape ()."""
        return self._numbers.argument(Slot(*self._place, None), dtype)

    def power(self, base: float, dtype: DType) -> Node:
        """``base`` to its power, computed in double precision before the program runs."""
        return self._numbers.argument(Slot(*self._place, base), dtype)
