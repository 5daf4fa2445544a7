# SPDX-License-Identifier: Apache-2.0
"""The printed form and verification: what is wrong is refused, with a message that says where."""

from __future__ import annotations

import pytest
from compiler.cases import parse

from hybridgpu.compiler.ir import Builder, Graph, Node, Provenance
from hybridgpu.compiler.ir.parse import ParseError, parse_graph
from hybridgpu.compiler.ir.verify import VerifyError, verify
from hybridgpu.compiler.primitives import TABLE, builder

pytestmark = pytest.mark.no_host_code

MALFORMED = [
    ("", "line 1: expected 'graph NAME"),
    ("graph g x: f32[2] -> (x)", "line 1: expected 'graph NAME"),
    ("graph g (x: f32[2]) -> (%1)", "line 1: the result %1 is not defined"),
    ("graph g (x f32[2]) -> (x)", "line 1: expected 'NAME: type'"),
    ("graph g (x: f32[2], x: f32[3]) -> (x)", "line 1: expected 'NAME: type' with a new name"),
    ("graph g (x: f99[2]) -> (x)", "is no type"),
    ("graph g (x: f32[2]) -> (%1)\n  exp(x) f32[2]", "line 2: expected '%N = primitive"),
    ("graph g (x: f32[2]) -> (%1)\n  %1 = exp(x)", "line 2: expected '%N = primitive"),
    ("graph g (x: f32[2]) -> (%1)\n  %1 = explode(x) f32[2]", "line 2: there is no primitive 'explode'"),
    ("graph g (x: f32[2]) -> (%1)\n  %1 = exp(y) f32[2]", "line 2: y is missing"),
    ("graph g (x: f32[2]) -> (%1)\n  %1 = exp(%7) f32[2]", "line 2: %7 is missing"),
    ("graph g (x: f32[2]) -> (%1)\n  %1 = exp(x) f32[3]", "line 2: exp gives f32[2], the text says f32[3]"),
    ("graph g (x: f32[2]) -> (%1)\n  %1 = exp(x) q8[2]", "line 2: 'q8[2]' is no type"),
    ("graph g (x: i32[2]) -> (%1)\n  %1 = exp(x) i32[2]", "line 2: a floating point operand is needed"),
    ("graph g (x: f32[2], y: f32[3]) -> (%2)\n  %2 = add(x, y) f32[2]", "line 2: operands differ"),
    ("graph g (x: f32[2]) -> (%1)\n  %1 = sum(x) f32[]", "line 2: axes is missing"),
    ("graph g (x: f32[2]) -> (%1)\n  %1 = sum(x) axes=(5,) f32[]", "line 2: reduction over axes"),
    ("graph g (x: f32[2]) -> (%1)\n  %1 = sum(x) axes=import f32[]", "line 2: "),
    ("graph g (x: f32[2]) -> (%1)\n  %1 = reshape(x) shape=(3,) f32[3]", "line 2: cannot reshape"),
    ("graph g (x: f32[2]) -> (%1)\n  %1 = exp(x) f32[2]\n\n  %1 = neg(x) f32[2]", "line 4: %1 is defined twice"),
    ("graph g (x: f32[2]) -> (%1)\n  %1 = exp() f32[2]", "line 2: "),
]


@pytest.mark.parametrize(("text", "message"), MALFORMED, ids=range(len(MALFORMED)))
def test_malformed_text_is_refused(text, message):
    with pytest.raises(ParseError) as refused:
        parse_graph(text, TABLE)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("maximum", "there is no primitive 'maximum'; similar names: 'max', 'amax'"),
        ("zzz", "there is no primitive 'zzz'"),
    ],
)
def test_a_lowering_names_an_unknown_primitive(name, message):
    with pytest.raises(AttributeError, match=f"^{message}$"):
        getattr(Builder(TABLE), name)


def test_what_is_printed_reads_back_with_its_origin():
    b = builder()
    x, w = b.input(parse("f32[2,3]"), "x"), b.input(parse("f32[3]"), "my weight")
    b.prov = Provenance("relu", "dense0_relu0", "net.py:12")
    graph = b.finish([b.max(x * w, 0.1), b.select(b.gt(x, -0.0), x, b.full_like(x, float("-inf")))], "net")
    printed = str(graph)
    assert "# relu dense0_relu0 net.py:12" in printed and "my_weight: f32[3]" in printed
    assert "max(%4, 0.1)" in printed and "-inf" in printed and "-0.0" in printed
    again = parse_graph(printed, TABLE)
    assert str(again) == printed
    assert again.outputs[0].prov == Provenance("relu", "dense0_relu0", "net.py:12")


# -- verify


def broken(change):
    """A small valid graph with one change."""
    b = builder()
    x = b.input(parse("f32[2,3]"), "x")
    y = b.exp(x)
    z = b.sum(y * 2.0, (1,))
    graph = b.finish([z], "broken")
    verify(graph)
    return change(b, graph, x, y, z)


def _order(b, graph, x, y, z):
    return Graph(graph.name, graph.inputs, graph.outputs, tuple(reversed(graph.nodes)))


def _lost(b, graph, x, y, z):
    return Graph(graph.name, graph.inputs, graph.outputs, tuple(n for n in graph.nodes if n is not y))


def _no_output(b, graph, x, y, z):
    return Graph(graph.name, graph.inputs, (b.neg(z),), graph.nodes)


def _with(b, graph, z, prim, inputs, params, type):
    bad = Node(b, TABLE[prim], tuple(inputs), params, parse(type), 99, None)
    return Graph(graph.name, graph.inputs, (bad,), (*graph.nodes, bad))


BROKEN = {
    "operand after its reader": (_order, "an operand is not defined before it"),
    "operand that is nowhere": (_lost, "an operand is not defined before it"),
    "output that is nowhere": (_no_output, "is not in the graph"),
    "wrong shape": (lambda b, g, x, y, z: _with(b, g, z, "neg", [z], {}, "f32[3]"), "its type should be f32[2]"),
    "wrong dtype": (lambda b, g, x, y, z: _with(b, g, z, "neg", [z], {}, "f64[2]"), "its type should be f32[2]"),
    "operands that differ": (lambda b, g, x, y, z: _with(b, g, z, "add", [x, z], {}, "f32[2]"), "operands differ"),
    "missing parameter": (lambda b, g, x, y, z: _with(b, g, z, "sum", [x], {}, "f32[2]"), "axes"),
    "bad axis": (lambda b, g, x, y, z: _with(b, g, z, "sum", [x], {"axes": (4,)}, "f32[2]"), "reduction over axes"),
    "missing operand": (lambda b, g, x, y, z: _with(b, g, z, "neg", [], {}, "f32[2]"), "IndexError"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_verify_refuses(name):
    change, message = BROKEN[name]
    with pytest.raises(VerifyError) as refused:
        verify(broken(change))
    assert message in str(refused.value)
