# SPDX-License-Identifier: Apache-2.0
"""Automatic mixed precision: the element type in which each operator computes.

A policy is asked where a graph is made, never where one runs: by the eager functions when they lower an operator for
types that they have not met, and by Symbols when they make a node. Without a policy calls cost what they cost before.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from ..core.dataclass import dataclass, field
from ..core.dtypes import DType, bf16, f16, f32

if TYPE_CHECKING:
    from ..compiler.ir import Builder, Node
    from .params import Values
    from .record import Operator

__all__ = ["MIXED", "WIDEST", "Policy", "active", "cast_inputs", "use", "wide"]

#: the types between which automatic mixed precision casts; all others stay
MIXED = (f32, f16, bf16)
#: in place of a type: the widest that one of the inputs has
WIDEST = "widest"


def wide(b: Builder, x: Node) -> Node:
    """Half precision as float, in which operators compute; other types as they are."""
    return b.cast(x, f32) if x.dtype.is_half else x


@dataclass(frozen=True, eq=False)
class Policy:
    """Which operators compute in which type.

    Attributes:
        low: the narrow type.
        rules: name of an operator, canonical or alias -> type of its inputs; operators that are not named take any.
        conditions: name -> (attribute, texts) pairs; with one of these attributes the operator computes in float32.
        full_inputs: name -> inputs that are not cast to the narrow type.
    """

    low: DType
    rules: Mapping[str, DType | str]
    conditions: Mapping[str, Sequence[tuple[str, Collection[str]]]] = field(default_factory=dict)
    full_inputs: Mapping[str, Collection[str]] = field(default_factory=dict)

    def wanted(self, op: Operator, values: Values) -> DType | str | None:
        """The type of an operator's inputs, ``WIDEST``, or None for any."""
        if op.mutates and not op.auxiliary:
            return None  # what it writes into is an argument, not a copy of another type
        names = (op.name, *op.aliases)
        for name in names:
            for attribute, texts in self.conditions.get(name, ()):
                if str(getattr(values, attribute)) in texts:
                    return f32
        return next((self.rules[n] for n in names if n in self.rules), None)

    def stays(self, op: Operator, values: Values, name: str, dtype: DType | str) -> bool:
        """Whether an input keeps its type although ``dtype`` is wanted."""
        if name in op.auxiliary_names(values):
            return True
        return dtype is self.low and any(name in self.full_inputs.get(n, ()) for n in (op.name, *op.aliases))

    def dtypes(self, op: Operator, values: Values, given: Sequence[DType]) -> Sequence[DType]:
        """The types in which an operator computes when it is given arrays of certain types."""
        wanted = self.wanted(op, values)
        if wanted is None:
            return given
        if isinstance(wanted, str):
            wide = f32 if f32 in given else self.low
            return [wide if d is self.low else d for d in given]
        names = op.input_names(values, len(given))
        return [
            d if d not in MIXED or self.stays(op, values, n, wanted) else wanted
            for n, d in zip(names, given, strict=False)
        ]


_policy: Policy | None = None


def active() -> Policy | None:
    """The policy, None where operators compute in the types that they are given."""
    return _policy


def use(policy: Policy | None) -> None:
    """Set the policy of graphs that are made from now on; keeps those that are there."""
    global _policy
    _policy = policy


def cast_inputs(b: Builder, op: Operator, values: Values, inputs: Sequence[Node]) -> Sequence[Node]:
    """The inputs of an operator in the types of the policy."""
    if _policy is None:
        return inputs
    dtypes = _policy.dtypes(op, values, [x.dtype for x in inputs])
    return [b.cast(x, d) for x, d in zip(inputs, dtypes, strict=True)]
