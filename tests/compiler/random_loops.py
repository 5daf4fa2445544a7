# SPDX-License-Identifier: Apache-2.0
"""Random loops for hypothesis, and the same graphs without: every step written out.

The steps of a loop are a small random graph whose new states are held near 1, so that rounding errors do not grow from
step to step.
"""

from __future__ import annotations

from typing import Any

from compiler.random_graphs import STEPS, Steps
from hypothesis import strategies as st

from hybridgpu.compiler.ir import Builder, Graph, Node, Provenance, tensor_type
from hybridgpu.compiler.primitives import TABLE
from hybridgpu.compiler.primitives.loop import inline, layout, loop
from hybridgpu.core.dtypes import f32, f64, i32

__all__ = ["loops", "written_out"]

#: what a step is made of
_INSIDE = [
    "",
    *("unary", "arithmetic", "product") * 3,
    *("normalise", "reduction", "spread", "transpose", "choose", "take"),
]
_BEHIND = ["", *("unary", "arithmetic", "reduction", "product", "reshape", "cut", "scatter")]


def _state(s: Steps, old: Node) -> Node:
    """A new value of a state: something of its type that the step made, or else a mixture."""
    b = s.b
    if old.dtype is i32:
        return b.add(old, 1)
    made = s.find(lambda n: n.type is old.type and n is not old)
    x = old if made is None else made
    for n in reversed(s.nodes):
        if n is not x and n.dtype is old.dtype and n.size == old.size:
            x = x + b.reshape(n, old.shape)
            break
    return b.tanh(x) * s.pick((1.0, 0.5))


@st.composite
def loops(draw: Any, size_limit: int = 300) -> Graph:
    """A graph with one or two loops, and a few steps before and behind them."""
    s = Steps(draw, size_limit)
    s.random = False
    b = s.b
    outputs: list[Node] = []
    for k in range(s.pick((1, 1, 2))):
        dtype = s.pick((f32, f32, f64))
        length = s.pick((3, 1, 2, 5))
        n, size = s.pick(((2, 3), (1, 4), (4, 8), (3, 1), (4, 16)))
        data = s.find(lambda x: x.shape == (length, n, size) and x.dtype is dtype)
        data = s.new((length, n, size), dtype) if data is None else data
        if s.pick((False, True)):
            data = b.tanh(data)
        shapes = [(n, size), *s.pick(((), ((n, 1),), ((n, size),), ((size,),)))]
        states = [s.new(shape, dtype) for shape in shapes]
        if s.pick((False, False, True)):
            states.append(s.new((n,), i32))
        captured = [s.new((size, size), dtype)] + ([s.new((1, size), dtype)] if s.pick((False, True)) else [])
        inner = Steps(draw, size_limit)
        inner.b, inner.random = b.nested(), False
        types = [tensor_type((n, size), dtype), *(x.type for x in (*states, *captured))]
        inner.nodes = [inner.b.input(t, f"x{j}") for j, t in enumerate(types)]
        given = len(types)
        olds = inner.nodes[1 : 1 + len(states)]
        if s.pick((True, True, False)):  # most recurrences have a product
            inner.nodes.append(inner.b.dot(olds[0], inner.nodes[1 + len(states)]) * 0.5 + inner.nodes[0])
        for _ in range(s.pick((1, 2, 4))):
            name = s.pick(_INSIDE)
            made = STEPS[name](inner) if name else None
            if made is not None:
                inner.nodes.append(made)
        extra = len(inner.b.inputs) - given  # what a step wanted besides is captured
        captured += [s.new(x.shape, x.dtype) for x in inner.b.inputs[given : given + extra]]
        news = [_state(inner, old) for old in olds]
        results = [x for x in inner.nodes[given:] if x.prim.name != "input"][-2:] if s.pick((True, False)) else []
        body = inner.b.finish([*results, *news], "turn")
        found = loop(
            b,
            body,
            [data],
            states,
            captured,
            length=length,
            reverse=s.pick((False, True)),
            stacked=[s.pick((True, False)) for _ in states],
        )
        b.prov = Provenance("loop", f"n{k}", "net.py:1")
        s.nodes += found
        outputs += found
    for k in range(s.pick((0, 1, 3))):
        name = s.pick(_BEHIND)
        b.prov = Provenance(name, f"m{k}", "net.py:2")
        made = STEPS[name](s) if name else None
        if made is not None:
            s.nodes.append(made)
            outputs.append(made)
    return b.finish([*dict.fromkeys(outputs)], "random")


def written_out(graph: Graph) -> Graph:
    """The same results without loops."""
    b = Builder(TABLE)
    value: dict[Node, Node] = {n: b.input(n.type, n.params["name"]) for n in graph.inputs}
    for node in graph.nodes:
        if node in value:
            continue
        inputs = [value[i] for i in node.inputs]
        value[node] = (
            _turns(b, inputs, node.params) if node.prim.name == "loop" else b.apply(node.prim, inputs, node.params)
        )
    return b.finish([value[o] for o in graph.outputs], graph.name)


def _turns(b: Builder, operands: list[Node], params: Any) -> Node:
    body, length, n, m = params["body"], params["length"], params["data"], params["states"]
    assert params["guard"] < 0
    data, states, captured = operands[:n], operands[n : n + m], operands[n + m :]
    values: dict[int, list[Node]] = {}
    for t in reversed(range(length)) if params["reverse"] else range(length):
        results = inline(b, body, [*(b.item(d, t) for d in data), *states, *captured])
        values[t] = results
        states = results[len(results) - m :]
    last = 0 if params["reverse"] else length - 1
    parts = []
    for p in layout([o.type for o in body.outputs], params):
        turns = range(length) if p.stacked else (last,)
        parts += [b.reshape(values[t][p.position], (values[t][p.position].size,)) for t in turns]
    return b.concat(parts, 0) if len(parts) > 1 else parts[0]
