# SPDX-License-Identifier: Apache-2.0
"""Nodes of a Symbol graph: variables and operator applications."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ..ops.params import Values
from ..ops.record import Operator

__all__ = ["Entry", "SymbolNode", "topological"]


@dataclass(eq=False)
class SymbolNode:
    """One node.

    Attributes:
        op: the operator, None for a variable.
        name: unique by convention, not by force.
        attrs: operator attributes and hidden ``__key__`` attributes, as text.
        inputs: (node, output number).
        subgraphs: graphs of control flow operators.
        line: the user's file:line.
        block: the block that made it.
    """

    op: Operator | None
    name: str
    attrs: dict[str, str]
    inputs: list[Entry] = field(default_factory=list)
    subgraphs: list[Any] = field(default_factory=list)
    line: str = ""
    block: str = ""
    _values: Values | None = None

    @property
    def values(self) -> Values:
        """The parsed operator attributes."""
        if self._values is None:
            assert self.op is not None
            self._values = self.op.parse({k: v for k, v in self.attrs.items() if not is_hidden(k)})
        return self._values

    @property
    def num_outputs(self) -> int:
        return 1 if self.op is None else self.op.num_outputs(self.values)

    @property
    def num_visible(self) -> int:
        return 1 if self.op is None else self.op.num_visible(self.values)

    def output_name(self, index: int) -> str:
        """The name of one result, as ``list_outputs`` gives it."""
        if self.op is None:
            return self.name
        suffixes = self.op.output_suffixes(self.values)
        if self.num_visible == 1 and len(suffixes) > 1 and index == 0 and not self.op.output_names:
            return f"{self.name}_output"
        return f"{self.name}_{suffixes[index]}"

    def auxiliary_inputs(self) -> set[int]:
        """Positions of inputs that are auxiliary states."""
        states = self.op.auxiliary_names(self.values) if self.op is not None else ()
        if not states or self.op is None:
            return set()
        names = self.op.input_names(self.values, len(self.inputs))
        return {k for k, n in enumerate(names) if n in states}


Entry = tuple[SymbolNode, int]


def is_hidden(key: str) -> bool:
    """True for attributes such as ``__shape__`` that are no operator's."""
    return key.startswith("__") and key.endswith("__")


def topological(heads: Iterable[Entry]) -> list[SymbolNode]:
    """Every node that the heads need: depth first, inputs from left to right, without recursion."""
    order: list[SymbolNode] = []
    done: set[int] = set()
    for head, _ in heads:
        stack: list[tuple[SymbolNode, int]] = [(head, 0)]
        while stack:
            node, k = stack.pop()
            if id(node) in done:
                continue
            if k < len(node.inputs):
                stack.append((node, k + 1))
                child = node.inputs[k][0]
                if id(child) not in done:
                    stack.append((child, 0))
                continue
            done.add(id(node))
            order.append(node)
    return order


_AUX_INIT = {
    "moving_mean": '["zero", {}]',
    "moving_var": '["one", {}]',
    "running_mean": '["zero", {}]',
    "running_var": '["one", {}]',
}


def initial_of(op: Operator, key: str) -> str | None:
    """The initializer of the variable made for an input, as text; None: whatever the program chooses."""
    return op.initial.get(key) or (_AUX_INIT.get(key) if key in op.auxiliary else None)
