# SPDX-License-Identifier: Apache-2.0
"""The loop primitive: what it computes, its derivatives, and its compiled form."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from hybridgpu.compiler.ir.parse import ParseError, parse_graph
from hybridgpu.compiler.ir.types import tensor_type
from hybridgpu.compiler.ir.verify import verify
from hybridgpu.compiler.passes.canonicalize.simplify import simplify
from hybridgpu.compiler.passes.differentiate import differentiate
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import TABLE, builder
from hybridgpu.compiler.primitives.loop import loop
from hybridgpu.compiler.program import Program
from hybridgpu.compiler.reference import evaluate
from hybridgpu.core.dtypes import bool_, f32, f64, i32

T, N, H = 5, 2, 3
SHAPES = {"x": (T, N, H), "h": (N, H), "w": (H, H), "c": (H,)}

#: (reverse, last value of the guard that lets a step happen, or None for no guard)
KINDS = [(False, None), (True, None), (False, 2), (False, 0), (False, T)]


def graph(reverse, limit, stacked=True, weights=(1.0, 1.0, 1.0), dtype=f64):
    """A recurrence with results, a float state and a counter, which ends when the counter passes ``limit``.

    Its value weighs the sum of the results, of all states, and of the last state.
    """
    s = builder()
    t = lambda shape: tensor_type(shape, dtype)  # noqa: E731
    x, h, k = s.input(t((N, H)), "x"), s.input(t((N, H)), "h"), s.input(tensor_type((), i32), "k")
    s.input(tensor_type((), bool_), "go")
    w, c = s.input(t((H, H)), "w"), s.input(t((H,)), "c")
    count = s.cast(s.broadcast(k, (N, H)), dtype)
    bias = s.broadcast(s.reshape(c, (1, H)), (N, H))
    new = s.tanh(s.add(s.add(x, s.dot(h, s.transpose(w, (1, 0)))), s.mul(bias, count)))
    following = s.add(k, 1)
    more = s.lt(following, T if limit is None else limit)
    body = s.finish([s.mul(new, new), k, new, following, more])
    b = builder()
    X, h0, W, C = (b.input(t(SHAPES[n]), n) for n in "xhwc")
    begin = [h0, b.full((), 0, i32), b.full((), limit is None or limit > 0, bool_)]
    guard = -1 if limit is None else 3
    flags = (stacked, True, True)
    out, ks, hs, _, _ = loop(b, body, [X], begin, [W, C], length=T, reverse=reverse, guard=guard, stacked=flags)
    last = b.item(hs, 0 if reverse else T - 1) if stacked else hs
    total = b.sum(out) * weights[0] + b.sum(b.cast(ks, dtype)) + b.sum(b.mul(last, last)) * weights[2]
    if stacked:
        total = total + b.sum(b.mul(hs, hs)) * weights[1]
    return b.finish([total])


def expected(arrays, reverse, limit, stacked=True, weights=(1.0, 1.0, 1.0)):
    X, h, W, C = arrays
    total, k = 0.0, 0
    for t in reversed(range(T)) if reverse else range(T):
        if limit is None or k < limit:
            h = np.tanh(X[t] + h @ W.T + C * k)
            total += (h * h).sum() * weights[0] + k
            k += 1
        total += (h * h).sum() * weights[1] * stacked
    return total + (h * h).sum() * weights[2]


def inputs(seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=SHAPES[n]) * 0.5 for n in "xhwc"]


def slopes(f, arrays, step=1e-5):
    """Finite differences of ``f``."""
    found = []
    for k, a in enumerate(arrays):
        g = np.zeros(a.shape)
        for at in np.ndindex(a.shape):
            ends = []
            for sign in (1, -1):
                moved = [x.copy() for x in arrays]
                moved[k][at] += sign * step
                ends.append(f(moved))
            g[at] = (ends[0] - ends[1]) / (2 * step)
        found.append(g)
    return found


def derivative(g):
    """The graph of all gradients, as a function of all inputs."""
    made = differentiate(g, [], [True], [True] * 4)
    assert None not in made.output_positions

    def run(arrays):
        every = [*arrays, np.ones(())]
        return evaluate(simplify(made.graph), [np.asarray(every[k]) for k in made.input_positions])

    return made, run


@pytest.mark.parametrize("stacked", [True, False])
@pytest.mark.parametrize("reverse,limit", KINDS)
def test_value(reverse, limit, stacked):
    a = inputs()
    g = graph(reverse, limit, stacked)
    np.testing.assert_allclose(evaluate(simplify(g), a)[0], expected(a, reverse, limit, stacked), 1e-12)


@pytest.mark.no_host_code
@pytest.mark.parametrize("weights", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 1)])
@pytest.mark.parametrize("stacked", [True, False])
@pytest.mark.parametrize("reverse,limit", KINDS)
def test_gradient(reverse, limit, stacked, weights):
    """Also where only the last state, or only the states, lead to the result."""
    a = inputs(1)
    made, run = derivative(graph(reverse, limit, stacked, weights))
    del made
    want = slopes(lambda x: expected(x, reverse, limit, stacked, weights), a)
    for got, w, name in zip(run(a), want, "xhwc", strict=True):
        np.testing.assert_allclose(got, w, 1e-6, 1e-8, err_msg=name)


@pytest.mark.no_host_code
@pytest.mark.parametrize("reverse,limit", KINDS[:3])
def test_second_order(reverse, limit):
    a = inputs(2)
    made, run = derivative(graph(reverse, limit))
    outputs = made.graph.outputs
    again = differentiate(made.graph, [], [True] * len(outputs), [True] * len(made.input_positions))
    every = [*a, np.ones(()), *(np.ones(o.shape) for o in outputs)]
    taken = [every[k] for k in made.input_positions]
    second = evaluate(
        simplify(again.graph),
        [np.asarray([*taken, *(np.ones(o.shape) for o in outputs)][k]) for k in again.input_positions],
    )
    want = slopes(lambda x: sum(y.sum() for y in run(x)), a)
    for k in range(4):
        at = again.output_positions[made.input_positions.index(k)]
        np.testing.assert_allclose(second[at], want[k], 1e-5, 1e-7, err_msg="xhwc"[k])


@pytest.mark.parametrize("reverse,limit", KINDS[:4])
def test_compiled(reverse, limit, compiler):
    """Forward and backward programs agree with the reference, also after a way through their stored form."""
    from hybridgpu.backends.cpu.backend import cpu_backend

    backend = cpu_backend()
    a = [x.astype("float32") for x in inputs(3)]
    g = graph(reverse, limit, dtype=f32)
    made, _ = derivative(g)
    for each, given in ((g, a), (made.graph, [[*a, np.ones((), "float32")][k] for k in made.input_positions])):
        program = compile_graph(each, backend.target)
        program = Program.from_bytes(program.to_bytes())
        results = [np.empty(shape, {"f32": "f4"}[short]) for shape, short in program.outputs]
        backend.load(program)([np.ascontiguousarray(x) for x in given], results)
        for got, want in zip(results, evaluate(simplify(each), given, wide=True), strict=True):
            np.testing.assert_allclose(got, want, 1e-5, 1e-5)


@pytest.mark.parametrize("length", [0, 1])
def test_short(length):
    """No step gives nothing and leaves the states alone."""
    s = builder()
    x, h = (s.input(tensor_type((2,), f64), n) for n in "xh")
    body = s.finish([x + h, x * h])
    b = builder()
    X, h0 = b.input(tensor_type((length, 2), f64), "x"), b.input(tensor_type((2,), f64), "h")
    g = b.finish(loop(b, body, [X], [h0], length=length, stacked=(False,)))
    a = np.full((length, 2), 3.0), np.full(2, 2.0)
    out, last = evaluate(simplify(g), a)
    assert out.shape == (length, 2) and (out == 5).all()
    assert (last == (6 if length else 2)).all()


def test_sums_of_products_leave_the_loop():
    """The gradient of a weight is one product after the loop, not one a step."""
    made, _ = derivative(graph(False, None))
    sizes = [n.shape for n in made.graph.nodes if n.prim.name == "dot"]
    assert (H, H) in sizes or (H, T * N) in [
        i.shape for n in made.graph.nodes if n.prim.name == "dot" for i in n.inputs
    ]
    bodies = [n.params["body"] for n in made.graph.nodes if n.prim.name == "loop"]
    assert all(d.shape != (H, H) for g in bodies for d in g.nodes if d.prim.name == "dot")


@pytest.mark.parametrize(
    "change", ["missing operand", "wrong slice", "state changes its type"], ids=lambda c: c.replace(" ", "_")
)
def test_misuse(change):
    s = builder()
    x, h = (s.input(tensor_type((2,), f64), n) for n in "xh")
    body = s.finish([s.cast(h, f32)] if change == "state changes its type" else [x + h])
    b = builder()
    X, h0 = b.input(tensor_type((3, 2), f64), "x"), b.input(tensor_type((2,), f64), "h")
    data = {"missing operand": [], "wrong slice": [b.transpose(X, (1, 0))]}.get(change, [X])
    with pytest.raises(TypeError, match="loop over"):
        loop(b, body, data, [h0], length=3)


def test_kinds_differ():
    """The cases above are not one case: every kind has another value."""
    values = [float(evaluate(simplify(graph(*k)), inputs())[0]) for k in KINDS if k != (False, T)]
    assert all(abs(a - b) > 1e-6 for a, b in itertools.combinations(values, 2))


@pytest.mark.parametrize("reverse,limit", KINDS[:3])
def test_printed_form(reverse, limit):
    """Bodies follow the graph that mentions them, and are read back; a body inside a body too."""
    made, _ = derivative(graph(reverse, limit))
    given = [np.asarray([*inputs(), np.ones(())][k]) for k in made.input_positions]
    for g, arrays in ((graph(reverse, limit), inputs()), (made.graph, given)):
        text = str(g)
        again = parse_graph(text, TABLE)
        verify(again)
        assert str(again) == text and "body=@1" in text
        for a, b in zip(evaluate(g, arrays), evaluate(again, arrays), strict=True):
            np.testing.assert_array_equal(a, b)


def test_printed_form_without_its_body():
    text = str(graph(False, None)).rpartition("\ngraph ")[0]
    with pytest.raises(ParseError, match=r"there is no graph @\d"):
        parse_graph(text, TABLE)


def test_results_of_another_type_do_not_run_everything():
    """The loop that only counts holds no matrix product."""
    nodes = [n for n in graph(False, None).nodes if n.prim.name == "loop"]
    by_type = {n.params["emit"]: n.params["body"] for n in nodes}
    assert set(by_type) == {"f64", "i32"}
    assert any(n.prim.name == "dot" for n in by_type["f64"].nodes)
    assert all(n.prim.name != "dot" for n in by_type["i32"].nodes)
