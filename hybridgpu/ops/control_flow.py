# SPDX-License-Identifier: Apache-2.0
"""Control flow in graphs: foreach, while_loop and cond, whose bodies are graphs that belong to the node.

All three become loops (``compiler.primitives.loop``): a while loop is one whose steps are guarded by
its condition, a branch one of length 1 that happens or not. A branch that is not taken is not
computed, and contributes nothing to gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..base import MXNetError
from ..compiler.ir import Builder, Node
from ..compiler.ir.graph import Graph
from ..compiler.ir.types import TensorType, joint_type, tensor_type
from ..compiler.primitives.loop import inline, loop
from ..core.dtypes import bool_, u32
from .params import Int, Longs, Param, Values
from .record import operator, shape_text

__all__ = ["Step", "recorded_body"]

Step = Callable[[Builder, Sequence[Node], Sequence[Node], Sequence[Node]], Sequence[Node]]


def recorded_body(
    b: Builder, step: Step, data: Sequence[TensorType], states: Sequence[TensorType], captured: Sequence[TensorType]
) -> tuple[Graph, bool]:
    """The body that ``step(builder, data, states, captured)`` records, and whether it draws random numbers.

    One that does has another data input, after the others: the state of the generator.
    """
    s = b.nested()
    s.prov = b.prov
    groups = [
        [s.input(t, f"{name}{k}") for k, t in enumerate(types)]
        for name, types in (("data", data), ("state", states), ("captured", captured))
    ]
    results = list(step(s, *groups))
    graph = s.finish(results, "body")
    if not graph.draws:
        return graph, False
    again = b.nested()
    groups = [
        [again.input(t, f"{name}{k}") for k, t in enumerate(types)]
        for name, types in (("data", (*data, tensor_type((4,), u32))), ("state", states), ("captured", captured))
    ]
    seed = groups[0].pop()
    outputs = inline(again, graph, [*groups[0], *groups[1], *groups[2], seed])
    return again.finish(outputs, "body"), True


def _run(
    b: Builder,
    step: Step,
    data: Sequence[Node],
    states: Sequence[Node],
    captured: Sequence[Node],
    length: int,
    guard: int = -1,
) -> list[Node]:
    """A loop over ``step``; each of its steps draws random numbers of its own."""
    body, draws = recorded_body(
        b,
        step,
        [tensor_type(d.shape[1:], d.dtype) for d in data],
        [s.type for s in states],
        [c.type for c in captured],
    )
    after = [o.type for o in body.outputs[len(body.outputs) - len(states) :]]
    for k, (state, new) in enumerate(zip(states, after, strict=True)):
        if joint_type(state.type, new) is None:  # sizes that vary are known as such on one side alone, of zeros
            raise MXNetError(
                f"loop variable {k} changes from {state.dtype.name}{shape_text(state.shape)} to "
                f"{new.dtype.name}{shape_text(new.shape)} in a step: its shape and element type must stay the same"
            )
    if draws:
        data = [*data, b.random_bits((length, 4))]
        if guard >= len(data) - 1:
            guard += 1
    return loop(b, body, data, states, captured, length=length, guard=guard)


def _last(b: Builder, stack: Node, start: Node) -> Node:
    return b.item(stack, stack.shape[0] - 1) if stack.shape[0] else start


def _truth(b: Builder, x: Node, what: str) -> Node:
    """A condition as a truth value of shape ()."""
    if x.size != 1:
        raise MXNetError(f"{what} must have one element, not the shape {shape_text(x.shape)}")
    x = b.reshape(x, ())
    return x if x.dtype is bool_ else b.ne(x, 0)


def _graph_inputs(locations: Sequence[int], groups: Sequence[Any], count: int) -> list[Any]:
    """The inputs of a subgraph: item k of ``groups`` stands at ``locations[k]``."""
    placed: list[Any] = [None] * count
    if sorted(locations) != list(range(count)):
        raise MXNetError(f"a subgraph has {count} inputs, and the node gives those at {sorted(locations)}")
    for at, item in zip(locations, groups, strict=True):
        placed[at] = item
    return placed


def _counts(graphs: int, results: int) -> dict[str, Param]:
    """Numbers of inputs and results, of which there are at least so many."""
    return {
        "num_args": Int(doc="number of graphs and inputs", low=graphs),
        "num_outputs": Int(doc="number of results", low=results),
    }


_DATA: dict[str, Param] = {"num_out_data": Int(doc="how many results are not loop variables", low=0)}


def _foreach_shapes(p: Values, graphs: Sequence[Any], shapes: list[Any]) -> list[Any]:
    locations = [*p.in_data_locs, *p.in_state_locs, *p.remain_locs]
    count = len(p.in_data_locs)
    inner = [s if s is None or k >= count else s[1:] for k, s in enumerate(shapes)]
    inferred = graphs[0].infer(_graph_inputs(locations, inner, graphs[0].inputs))
    return [
        inferred[at] if s is None and k >= count else s for k, (s, at) in enumerate(zip(shapes, locations, strict=True))
    ]


@operator(
    "_foreach",
    "*data",
    params={
        **_counts(1, 0),
        **_DATA,
        "in_state_locs": Longs(doc="where loop variables are among the inputs of the graph"),
        "in_data_locs": Longs(doc="where the data are"),
        "remain_locs": Longs(doc="where captured values are"),
    },
    count_param="num_args",
    subgraphs=1,
    dtypes="*",
    outputs=lambda p: p.num_outputs,
    infer_with_graphs=_foreach_shapes,
)
def foreach(b: Builder, p: Values, graphs: Sequence[Any], *inputs: Node) -> list[Node]:
    """A graph for every index of the first axis; see ``contrib.foreach``."""
    graph, n, m = graphs[0], len(p.in_data_locs), len(p.in_state_locs)
    data, states, captured = list(inputs[:n]), list(inputs[n : n + m]), list(inputs[n + m :])
    lengths = {d.shape[:1] for d in data}
    if len(lengths) != 1 or lengths == {()}:
        raise MXNetError(f"foreach needs data with one length along axis 0, not {[shape_text(d.shape) for d in data]}")
    locations = [*p.in_data_locs, *p.in_state_locs, *p.remain_locs]

    def step(s: Builder, d: Sequence[Node], old: Sequence[Node], c: Sequence[Node]) -> Sequence[Node]:
        results: list[Node] = graph.lower(s, _graph_inputs(locations, [*d, *old, *c], graph.inputs))
        return results

    outputs = _run(b, step, data, states, captured, data[0].shape[0])
    stacks = outputs[p.num_out_data :]
    return [*outputs[: p.num_out_data], *(_last(b, y, s) for y, s in zip(stacks, states, strict=True))]


def _while_shapes(p: Values, graphs: Sequence[Any], shapes: list[Any]) -> list[Any]:
    for graph, locations in zip(graphs, (p.cond_input_locs, p.func_input_locs), strict=True):
        inferred = graph.infer([shapes[at] for at in locations])
        for at, s in zip(locations, inferred, strict=True):
            shapes[at] = shapes[at] if shapes[at] is not None else s
    return shapes


@operator(
    "_while_loop",
    "*data",
    params={
        **_counts(2, 1),
        **_DATA,
        "max_iterations": Int(doc="bound of the number of steps", low=1),
        "cond_input_locs": Longs(doc="the inputs of the condition's graph among those of the node"),
        "func_input_locs": Longs(doc="the inputs of the body's graph"),
        "func_var_locs": Longs(doc="where the loop variables are among the inputs of the body's graph"),
    },
    count_param="num_args",
    subgraphs=2,
    dtypes="*",
    outputs=lambda p: p.num_outputs,
    infer_with_graphs=_while_shapes,
)
def while_loop(b: Builder, p: Values, graphs: Sequence[Any], *inputs: Node) -> list[Node]:
    """A graph while a condition holds; see ``contrib.while_loop``."""
    condition, graph = graphs
    variables = [p.func_input_locs[at] for at in p.func_var_locs]
    others = [k for k in range(len(inputs)) if k not in variables]

    def placed(values: Sequence[Any], captured: Sequence[Any], locations: Sequence[int]) -> list[Any]:
        at = {**dict(zip(variables, values, strict=True)), **dict(zip(others, captured, strict=True))}
        return [at[k] for k in locations]

    def holds(s: Builder, values: Sequence[Node], captured: Sequence[Node]) -> Node:
        results = condition.lower(s, placed(values, captured, p.cond_input_locs))
        return _truth(s, results[0], "the condition of while_loop")

    def step(s: Builder, d: Sequence[Node], old: Sequence[Node], c: Sequence[Node]) -> Sequence[Node]:
        results = graph.lower(s, placed(old[1:], c, p.func_input_locs))
        new = results[p.num_out_data :]
        return [*results[: p.num_out_data], s.cast(holds(s, new, c), flag), *new]

    states, captured = [inputs[k] for k in variables], [inputs[k] for k in others]
    # the condition is kept among the floats, whose loop the derivative looks at
    flag = next((x.dtype for x in states if x.dtype.is_float), bool_)
    begin = [b.cast(holds(b, states, captured), flag), *states]
    outputs = _run(b, step, [], begin, captured, p.max_iterations, guard=0)
    stacks = outputs[p.num_out_data + 1 :]
    return [*outputs[: p.num_out_data], *(_last(b, y, s) for y, s in zip(stacks, states, strict=True))]


def _cond_shapes(p: Values, graphs: Sequence[Any], shapes: list[Any]) -> list[Any]:
    every = (p.cond_input_locs, p.then_input_locs, p.else_input_locs)
    for graph, locations in zip(graphs, every, strict=True):
        inferred = graph.infer([shapes[at] for at in locations])
        for at, s in zip(locations, inferred, strict=True):
            shapes[at] = shapes[at] if shapes[at] is not None else s
    return shapes


@operator(
    "_cond",
    "*data",
    params={
        **_counts(3, 1),
        "cond_input_locs": Longs(doc="the inputs of the condition's graph among those of the node"),
        "then_input_locs": Longs(doc="the inputs of the first branch's graph"),
        "else_input_locs": Longs(doc="the inputs of the second branch's graph"),
    },
    count_param="num_args",
    subgraphs=3,
    dtypes="*",
    outputs=lambda p: p.num_outputs,
    infer_with_graphs=_cond_shapes,
)
def cond(b: Builder, p: Values, graphs: Sequence[Any], *inputs: Node) -> list[Node]:
    """One graph or another; see ``contrib.cond``."""
    condition, *branches = graphs
    chosen = _truth(b, condition.lower(b, [inputs[k] for k in p.cond_input_locs])[0], "the predicate of cond")

    def branch(graph: Any, locations: Sequence[int], taken: Node) -> list[Node]:
        def step(s: Builder, d: Sequence[Node], old: Sequence[Node], c: Sequence[Node]) -> Sequence[Node]:
            results: list[Node] = graph.lower(s, c)
            return results

        outputs = _run(b, step, [b.reshape(taken, (1,))], [], [inputs[k] for k in locations], 1, guard=0)
        return [b.item(y, 0) for y in outputs]

    one = branch(branches[0], p.then_input_locs, chosen)
    two = branch(branches[1], p.else_input_locs, b.logical_not(chosen))
    for k, (x, y) in enumerate(zip(one, two, strict=True)):
        if joint_type(x.type, y.type) is None:
            raise MXNetError(
                f"result {k} of the branches of cond differs: {x.dtype.name}{shape_text(x.shape)} and "
                f"{y.dtype.name}{shape_text(y.shape)}"
            )
    return [b.select(b.broadcast(chosen, x.shape), x, y) for x, y in zip(one, two, strict=True)]
