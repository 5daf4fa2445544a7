# SPDX-License-Identifier: Apache-2.0
"""Repeated groups: what networks repeat layer by layer is scheduled once, and given other nodes.

A kernel of the CPU follows from the structure of its group: primitives, types, indices and what is stored, however nodes and
loop variables are called. The group's members, and the views and constants that these read, are numbered in order; groups
with the same description have kernels that differ in their nodes alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..ir.dim_texts import report_text
from ..ir.dims import Dim
from ..ir.graph import Graph
from ..ir.indexing import Expr, Index, Quotient, Remainder, Var

if TYPE_CHECKING:
    from ..ir.graph import Node
    from ..passes.fuse import Group
    from ..select import Selector
    from .kernel import Kernel

__all__ = ["RepeatedGroups"]

_Schedule = Callable[["Group", "list[Node]"], "Sequence[Kernel | None]"]


class RepeatedGroups:
    """Schedules groups; of those that are alike the first one.

    Args:
        schedule: (group, the members that are stored) -> its kernels.
        store_offsets: where elements of members that are parts of joins lie.
    """

    def __init__(
        self, schedule: _Schedule, select: Selector, store_offsets: Mapping[Node, Callable[[Index], Expr]]
    ) -> None:
        self._schedule, self._select, self._offsets = schedule, select, store_offsets
        self._schedules: dict[Any, tuple[list[Node], Sequence[Kernel | None]]] = {}

    def __call__(self, group: Group, stored: list[Node]) -> Sequence[Kernel | None]:
        if group.library is not None or not self._select.target.device.loop_nests:
            return self._schedule(group, stored)
        structure = _Structure()
        key = structure.of(group, stored, self._select, self._offsets)
        if key is None:
            return self._schedule(group, stored)
        nodes = list(structure.nodes)
        cached = self._schedules.get(key)
        if cached is None:
            kernels = self._schedule(group, stored)
            self._schedules[key] = nodes, kernels
            return kernels
        first, kernels = cached
        others = dict(zip(first, nodes, strict=True))
        return [_with_nodes(kernel, others) for kernel in kernels if kernel is not None]


def _with_nodes(kernel: Kernel, nodes: dict[Node, Node]) -> Kernel:
    """The same kernel of other nodes. Its texts may get arguments of their own later on."""
    args = kernel.runtime_args
    return replace(
        kernel,
        inputs=[nodes[n] for n in kernel.inputs],
        outputs=[nodes[n] for n in kernel.outputs],
        members=[nodes[n] for n in kernel.members],
        in_place=[(nodes[x], nodes[y]) for x, y in kernel.in_place],
        elements_read={nodes[n]: count for n, count in kernel.elements_read.items()},
        runtime_args=replace(args, values=dict(args.values), lines=dict(args.lines), _floats=dict(args._floats)),
    )


class _Structure:
    """The description of one group.

    Attributes:
        nodes: numbers of nodes, in the order in which they are met.
    """

    def __init__(self) -> None:
        self.nodes: dict[Node, int] = {}
        self._members: Collection[Node] = ()
        self._vars: dict[Var, int] = {}
        self._exprs: dict[Expr, Any] = {}
        self._parts: list[Any] = []

    def of(
        self,
        group: Group,
        stored: Sequence[Node],
        select: Selector,
        store_offsets: Mapping[Node, Callable[[Index], Expr]],
    ) -> Any:
        """The description that a group's kernels follow from, or None for a kind of group that has none."""
        if group.scatter_source is not None or group.prologues:  # whose reports name nodes
            return None
        self._members = group.index_of.keys()
        numbers, main = self.nodes, group.contraction or group.scatter
        try:
            for n in sorted(self._members, key=lambda n: n.index):
                self._node(n)
            offsets = [self._expr(store_offsets[n](group.index_of[n])) if n in store_offsets else None for n in stored]
            indices = [(numbers[n], tuple(map(self._expr, index))) for n, index in group.index_of.items()]
        except _UnknownError:
            return None
        return (
            *self._parts,
            *indices,
            tuple(map(self._var, group.vars)),
            tuple(map(self._var, group.reduced)),
            tuple(numbers[n] for n in group.over_rows),
            None if main is None else (numbers[main], main is group.scatter, select(main).kind),
            tuple(numbers[n] for n in stored),
            *offsets,
        )

    def _node(self, root: Node) -> None:
        """Describe a node and what it is computed of, down to arrays in memory; without recursion."""
        numbers, stack = self.nodes, [root]
        while stack:
            node = stack[-1]
            if node in numbers:
                stack.pop()
                continue
            member = node in self._members
            inside = member or node.prim.family == "view"
            missing = [i for i in node.inputs if i not in numbers] if inside else []
            if missing:
                stack += missing[::-1]
                continue
            stack.pop()
            read = tuple(numbers[i] for i in node.inputs) if inside else ()
            described = inside or node.prim.name in ("full", "iota")
            params = tuple((k, _param(v)) for k, v in node.params.items()) if described else ()
            numbers[node] = len(numbers)
            self._parts.append((node.prim, node.type, member, node.prov.op if node.prov else None, read, params))

    def _var(self, var: Var) -> Any:
        number = self._vars.get(var)
        if number is None:
            number = self._vars[var] = len(self._vars)
        return number, var.name, var.extent, var.start

    def _expr(self, expr: Expr) -> Any:
        cached = self._exprs.get(expr)
        if cached is None:
            cached = self._exprs[expr] = (expr.const, *((self._atom(a), c) for a, c in expr.terms))
        return cached

    def _atom(self, atom: Any) -> Any:
        if type(atom) is Var:
            return self._var(atom)
        if type(atom) is Quotient or type(atom) is Remainder:
            return type(atom), self._expr(atom.expr), atom.by, atom.low
        raise _UnknownError


class _UnknownError(Exception):
    """A group has something that is not described."""


def _param(value: Any) -> Any:
    """A parameter of a primitive, of which equal ones are alike: 0.0 and -0.0 are not, nor are 1 and True."""
    if isinstance(value, Graph):
        raise _UnknownError
    if type(value) is Dim:
        return value
    if isinstance(value, (int, float)):
        return type(value), report_text(value), getattr(value, "count", None)
    return value
