# SPDX-License-Identifier: Apache-2.0
"""Dynamic attributes: values that a program takes as arguments when it runs.

A learning rate changes with every step of a schedule. As a constant of the graph it would ask for a new program each
time; a :class:`DynamicAttribute` attribute is an argument of the graph instead, a number of its own. Which attributes can be late
is said by their descriptors (``varies``), and the lowering is the one of the operator's record: it reads its
attributes through ``Scalars`` (ops/optimizer.py), which makes the arithmetic the same for both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..compiler.ir import Builder, Node
from ..compiler.ir.types import tensor_type
from ..core.dtypes import DType, i32
from .params import Double, Floats, Param, Shape, Values
from .record import Operator

__all__ = ["DynamicAttribute", "DynamicSlot", "DynamicValues", "as_stored"]


def as_stored(value: float, dtype: DType) -> float:
    """A number as it is converted to a type: integers have a value for NaN and what does not fit, the processor's."""
    if not dtype.is_float and not -(2.0**63) <= value < 2.0**63:
        value = -(2.0**63)
    if dtype is i32 and not -(2.0**31) <= value < 2.0**31:
        value = -(2.0**31)
    return value


class DynamicSlot(NamedTuple):
    """One number that a program takes.

    Attributes:
        call: which call of an operator it belongs to.
        attribute: its name.
        entry: its place in an attribute that is a list, None for a plain one.
        base: the argument is this number to the power of the attribute; None for the attribute itself.
        double: MXNet keeps the attribute in double precision.
    """

    call: int
    attribute: str
    entry: int | None
    base: float | None
    double: bool

    def value(self, numbers: Mapping[str, Any]) -> float:
        """The argument, for the attributes of the call: rounded to float, as MXNet keeps attributes."""
        number = numbers[self.attribute]
        if self.entry is not None:
            number = number[self.entry]
        if self.double:
            return float(number)
        return float(np.float32(number)) if self.base is None else self.base**number


class DynamicValues:
    """The late attributes of the calls that are lowered into one graph.

    Attributes:
        slots: the numbers in use, in the order of the graph's arguments behind ``first``.
    """

    def __init__(self, b: Builder) -> None:
        self._b = b
        self._nodes: dict[Any, Node] = {}
        self.slots: list[DynamicSlot] = []

    def values(self, op: Operator, call: int, constants: Mapping[str, Any], count: int | Mapping[str, int]) -> Values:
        """The attributes of a call: ``constants``, and late ones wherever the record says that they vary.

        Args:
            call: its number.
            count: length of the late attributes that are lists, for each by name or for all.
        """
        late = {}
        for name in op.varies:
            length = count if isinstance(count, int) else count.get(name, 1)
            late[name] = self._late(call, name, op.params[name], length)
        # late ones that the record requires are checked with a stand-in, which any number is as good for
        stand_in = {n: (1,) * len(v) if isinstance(v, tuple) else 1 for n, v in late.items()}
        # None that was parsed is not what None in a program is: element types would become float64
        chosen = {n: v for n, v in constants.items() if v is not None or op.params[n].default is not None}
        return Values({**op.parse({**chosen, **stand_in}).as_dict(), **late})

    def _late(self, call: int, name: str, param: Param, count: int) -> DynamicAttribute | tuple[DynamicAttribute, ...]:
        if isinstance(param, (Floats, Shape)):
            return tuple(DynamicAttribute(self, DynamicSlot(call, name, k, None, False)) for k in range(count))
        return DynamicAttribute(self, DynamicSlot(call, name, None, None, isinstance(param, Double)))

    def argument(self, slot: DynamicSlot, dtype: DType) -> Node:
        """The argument that holds a number, made at its first use."""
        # the factor of gradients is one for all
        key = (slot if slot.attribute != "rescale_grad" else slot._replace(call=0), dtype)
        node = self._nodes.get(key)
        if node is None:
            name = f"{slot.attribute}{slot.call}" + ("" if slot.entry is None else f"_{slot.entry}")
            node = self._nodes[key] = self._b.input(tensor_type((), dtype), name)
            self.slots.append(slot)
        return node


class DynamicAttribute:
    """An attribute of a call, or an entry of one."""

    def __init__(self, numbers: DynamicValues, slot: DynamicSlot) -> None:
        self._numbers, self._slot = numbers, slot

    def number(self, dtype: DType) -> Node:
        """It, as an argument of shape ()."""
        return self._numbers.argument(self._slot, dtype)

    def power(self, base: float, dtype: DType) -> Node:
        """``base`` to its power, computed in double precision before the program runs."""
        return self._numbers.argument(self._slot._replace(base=base), dtype)
