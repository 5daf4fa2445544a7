# SPDX-License-Identifier: Apache-2.0
"""Reverse mode differentiation of a graph.

The result is a graph of primitives again, so that it is simplified, fused and compiled like any
other, and can be differentiated once more. It recomputes from the inputs what it needs of the
forward values, except those that the caller keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from math import prod

from ...core.dataclass import dataclass
from ..devices.cpu import CpuConstants
from ..ir.graph import (
    NO_DERIVATIVE,
    RANDOM_STATE,
    Builder,
    Graph,
    Node,
    Provenance,
    closure,
    is_random_state,
    reachable,
)
from ..primitives import TABLE
from ..primitives.views import strip_views
from .precision.exact_extrema import EXTREMA, bits_may_change, comparisons, value_source

__all__ = ["Derivative", "differentiate", "residuals"]

#: families whose results are kept for the backward pass rather than computed again
_EXPENSIVE = frozenset({"contract", "conv", "reduce", "scan", "sort", "library", "index", "loop"})
_LINE_BYTES = CpuConstants.line_bytes  #: bytes of a row from which on looking it up is reading it


@dataclass(frozen=True)
class Derivative:
    """The backward graph of a forward graph.

    Attributes:
        graph: its inputs are those of ``input_positions`` in order, then the random state of the forward call if it needs that.
        input_positions: positions in the list of all forward inputs (without the state), all kept values and all
            cotangents, one after the other.
        output_positions: for each wanted input its position among the results, None where the derivative is zero.
    """

    graph: Graph
    input_positions: tuple[int, ...]
    output_positions: tuple[int | None, ...]


def differentiate(
    graph: Graph, kept: Sequence[Node], given: Sequence[bool], wanted: Sequence[bool], exact: bool = False
) -> Derivative:
    """The graph of the cotangents of inputs for cotangents of outputs.

    Args:
        graph: the forward graph.
        kept: forward values that are arguments of the result instead of being computed again. (A maximum that its
            operand is compared with is computed again all the same, where the operand's bits may be others.)
        given: for each output, whether it has a cotangent.
        wanted: for each input (the random state not counted), whether its cotangent is asked for.
        exact: whether operations on float32 and float64 give the same bits when they are computed again.
    """
    again: set[Node] = set()
    while True:
        derivative, changed = _differentiate(graph, kept, again, given, wanted, exact)
        if not changed:
            return derivative
        again.update(changed)


def _differentiate(
    graph: Graph,
    kept: Sequence[Node],
    again: Collection[Node],
    given: Sequence[bool],
    wanted: Sequence[bool],
    exact: bool,
) -> tuple[Derivative, list[Node]]:
    """The derivative that computes ``again`` although it is ``kept``; and what else it must not take as kept."""
    plain = [n for n in graph.inputs if not is_random_state(n)]
    states = [n for n in graph.inputs if is_random_state(n)]
    b = Builder(TABLE)
    value: dict[Node, Node] = {n: b.input(n.type, n.params["name"]) for n in plain}
    arguments = list(value.values())
    for k, node in enumerate(kept):
        argument = b.input(node.type, f"kept{k}")
        arguments.append(argument)
        if node.prim.family != "leaf" and node not in again:
            value.setdefault(node, argument)
    cotangents = [b.input(o.type, f"cotangent{k}") if given[k] else None for k, o in enumerate(graph.outputs)]
    arguments += [g for g in cotangents if g is not None]
    for state in states:
        value[state] = b.input(state.type, RANDOM_STATE)
    for node in graph.nodes:
        if node not in value:
            b.prov = node.prov
            value[node] = b.reapply(node, [value[i] for i in node.inputs])

    gradients = _reverse_sweep(b, graph, value, cotangents, {n for n, w in zip(plain, wanted, strict=True) if w})
    results: list[Node] = []
    gives: list[int | None] = []
    for node, want in zip(plain, wanted, strict=True):
        if want:
            gradient = gradients.get(node)
            gives.append(None if gradient is None else len(results))
            if gradient is not None:
                results.append(gradient)
    needed = set(reachable(results))
    takes = tuple(k for k, a in enumerate(arguments) if a in needed)
    inputs = [arguments[k] for k in takes]
    used_state = [value[s] for s in states if value[s] in needed]
    backward = Graph(f"{graph.name}_backward", (*inputs, *used_state), tuple(results))
    changed = _bits_changed([n for n in kept if n not in again], value, backward, exact)
    return Derivative(backward, takes, tuple(gives)), changed


def _bits_changed(kept: Sequence[Node], value: dict[Node, Node], backward: Graph, exact: bool) -> list[Node]:
    """The extremes among what is kept that ``backward`` compares with an operand that it computes again, in other bits."""
    extremes = [n for n in kept if n.prim.name in EXTREMA]
    if not extremes:
        return []
    pairs, change = comparisons(backward), bits_may_change(exact)
    changed = []
    for node in extremes:
        operand = value_source(value[node.inputs[0]])
        if operand in pairs.get(value[node], ()) and change(operand):
            changed.append(node)
    return changed


def _reverse_sweep(
    b: Builder, graph: Graph, value: dict[Node, Node], cotangents: Sequence[Node | None], wanted: set[Node]
) -> dict[Node, Node]:
    """Cotangents of the wanted inputs."""
    depends = set(wanted)
    for node in graph.nodes:
        if not depends.isdisjoint(node.inputs):
            depends.add(node)
    gradients: dict[Node, Node] = {}

    def add(node: Node, g: Node) -> None:
        gradients[node] = b.add(gradients[node], g) if node in gradients else g

    for node, g in zip(graph.outputs, cotangents, strict=True):
        if g is not None and node in depends:
            add(node, g)
    for node in reversed(graph.nodes):
        if node not in gradients or not node.inputs:
            continue
        vjp = node.prim.vjp
        if isinstance(vjp, str):
            assert vjp == NO_DERIVATIVE
            continue
        if node.prov is not None:
            b.prov = Provenance(f"_backward_{node.prov.op}", node.prov.name, node.prov.line)
        parts = vjp(b, gradients[node], value[node], [value[i] for i in node.inputs], node.params)
        for operand, part in zip(node.inputs, parts, strict=True):
            if part is not None and operand in depends:
                add(operand, part)
    b.prov = None
    return {n: gradients[n] for n in wanted if n in gradients}


def residuals(
    graph: Graph,
    given: Sequence[bool],
    wanted: Sequence[bool],
    exact: bool = False,
    by_library: Callable[[Node], bool] | None = None,
) -> list[Node]:
    """Forward values worth keeping for the backward pass: results of contractions, reductions and the
    like that it uses directly. Elementwise cones and random bits are computed again from them, and so are rows looked
    up in an argument, where only kernels read them. What lies in memory for a library may be kept in their place.

    Args:
        graph, given, wanted, exact: as for :func:`differentiate`.
        by_library: whether a library computes a product or convolution, which then reads its operands from memory;
            None where that is no reason to keep these.
    """
    again, readers = _gathers_to_recompute(graph), graph.uses()
    worth = {
        n for n in graph.nodes if n.prim.family in _EXPENSIVE and n not in again and not _reduces_single_elements(n)
    }
    reduced = {
        n: _reductions_of(n, readers) for n in graph.outputs if n.dtype.is_half and strip_views(n).prim.family != "leaf"
    }
    worth.update(n for n in graph.outputs if not (reduced.get(n) and _recomputable_from_arguments(n)))
    for output, following in reduced.items():
        if output in worth:
            worth.difference_update(following)

    def taken(worth: Collection[Node]) -> tuple[list[Node], list[Node]]:
        """The inputs and the values among ``worth`` that the derivative takes."""
        arguments = [n for n in graph.inputs if not is_random_state(n)]
        candidates = [n for n in graph.nodes if n in worth]
        takes = differentiate(graph, candidates, given, wanted, exact).input_positions
        first = len(arguments)
        arguments += candidates
        return [arguments[k] for k in takes if k < first], [arguments[k] for k in takes if first <= k < len(arguments)]

    inputs, kept = taken(worth)
    if by_library is None:
        return kept
    from .library.shared_residuals import choose_residuals, materialized_operands

    operands = [o for o in materialized_operands(graph, by_library, exact) if o not in worth]
    operands = [
        o for o in operands if not (o.dtype.is_half and _reductions_of(o, readers))
    ]  # as outputs, but none must be kept
    if not operands:
        return kept
    more_inputs, more_kept = taken(worth.union(operands))
    chosen = choose_residuals(operands, worth, {*inputs, *kept}, {*more_inputs, *more_kept})
    return taken(worth.union(chosen))[1] if chosen else kept


def _reduces_single_elements(node: Node) -> bool:
    """Whether a reduction has one element each, which costs nothing again. Kept beside a half, it would not be rounded as that is."""
    return node.prim.family == "reduce" and node.inputs[0].size == node.size


def _reductions_of(output: Node, readers: Mapping[Node, Sequence[Node]]) -> set[Node]:
    """Reductions over ``output``, a half, and what follows from them element by element.

    They may be taken before it is rounded, in the kernel that computes it. A softmax of what is stored has another
    maximum and another sum, so the backward pass must not take these together: it computes either from the other.
    """
    families = ("elementwise", "view", "reduce")
    first = [n for n in _reach(output, lambda n: readers.get(n, ())) if n.prim.family == "reduce"]
    reached = {m for n in first for m in _reach(n, lambda n: readers.get(n, ()), families)}
    return {n for n in reached if n.prim.family in families}


def _recomputable_from_arguments(output: Node) -> bool:
    """Whether ``output`` is computed again from arguments and from what is reduced of them."""
    ends = [n for n in _reach(output, lambda n: n.inputs) if n.prim.family not in ("elementwise", "view", "leaf")]
    return all(n.prim.family in ("reduce", "random") for n in ends)


def _reach(
    start: Node, following: Callable[[Node], Sequence[Node]], families: Collection[str] = ("elementwise", "view")
) -> set[Node]:
    """The nodes that follow ``start`` through some families, and where that ends."""
    return closure([start], lambda n: following(n) if n is start or n.prim.family in families else ())


def _gathers_to_recompute(graph: Graph) -> set[Node]:
    """Rows that are looked up in arguments, and that no library reads: looking them up again takes no more than reading
    them where they were kept, and the forward pass need not write them.
    """
    gathers = {n for n in graph.nodes if n.prim.name == "take" and n.inputs[0].prim.name == "input" and _long_rows(n)}
    if not gathers:
        return gathers
    recomputable: set[Node] = set()  # what follows from arguments elementwise, as positions do
    readers = graph.uses()
    for n in graph.nodes:
        if n.prim.family in ("leaf", "view", "elementwise") and recomputable.issuperset(n.inputs):
            recomputable.add(n)
    outputs = set(graph.outputs)
    return {n for n in gathers if n.inputs[1] in recomputable and n not in outputs and _read_by_kernels(n, readers)}


def _long_rows(take: Node) -> bool:
    """True if what is looked up are whole lines of memory, one row or more."""
    table, axis = take.inputs[0], take.params["axis"]
    return prod(table.shape[axis + 1 :]) * table.dtype.size >= _LINE_BYTES


def _read_by_kernels(node: Node, readers: Mapping[Node, Sequence[Node]]) -> bool:
    """True if what reads ``node``, through views, is elementwise or a reduction."""
    reached = _reach(node, lambda n: readers.get(n, ()), ("view",)) - {node}
    return all(n.prim.family in ("view", "elementwise", "reduce") for n in reached)
