# SPDX-License-Identifier: Apache-2.0
"""``sym.contrib.foreach``, ``while_loop`` and ``cond``: nodes that hold the graphs of their bodies.

A body is an ordinary function of Symbols. It is called once, inside an attribute scope that marks
the nodes it makes; where one of them reads a node made outside, the graph is cut: the subgraph gets a
variable, the value becomes an input of the control flow node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import attribute
from ..attribute import AttrScope
from ..core.pytree import flatten, regroup
from ..ops import OPERATORS
from .node import Entry, SymbolNode, topological
from .node_factory import make_node, var
from .symbol import Group, Symbol

__all__ = ["cond", "foreach", "while_loop"]

_MARK = "__subgraph_name__"


def _flatten(args: Any, what: str) -> tuple[list[Symbol], Any]:
    """(Symbols, format), see ``hybridgpu.core.pytree``."""

    def format_of(value: Any) -> int | None:
        if isinstance(value, Symbol):
            return len(value._heads) if len(value._heads) > 1 else 0
        assert isinstance(value, (list, tuple)), (
            f"{what} must be (nested) list of Symbol, but got {value} of type {type(value)}"
        )
        return None

    return flatten(args, format_of)


def _fresh_name(name: str) -> str:
    outer = attribute.current().get(None).get(_MARK, "")
    full = f"{outer}${name}" if outer else name
    counts = AttrScope._subgraph_names  # never starts again: nodes of two bodies carry different marks
    counts[full] += 1
    return f"{full}{counts[full] - 1}"


def _variables(names: Sequence[str], stand_for: Sequence[Symbol]) -> list[Symbol]:
    """Variables of a body, of the interface of what they stand for."""
    return [of_kind(var(n), x._kind) for n, x in zip(names, stand_for, strict=True)]


def of_kind(x: Symbol, kind: Any) -> Symbol:
    """The same results as a Symbol of np, or for None of sym."""
    if x._kind is kind:
        return x
    converted: Symbol = x.as_nd_ndarray() if kind is None else x.as_np_ndarray()
    return converted


def _placeholder_name(x: Symbol) -> str:
    """The name of the variable that stands for a loop variable inside a body."""
    node, k = x._heads[0]
    return f"{node.name}-{k}"


class _Body:
    """The graph of a body, cut off from the rest.

    Attributes:
        symbol: the graph.
        names: of its variables, in order.
        sources: name of a variable -> what it stands for outside.
    """

    def __init__(self, results: Sequence[Symbol], identity: Callable[[int, Symbol], bool], mark: str) -> None:
        flat = [
            make_node(OPERATORS["_copy"], "identity", [x], {}, None, None) if identity(k, x) else x
            for k, x in enumerate(results)
        ]
        heads = [h for x in flat for h in x._heads]
        self.sources: dict[str, Symbol] = {}
        self.symbol = Symbol(self._cut(heads, mark))
        self.names = self.symbol.list_inputs()
        assert len(set(self.names)) == len(self.names), (
            f"The inputs of the subgraph don't have unique names: {self.names}"
        )

    def _cut(self, heads: list[Entry], mark: str) -> list[Entry]:
        """A copy of the marked nodes; what they read from outside are variables."""
        new: dict[int, SymbolNode] = {}
        cut: dict[tuple[int, int], Entry] = {}

        def outside(node: SymbolNode) -> bool:
            return node.attrs.get(_MARK) != mark

        def entry(e: Entry) -> Entry:
            node, k = e
            if not outside(node):
                return new[id(node)], k
            variable = cut.get((id(node), k))
            if variable is None:
                name = node.output_name(k)
                variable = cut[id(node), k] = (SymbolNode(None, name, {}), 0)
                self.sources[name] = Symbol([e])
            return variable

        for node in topological(heads):
            if outside(node):
                continue
            clone = SymbolNode(
                node.op,
                node.name,
                dict(node.attrs),
                [entry(e) for e in node.inputs],
                list(node.subgraphs),
                node.line,
                node.block,
            )
            new[id(node)] = clone
            if node.op is None:
                self.sources[node.name] = Symbol([(node, 0)])
        return [entry(h) for h in heads]


def _node(name: str, graphs: Sequence[_Body], inputs: Sequence[Symbol], attributes: dict[str, Any]) -> Symbol:
    texts = {k: str(v) for k, v in attributes.items()}
    texts["num_args"] = str(len(graphs) + len(inputs))
    return make_node(OPERATORS[name], name, list(inputs), texts, None, None, [g.symbol for g in graphs])


def _symbols(flat: Sequence[Any], message: str) -> None:
    for x in flat:
        assert isinstance(x, Symbol), message


def foreach(body: Any, data: Any, init_states: Any, name: str = "foreach") -> tuple[Any, Any]:
    """Run ``body`` for every index of axis 0.

    Args:
        body: ``(slices, states) -> (outputs, new states)``; nested lists everywhere.
        data: Symbols that are sliced along axis 0.
        init_states: the states of the first step.

    Returns:
        (outputs stacked along a new axis 0, last states).

    Raises:
        AssertionError: a body that does not use a slice or a state, or changes their structure.
    """
    flat_data, data_form = _flatten(data, "foreach input")
    _symbols(flat_data, "data should be a symbol or a nested list of symbols")
    flat_states, state_form = _flatten(init_states, "foreach states")
    _symbols(flat_states, "init_states should be a symbol or a nested list of symbols")
    mark = _fresh_name(name)
    data_names = [_placeholder_name(x) for x in flat_data]
    state_names = [_placeholder_name(x) for x in flat_states]
    with AttrScope(**{_MARK: mark}):
        slices = regroup(list(_variables(data_names, flat_data)), data_form)
        states = regroup(list(_variables(state_names, flat_states)), state_form)
        out, new = body(slices, states)
        flat_out, out_form = _flatten(out, "foreach output")
        flat_new, new_form = _flatten(new, "foreach loop_vars")
        assert state_form == new_form, "The input and output loop_vars have different format"
        results = [*flat_out, *flat_new]
        inputs = set(Group(results).list_inputs()) if results else set()
        out_names = {x.name for x in flat_out}

        def identity(k: int, x: Symbol) -> bool:
            used = x.name in inputs or (k >= len(flat_out) and x.name in out_names)
            return used or x.list_attr().get(_MARK) != mark

        graph = _Body(results, identity, mark)
    for required_names, what in ((data_names, "data"), (state_names, "state")):
        for n in required_names:
            assert n in graph.names, f"the {what} arrays have to be used in the loop body"
    loop_names = {*data_names, *state_names}
    captured = [n for n in graph.names if n not in loop_names]
    result = _node(
        "_foreach",
        [graph],
        [*flat_data, *flat_states, *(graph.sources[n] for n in captured)],
        {
            "num_outputs": len(results),
            "num_out_data": len(flat_out),
            "in_state_locs": [graph.names.index(n) for n in state_names],
            "in_data_locs": [graph.names.index(n) for n in data_names],
            "remain_locs": [graph.names.index(n) for n in captured],
        },
    )
    outputs = [of_kind(result[k], x._kind) for k, x in enumerate(results)]
    return regroup(outputs, out_form), regroup(outputs, new_form)


class _Union:
    """The inputs of several graphs: loop variables once, captured values once a graph or, if ``shared``, once."""

    def __init__(self, placeholders: dict[str, Symbol], shared: bool) -> None:
        self.placeholders, self.shared = placeholders, shared
        self.inputs: list[Symbol] = []
        self._at: dict[Any, int] = {}

    def locations(self, graph: _Body) -> list[int]:
        """The locations of the inputs of ``graph`` in the union."""
        positions = []
        for name in graph.names:
            variable = name in self.placeholders
            source = self.placeholders[name] if variable else graph.sources[name]
            node, k = source._heads[0]
            # a value may be captured as well as looped over: these are two inputs
            key = (variable, id(node), k, None if variable or self.shared else id(graph))
            at = self._at.setdefault(key, len(self.inputs))
            if at == len(self.inputs):
                self.inputs.append(source)
            positions.append(at)
        return positions


def _body_of(
    function: Any, name: str, placeholders: Sequence[str], stand_for: Sequence[Symbol], form: Any
) -> tuple[_Body, Any, list[Any]]:
    """The graph of ``function``, the format of its outputs, and their kinds.

    ``function`` takes the placeholders in their structure and gives (outputs, loop variables).
    """
    mark = _fresh_name(name)
    with AttrScope(**{_MARK: mark}):
        variables = regroup(list(_variables(placeholders, stand_for)), form)
        outputs, new, out_form = function(variables)
        results = [*outputs, *new]
        inputs = set(Group(results).list_inputs())

        def identity(k: int, x: Symbol) -> bool:
            return x.name in inputs or x.list_attr().get(_MARK) != mark

        return _Body(results, identity, mark), out_form, [x._kind for x in outputs]


def while_loop(
    cond: Any, func: Any, loop_vars: Any, max_iterations: int | None = None, name: str = "while_loop"
) -> tuple[Any, Any]:
    """Run ``func`` while ``cond`` holds.

    Args:
        cond: ``(*loop_vars) -> Symbol`` with one element.
        func: ``(*loop_vars) -> (outputs, new loop_vars)``.
        loop_vars: a list of Symbols; shapes and element types stay the same.
        max_iterations: bound of the number of steps.

    Returns:
        (outputs stacked along a new axis 0 of ``max_iterations`` rows, zeros from the last step on;
        last loop_vars).

    Raises:
        ValueError: no bound, no loop variables, or a variable that ``func`` does not use.
    """
    if max_iterations is None:
        raise ValueError("max_iterations should be specified")
    try:
        bound = int(max_iterations)
    except (TypeError, ValueError):
        raise ValueError("Cannot convert max_iteration to python int") from None
    if len(loop_vars) == 0:
        raise ValueError("loop_vars should contain at least one element")
    flat, form = _flatten(loop_vars, "while loop_vars")
    _symbols(flat, "loop_vars should be a symbol or a nested list of symbols")
    names = [_placeholder_name(x) for x in flat]

    def condition(variables: Any) -> tuple[list[Symbol], list[Symbol], Any]:
        result = cond(*variables)
        if not isinstance(result, Symbol):
            raise ValueError("Return of cond must be a Symbol")
        return [], [result], []

    def body(variables: Any) -> tuple[list[Symbol], list[Symbol], Any]:
        outputs, new = func(*variables)
        flat_out, out_form = _flatten([] if outputs is None else outputs, "while output")
        flat_new, _ = _flatten([] if new is None else new, "while loop_vars")
        if len(flat_new) != len(flat):
            raise ValueError("The number of loop_vars should be consistent during the loop")
        return flat_out, flat_new, out_form

    cond_graph, _, _ = _body_of(condition, f"{name}_cond", names, flat, form)
    func_graph, out_form, kinds = _body_of(body, f"{name}_func", names, flat, form)
    count = len(kinds)
    union = _Union(dict(zip(names, flat, strict=True)), shared=False)
    cond_locations, func_locations = union.locations(cond_graph), union.locations(func_graph)
    for k, n in enumerate(names, 1):
        if n not in func_graph.names:
            raise ValueError(f"The {k}-th loop_var doesn't involve into the computation")
    result = _node(
        "_while_loop",
        [cond_graph, func_graph],
        union.inputs,
        {
            "max_iterations": bound,
            "cond_input_locs": cond_locations,
            "func_input_locs": func_locations,
            "func_var_locs": [func_graph.names.index(n) for n in names],
            "num_out_data": count,
            "num_outputs": count + len(flat),
        },
    )
    kinds += [x._kind for x in flat]
    results = [of_kind(result[k], kind) for k, kind in enumerate(kinds)]
    return regroup(results, out_form), regroup(results, form)


def cond(pred: Symbol, then_func: Any, else_func: Any, name: str = "cond") -> Any:
    """``then_func()`` if ``pred`` holds, else ``else_func()``; only one of them is computed.

    Args:
        pred: one element.
        then_func, else_func: give Symbols, or nested lists of them, of equal shapes and element types.

    Raises:
        ValueError: the branches have different numbers of results.
    """

    def flat(function: Any) -> Any:
        def run(variables: Any) -> tuple[list[Symbol], list[Symbol], Any]:
            outputs, form = _flatten(function(), "cond outputs")
            return outputs, [], form

        return run

    if isinstance(pred, Symbol) and len(pred._heads) != 1:
        raise ValueError("pred should always be a single output")
    pred_graph, _, _ = _body_of(flat(lambda: pred), f"{name}_pred", [], [], [])
    then_graph, form, kinds = _body_of(flat(then_func), f"{name}_then", [], [], [])
    else_graph, _, others = _body_of(flat(else_func), f"{name}_else", [], [], [])
    if len(kinds) != len(others):
        raise ValueError("Number of outputs differs between then-branch and else-branch")
    union = _Union({}, shared=True)
    locations = [union.locations(g) for g in (pred_graph, then_graph, else_graph)]
    result = _node(
        "_cond",
        [pred_graph, then_graph, else_graph],
        union.inputs,
        {
            "cond_input_locs": locations[0],
            "then_input_locs": locations[1],
            "else_input_locs": locations[2],
            "num_outputs": len(kinds),
        },
    )
    return regroup([of_kind(result[k], kind) for k, kind in enumerate(kinds)], form)
