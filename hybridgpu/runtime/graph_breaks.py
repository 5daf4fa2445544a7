# SPDX-License-Identifier: Apache-2.0
"""Graphs with operators that cannot be compiled: data-dependent shapes, Python code.

Such an operator ends one compiled program and the next begins behind it. A graph is cut into stages
once; each is a Symbol of its own, with its programs by signature, and what runs between them is
executed as eager code is, and recorded alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..context import Context
from ..ndarray.apply import apply
from ..ndarray.ndarray import NDArray
from ..symbol.node import Entry, SymbolNode, topological
from ..symbol.symbol import Symbol

__all__ = ["PartitionedGraph", "is_graph_break"]


def is_graph_break(node: SymbolNode) -> bool:
    """True for an operator that runs between programs."""
    return node.op is not None and (node.op.eager is not None or node.op.python is not None)


class PartitionedGraph:
    """A graph cut at the operators that end programs.

    Args:
        symbol: the graph.
        make: (symbol, names of its variables) -> callable on a list of arrays and a device, for one compiled stage.

    Attributes:
        compiled: for each stage its callable (None if nothing is to compute) with the entries it takes and gives.
        between: for each stage the nodes that run behind it.
    """

    def __init__(self, symbol: Symbol, make: Callable[[Symbol, list[str]], Callable[..., Any]]) -> None:
        self.heads = list(symbol._heads)
        order = topological(self.heads)
        stage: dict[int, int] = {}
        for n in order:
            before = max((stage[id(s)] for s, _ in n.inputs), default=0)
            stage[id(n)] = before + 1 if is_graph_break(n) else before
        count = max(stage.values()) + 1
        self.variables = [n for n in order if n.op is None]
        self.between: list[list[SymbolNode]] = [
            [n for n in order if is_graph_break(n) and stage[id(n)] == k + 1] for k in range(count)
        ]
        read: dict[tuple[int, int], set[int]] = {}  # value -> stages (or -1, the outside) that read it
        for n in order:
            for s, k in n.inputs:
                read.setdefault((id(s), k), set()).add(-1 if is_graph_break(n) else stage[id(n)])
        for s, k in self.heads:
            read.setdefault((id(s), k), set()).add(-1)
        self.compiled: list[tuple[Any, list[Entry], list[Entry]]] = []
        for k in range(count):
            members = [n for n in order if n.op is not None and not is_graph_break(n) and stage[id(n)] == k]
            self.compiled.append(_cut(members, read, k, make))

    def __call__(
        self, arrays: Sequence[NDArray], ctx: Context, watch: Callable[[Any, list[NDArray]], None] | None = None
    ) -> list[NDArray]:
        """The heads, for arrays in ``list_inputs`` order.

        Args:
            ctx: where stages run that take nothing.
            watch: called with each stage and its arguments before it runs, and with each node that runs
                between stages and its results.
        """
        env: dict[tuple[int, int], NDArray] = {(id(n), 0): a for n, a in zip(self.variables, arrays, strict=True)}
        for (run, takes, gives), between in zip(self.compiled, self.between, strict=True):
            if run is not None:
                inputs = [env[id(n), k] for n, k in takes]
                if watch is not None:
                    watch(run, inputs)
                results = run(inputs, ctx)
                env.update({(id(n), k): r for (n, k), r in zip(gives, results, strict=True)})
            for node in between:
                assert node.op is not None
                output = apply(node.op, [env[id(n), k] for n, k in node.inputs], node.values)
                values = output if isinstance(output, list) else [output]
                if watch is not None:
                    watch(node, values)
                env.update({(id(node), k): v for k, v in enumerate(values)})
        return [env[id(n), k] for n, k in self.heads]


def _cut(
    members: Sequence[SymbolNode],
    read: dict[tuple[int, int], set[int]],
    stage: int,
    make: Callable[[Symbol, list[str]], Callable[..., Any]],
) -> tuple[Any, list[Entry], list[Entry]]:
    """One stage as a Symbol whose variables are the values that come from outside."""
    copies: dict[int, SymbolNode] = {}
    outside: dict[tuple[int, int], SymbolNode] = {}
    takes: list[Entry] = []
    for n in members:
        entries: list[Entry] = []
        for s, k in n.inputs:
            if id(s) in copies:
                entries.append((copies[id(s)], k))
                continue
            variable = outside.get((id(s), k))
            if variable is None:
                # a variable keeps its name for reports; values of other stages are numbered
                name = s.name if s.op is None else f"{s.name}_value{k}"
                taken = {v.name for v in outside.values()}
                while name in taken:
                    name += "_"
                variable = outside[id(s), k] = SymbolNode(None, name, {})
                takes.append((s, k))
            entries.append((variable, 0))
        copy = SymbolNode(n.op, n.name, n.attrs, entries, n.subgraphs, n.line, n.block)
        copies[id(n)] = copy
    gives = [(n, k) for n in members for k in range(n.num_outputs) if any(r != stage for r in read.get((id(n), k), ()))]
    if not gives:
        return None, [], []
    symbol = Symbol([(copies[id(n)], k) for n, k in gives])
    used = symbol.list_inputs()
    by_name = {outside[id(s), k].name: (s, k) for s, k in takes}
    return make(symbol, used), [by_name[name] for name in used], gives
