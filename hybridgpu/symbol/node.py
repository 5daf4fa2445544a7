# SPDX-License-Identifier: Apache-2.0
"""Nodes of a Symbol graph: variables and operator applications."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..core.dataclass import dataclass, field
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
        versions: of the inputs, where a file gave them, which say how often states had changed; of a variable that a
            file has among its heads, its own.
    """

    op: Operator | None
    name: str
    attrs: dict[str, str]
    inputs: list[Entry] = field(default_factory=list)
    subgraphs: list[Any] = field(default_factory=list)
    line: str = ""
    block: str = ""
    versions: Sequence[int] = ()
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
        return f"{self.name}_{self.op.output_suffix(self.values, index)}"

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


def topological(
    heads: Iterable[Entry], inputs: Callable[[SymbolNode], Sequence[Entry]] = lambda node: node.inputs
) -> list[SymbolNode]:
    """Every node that the heads need: depth first, inputs from left to right, without recursion."""
    order: list[SymbolNode] = []
    done: set[SymbolNode] = set()
    for head, _ in heads:
        if head in done:
            continue
        path = [(head, iter(inputs(head)))]  # from the head down, with what is left of each one's inputs
        while path:
            node, left = path[-1]
            for child, _ in left:
                if child not in done:
                    path.append((child, iter(inputs(child))))
                    break
            else:
                path.pop()
                done.add(node)
                order.append(node)
    return order


_AUX_INIT = {
    "moving_mean": '["zero", {}]',
    "moving_var": '["one", {}]',
    "running_mean": '["zero", {}]',
    "running_var": '["one", {}]',
}


def name_initializers(op: Operator, names: Iterable[str], inputs: Iterable[Entry]) -> None:
    """Give the variables among an operator's inputs the initializer it wants, unless they have one."""
    for name, (variable, _) in zip(names, inputs, strict=False):
        initial = op.initial.get(name) or (_AUX_INIT.get(name) if name in op.auxiliary else None)
        if initial and variable.op is None and "__init__" not in variable.attrs:
            variable.attrs = dict(sorted([*variable.attrs.items(), ("__init__", initial)]))
