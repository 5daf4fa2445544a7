# SPDX-License-Identifier: Apache-2.0
"""The simplifier, rule by rule: what it makes of a graph, and that not a bit of a result changes.

Every row is tried on NaN, infinities, both zeros, subnormals and the ends of the range, in pairs. What a rule must
leave alone (because it would not be exact) is a row too.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from compiler.cases import parse

from hybridgpu.compiler.ir import Builder, Node, Provenance
from hybridgpu.compiler.ir.verify import verify
from hybridgpu.compiler.passes.canonicalize import simplify as module
from hybridgpu.compiler.passes.canonicalize.simplify import simplify
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.primitives.custom_gradient import GRADIENT_RULES
from hybridgpu.compiler.reference import evaluate
from hybridgpu.core.dtypes import bool_, f16, f32, f64, i32

pytestmark = pytest.mark.no_host_code

F, H, N, U, B = "f32[4,9]", "f16[4,9]", "i32[4,9]", "u8[4,9]", "bool[4,9]"
NAN, INF = float("nan"), float("inf")
#: (what, input types, build, printed lines afterwards; "" for none: the result is an input)
ROWS: list[tuple[str, tuple[str, ...], Callable[..., Any], str]] = []


def rows(*table: tuple[str, tuple[str, ...], Callable[..., Any], str]) -> None:
    ROWS.extend(table)


rows(
    # what depends on constants only
    ("constants", (F,), lambda b, x: x * (b.full_like(x, 2.0) + b.full_like(x, 0.5)), "mul(x0, 2.5)"),
    ("constants in their dtype", (H,), lambda b, x: x + (b.full_like(x, 6e4) + 6e4), "add(x0, inf)"),
    ("integer constants wrap", (U,), lambda b, x: x + (b.full_like(x, 200) + 100), "add(x0, 44)"),
    ("a view of a constant", (F,), lambda b, x: x + b.transpose(b.full((9, 4), 3.0, f32), (1, 0)), "add(x0, 3.0)"),
    ("nothing", ("f32[0,3]",), lambda b, x: b.exp(x), "full() value=0.0"),
    ("sum of nothing", ("f32[0,3]",), lambda b, x: b.sum(x, (0,)), "full() value=0.0"),
    ("product of nothing", ("f32[0,3]",), lambda b, x: b.reduce("prod", x, (0,)), "full() value=1.0"),
    ("maximum of nothing", ("f32[0,3]",), lambda b, x: b.reduce("amax", x, (0,)), "full() value=-inf"),
    ("minimum of no integers", ("i32[0,3]",), lambda b, x: b.reduce("amin", x, (0,)), "full() value=2147483647"),
    ("any of nothing", ("bool[0,3]",), lambda b, x: b.reduce("amax", x, (0,)), "full() value=False"),
    ("scatter of nothing", ("f32[0]", "i32[0]"), lambda b, x, i: b.scatter_add(x, i, axis=0, extent=4), "full() value=0.0"),
    ("entries that nothing replaces", (F, "f32[0,9]", "i32[0]"), lambda b, x, u, i: b.scatter_set(x, u, i), ""),
    ("empty product", ("f32[2,0]", "f32[0,3]"), lambda b, x, y: b.dot(x, y), "full() value=0.0"),
    # sums
    ("x + -0", (F,), lambda b, x: x + -0.0, ""),
    ("-0 + x", (F,), lambda b, x: -0.0 + x, ""),
    ("x + 0 is not x for -0", (F,), lambda b, x: x + 0.0, "add(x0, 0.0)"),
    ("integer x + 0", (N,), lambda b, x: x + 0, ""),
    ("integer 0 + x", (N,), lambda b, x: 0 + x, ""),
    ("x + -y", (F, F), lambda b, x, y: x + -y, "sub(x0, x1)"),
    ("-x + y", (F, F), lambda b, x, y: -x + y, "sub(x1, x0)"),
    ("x - 0", (F,), lambda b, x: x - 0.0, ""),
    ("x - -0 is not x for -0", (F,), lambda b, x: x - -0.0, "sub(x0, -0.0)"),
    ("x - -y", (F, F), lambda b, x, y: x - -y, "add(x0, x1)"),
    ("x - x is not 0", (F,), lambda b, x: x - x, "sub(x0, x0)"),
    ("-x - -y", (F, F), lambda b, x, y: -x - -y, "sub(x1, x0)"),
    # products, quotients, powers
    ("x * 1", (F,), lambda b, x: x * 1, ""),
    ("1 * x", (F,), lambda b, x: 1 * x, ""),
    ("x * -1", (F,), lambda b, x: x * -1, "neg(x0)"),
    ("unsigned x * 255", (U,), lambda b, x: x * 255, "mul(x0, 255)"),
    ("x * 0 is not 0", (F,), lambda b, x: x * 0.0, "mul(x0, 0.0)"),
    ("x / 1", (F,), lambda b, x: x / 1, ""),
    ("x / 4", (F,), lambda b, x: x / 4, "mul(x0, 0.25)"),
    ("x / -2**-30", (F,), lambda b, x: x / -(2.0**-30), "mul(x0, -1073741824.0)"),
    ("x / 3 is not a product", (F,), lambda b, x: x / 3, "div(x0, 3.0)"),
    ("x / 0", (F,), lambda b, x: x / 0.0, "div(x0, 0.0)"),
    ("x / 2**-19 in half precision", (H,), lambda b, x: x / 2.0**-19, "div(x0, 1.9e-06)"),
    ("x / 2**-149 whose inverse overflows", (F,), lambda b, x: x / 2.0**-149, "div(x0, 1e-45)"),
    ("integer x / 4", (N,), lambda b, x: x / 4, "div(x0, 4)"),
    ("x ** 0", (F,), lambda b, x: b.pow(x, 0.0), "full() value=1.0"),
    ("x ** 1", (F,), lambda b, x: b.pow(x, 1.0), ""),
    ("x ** 2", (F,), lambda b, x: b.pow(x, 2.0), "mul(x0, x0)"),
    ("x ** -1", (F,), lambda b, x: b.pow(x, -1.0), "div(1.0, x0)"),
    ("x ** 0.5 is not a root", (F,), lambda b, x: b.pow(x, 0.5), "pow(x0, 0.5)"),
    # signs
    ("--x", (F,), lambda b, x: -(-x), ""),
    ("|-x|", (F,), lambda b, x: b.abs(-x), "abs(x0)"),
    ("||x||", (F,), lambda b, x: b.abs(b.abs(x)), "abs(x0)"),
    ("unsigned |x|", (U,), lambda b, x: b.abs(x), ""),
    ("unsigned |-x|", (U,), lambda b, x: b.abs(-x), "neg(x0)"),
    # logic
    ("not not", (B,), lambda b, x: b.logical_not(b.logical_not(x)), ""),
    ("not equal", (F, F), lambda b, x, y: b.logical_not(b.eq(x, y)), "ne(x0, x1)"),
    ("not less is not greater or equal", (F, F), lambda b, x, y: b.logical_not(b.lt(x, y)), "lt(x0, x1)\nlogical_not(%2)"),
    ("truth of a truth", (B,), lambda b, x: b.ne(b.cast(x, f32), 0.0), ""),
    ("select of one", (B, F), lambda b, c, x: b.select(c, x, x), ""),
    ("select by a constant", (F, F), lambda b, x, y: b.select(b.full(x.shape, False, bool_), x, y), ""),
    ("select by not", (B, F, F), lambda b, c, x, y: b.select(b.logical_not(c), x, y), "select(x0, x2, x1)"),
    # casts
    ("widened twice", (H,), lambda b, x: b.cast(b.cast(x, f32), f64), "cast(x0)"),
    ("narrowed on the way", (F,), lambda b, x: b.cast(b.cast(x, f16), f32), "cast(x0)\ncast(%1)"),
    ("bool to number to bool", (B,), lambda b, x: b.cast(b.cast(x, i32), bool_), ""),
    ("number to bool to number", (F,), lambda b, x: b.cast(b.cast(x, bool_), f32), "cast(x0)\ncast(%1)"),
    # identities
    ("stop_gradient", (F,), lambda b, x: b.stop_gradient(x), ""),
    ("copy", (F,), lambda b, x: b.copy(x), ""),
    (
        "custom_gradient",
        (F, F),
        lambda b, x, y: b.custom_gradient(x, y, rule="of this test", static=()),
        "",
    ),
    # views
    ("reshape of reshape", (F,), lambda b, x: b.reshape(b.exp(b.reshape(x, (36,))), (4, 9)), "reshape(x0) shape=(36,)\nexp(%1)\nreshape(%2) shape=(4, 9)"),
    ("broadcast of broadcast", ("f32[1,1]",), lambda b, x: b.broadcast(b.broadcast(x, (1, 3)), (2, 3)), "broadcast(x0) shape=(2, 3)"),
    ("transpose of transpose", (F,), lambda b, x: b.transpose(b.transpose(x, (1, 0)), (1, 0)), ""),
    ("transpose of an axis of 1", ("f32[1,5]",), lambda b, x: b.transpose(x, (1, 0)), "reshape(x0) shape=(5, 1)"),
    ("axes that a transpose moves together, joined", ("f32[2,3,4,5]",), lambda b, x: b.reshape(b.transpose(x, (2, 3, 0, 1)), (20, 6)),
     "reshape(x0) shape=(6, 20)\ntranspose(%1) perm=(1, 0)"),
    ("… one pair of three", ("f32[2,3,4]",), lambda b, x: b.reshape(b.transpose(x, (1, 2, 0)), (12, 2)),
     "reshape(x0) shape=(2, 12)\ntranspose(%1) perm=(1, 0)"),
    ("… one of them of 1", ("f32[2,1,3]",), lambda b, x: b.reshape(b.transpose(x, (1, 2, 0)), (3, 2)),
     "reshape(x0) shape=(2, 3)\ntranspose(%1) perm=(1, 0)"),
    ("… that come together only then", ("f32[2,3,4]",), lambda b, x: b.reshape(b.transpose(x, (0, 2, 1)), (8, 3)),
     "transpose(x0) perm=(0, 2, 1)\nreshape(%1) shape=(8, 3)"),
    ("… in another order", ("f32[2,3,4]",), lambda b, x: b.reshape(b.transpose(x, (2, 1, 0)), (4, 6)),
     "transpose(x0) perm=(2, 1, 0)\nreshape(%1) shape=(4, 6)"),
    ("… and taken apart elsewhere", ("f32[2,3,4]",), lambda b, x: b.reshape(b.transpose(x, (1, 2, 0)), (6, 4)),
     "transpose(x0) perm=(1, 2, 0)\nreshape(%1) shape=(6, 4)"),
    ("whole slice", (F,), lambda b, x: b.apply(b._table["slice"], (x,), {"begin": (0, 0), "end": (4, 9), "step": (1, 1)}), ""),
    (
        "zeros around a convolution's operand",
        ("f32[1,2,6]", "f32[3,2,3]"),
        lambda b, x, w: b.conv(
            b.pad(x, low=(0, 0, 1), high=(0, 0, 2), value=0), w, stride=(1,), low=(1,), high=(0,), dilate=(1,),
            base_dilate=(1,), groups=1,
        ),
        "conv(x0, x1) base_dilate=(1,) dilate=(1,) groups=1 high=(2,) low=(2,) stride=(1,)",
    ),
    (
        "taps that meet padding only",
        ("f32[3,1,1]", "f32[2,1,3]"),
        lambda b, x, w: b.conv(x, w, stride=(1,), low=(1,), high=(1,), dilate=(1,), base_dilate=(1,), groups=1),
        "slice(x1) begin=(0, 0, 1) end=(2, 1, 2) step=(1, 1, 1)\n"
        "conv(x0, %2) base_dilate=(1,) dilate=(1,) groups=1 high=(0,) low=(0,) stride=(1,)",
    ),
    (
        "padding only",
        ("f32[3,1,2]", "f32[2,1,3]"),
        lambda b, x, w: b.conv(x, w, stride=(9,), low=(5,), high=(0,), dilate=(1,), base_dilate=(1,), groups=1),
        "full() value=0.0",
    ),
    (
        "a kernel wider than its operand",
        ("f32[3,1,1]", "f32[2,1,4]"),
        lambda b, x, w: b.conv(x, w, stride=(1,), low=(3,), high=(3,), dilate=(1,), base_dilate=(1,), groups=1),
        "reverse(x1) axes=(2,)\n"
        "conv(%2, x0) base_dilate=(1,) dilate=(1,) groups=1 high=(0,) low=(0,) stride=(1,)\n"
        "transpose(%3) perm=(1, 0, 2)",
    ),
    ("reversed and back", (F,), lambda b, x: b.reverse(b.reverse(x, axes=(0, 1)), axes=(1, 0)), ""),
    ("reversed twice", (F,), lambda b, x: b.reverse(b.reverse(x, axes=(0,)), axes=(0, 1)), "reverse(x0) axes=(1,)"),
    ("reversed, turned and back", (F,),
     lambda b, x: b.transpose(b.reverse(b.transpose(b.reverse(x, axes=(1,)), (1, 0)), axes=(0,)), (1, 0)), ""),
    (
        "a reversed convolution of what is reversed",
        ("f32[1,1,9]", "f32[3,1,1]"),
        lambda b, x, w: b.reverse(
            b.conv(b.reverse(x, axes=(2,)), b.reverse(w, axes=(2,)), stride=(2,), low=(2,), high=(1,), dilate=(1,),
                   base_dilate=(1,), groups=1), axes=(2,),
        ),
        "conv(x0, x1) base_dilate=(1,) dilate=(1,) groups=1 high=(2,) low=(0,) stride=(2,)",
    ),
    (
        "… turned between",
        ("f32[1,2,5]", "f32[3,2,1]"),
        lambda b, x, w: b.reverse(
            b.transpose(
                b.conv(b.reverse(x, axes=(2,)), w, stride=(1,), low=(0,), high=(1,), dilate=(1,), base_dilate=(2,), groups=1),
                (2, 1, 0),
            ), axes=(0,),
        ),
        "conv(x0, x1) base_dilate=(2,) dilate=(1,) groups=1 high=(0,) low=(1,) stride=(1,)\n"
        "transpose(%2) perm=(2, 1, 0)",
    ),
    (
        "a reversed convolution of one that is reversed",
        ("f32[1,1,5]", "f32[1,1,3]"),
        lambda b, x, w: b.reverse(
            b.conv(b.reverse(x, axes=(2,)), w, stride=(1,), low=(0,), high=(0,), dilate=(1,), base_dilate=(1,), groups=1),
            axes=(2,),
        ),
        "reverse(x0) axes=(2,)\n"
        "conv(%2, x1) base_dilate=(1,) dilate=(1,) groups=1 high=(0,) low=(0,) stride=(1,)\n"
        "reverse(%3) axes=(2,)",
    ),
    ("join with nothing", (F, "f32[4,0]"), lambda b, x, y: b.concat([y, x, y], 1), ""),
    ("one part of a join", (F, F), lambda b, x, y: b.slice(b.concat([x, y], 1), (0, 9), (4, 18)), ""),
    ("a part of a part, in steps", (F, F), lambda b, x, y: b.slice(b.concat([x, y], 0), (1, 0), (5, 9), (2, 1)),
     "slice(x0) begin=(1, 0) end=(4, 9) step=(2, 1)"),
    ("parts of two", ("f32[2]", "f32[2]"), lambda b, x, y: b.slice(b.concat([x, y], 0), (1,), (3,)),
     "concat(x0, x1) axis=0\nslice(%2) begin=(1,) end=(3,) step=(1,)"),
    ("pad by nothing", (F,), lambda b, x: b.pad(x, low=(0, 0), high=(0, 0), value=1.0), ""),
    ("reversed axis of 1", ("f32[1,5]",), lambda b, x: b.reverse(x, axes=(0,)), ""),
    # what is held in float32
    ("a sum of halves, widened", ("f16[4,9]",), lambda b, x: b.cast(b.sum(x, (1,)), f32), "sum(x0) axes=(1,)"),
    ("a half widened and narrowed", ("f16[4]", "f16[4]"), lambda b, x, y: b.apply(b._table["round_to"], (b.cast(x, f32),), {"dtype": f16}) * y,
     "mul(x0, x1)"),
    ("a view of a sum of halves", ("f16[4,9]",), lambda b, x: b.slice(b.sum(x, (1,)), (1,), (3,)),
     "sum(x0) axes=(1,)\nslice(%1) begin=(1,) end=(3,) step=(1,)\nround_to(%2)"),
    ("sum of halves over 1", ("f16[4,1]",), lambda b, x: b.sum(x, (1,)) * 3.0, "reshape(x0) shape=(4,)\nmul(%1, 3.0)"),
    # reductions over axes of 1
    ("sum over 1", ("f32[4,1]",), lambda b, x: b.sum(x, (1,)), "reshape(x0) shape=(4,)"),
    ("argmax over 1", ("f32[4,1]",), lambda b, x: b.argmax(x, axes=(1,)), "full() value=0"),
    ("amax over 1 and more", ("f32[4,1,3]",), lambda b, x: b.reduce("amax", x, (1, 2)), "amax(x0) axes=(2,)\nreshape(%1) shape=(4,)"),
    (
        "windows put back side by side",
        ("f32[2,4,3]",),
        lambda b, x: b.sum(b.fold(x, stride=(2,), dilate=(1,), extent=(6,)), (0,)),
        "transpose(x0) perm=(1, 2, 0)\nreshape(%1) shape=(4, 6)\nadd(%2, 0.0)",
    ),
    (
        "windows put back with gaps",
        ("f32[2,2,4,3,1]",),
        lambda b, x: b.sum(b.fold(x, stride=(3, 2), dilate=(1, 1), extent=(8, 3)), (0, 1)),
        "transpose(x0) perm=(2, 3, 0, 4, 1)\n"
        "pad(%1) high=(0, 0, 1, 0, 0) low=(0, 0, 0, 0, 0) value=0.0\n"
        "reshape(%2) shape=(4, 9, 2)\n"
        "slice(%3) begin=(0, 0, 0) end=(4, 8, 2) step=(1, 1, 1)\n"
        "pad(%4) high=(0, 0, 1) low=(0, 0, 0) value=0.0\n"
        "add(%5, 0.0)",
    ),
    # zeros around what is summed
    ("sum of what is padded", ("f32[4,3]",), lambda b, x: b.sum(b.pad(x, low=(0, 2), high=(0, 1), value=0), (1,)), "sum(x0) axes=(1,)"),
    ("sum over sentences of a word's gradient", ("f32[2,1,4]",),
     lambda b, x: b.sum(b.reshape(b.pad(x, low=(0, 2, 0), high=(0, 3, 0), value=0), (12, 4)), (0,)),
     "sum(x0) axes=(0,)\nreshape(%1) shape=(4,)"),
    ("sum beside the padded axis", ("f32[4,3]",), lambda b, x: b.sum(b.pad(x, low=(0, 2), high=(0, 1), value=0), (0,)),
     "pad(x0) high=(0, 1) low=(0, 2) value=0.0\nsum(%1) axes=(0,)"),
    ("sum of what is padded with ones", ("f32[4,3]",), lambda b, x: b.sum(b.pad(x, low=(0, 2), high=(0, 1), value=1), (1,)),
     "pad(x0) high=(0, 1) low=(0, 2) value=1.0\nsum(%1) axes=(1,)"),
    # the same thing twice, and what nothing needs
    ("common subexpressions", (F,), lambda b, x: b.exp(x) + b.exp(-(-x)), "exp(x0)\nadd(%1, %1)"),
    ("chains", (F,), lambda b, x: (x * 1 + -0.0) / 1 - 0.0, ""),
)  # fmt: skip


@pytest.fixture(autouse=True)
def _gradient_rule(monkeypatch):
    monkeypatch.setitem(GRADIENT_RULES, "of this test", lambda b, g, y, inputs, static: [g])


def values(type: str) -> tuple[np.ndarray, np.ndarray]:
    """Special values of a dtype, each against each."""
    dtype = parse(type).dtype
    if dtype.is_float:
        info = np.finfo(dtype.np)
        ends = [info.max, -info.max, info.tiny, -info.smallest_subnormal, info.smallest_subnormal * 3]
        found = [NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.1, -2.5, 3.0, *map(float, ends)]
    elif dtype is bool_:
        found = [False, True]
    else:
        info = np.iinfo(dtype.np)
        found = [0, 1, 2, 3, 7, info.max, info.min, info.max - 1]
    pairs = np.array(list(itertools.product(found, found)), dtype.np)
    return pairs[:, 0], pairs[:, 1]


def build_row(types: tuple[str, ...], build: Callable[..., Any]) -> Any:
    b: Builder = builder()
    parsed = [parse(t) for t in types]
    inputs = [b.input(t, f"x{k}") for k, t in enumerate(parsed)]
    out: Node = build(b, *inputs)
    return b.finish([out], "row")


@pytest.mark.parametrize(("types", "build", "to"), [r[1:] for r in ROWS], ids=[r[0] for r in ROWS])
def test_rule(types, build, to):
    graph = build_row(types, build)
    small = simplify(graph)
    verify(small)
    lines = [line.split("=", 1)[1].rsplit(None, 1)[0].strip() for line in str(small).splitlines()[1:]]
    assert lines == to.splitlines()
    assert small.outputs[0].type is graph.outputs[0].type
    summed = any(n.prim.name == "sum" for n in graph.nodes)  # the sum of one -0 is documented
    padded = any(n.prim.name == "conv" for n in graph.nodes)  # so are products with padding: infinity times 0
    # all pairs of special values, a shapeful at a time
    pools = [values(repr(n.type))[k % 2] for k, n in enumerate(graph.inputs)]
    count = max((len(p) for p in pools), default=1)
    step = max((n.size for n in graph.inputs), default=1) or count
    for start in range(0, count, step):
        arrays = []
        for node, pool in zip(graph.inputs, pools):
            at = (start + np.arange(node.size)) % len(pool)
            arrays.append(pool[at].reshape(node.shape))
        before, after = evaluate(graph, arrays)[0], evaluate(small, arrays)[0]
        assert before.dtype == after.dtype
        if padded:
            after = np.where(np.isnan(before), before, after)
        np.testing.assert_array_equal(before, after)
        if before.dtype.kind == "f":  # zeros have signs; NaN's is nobody's business
            real = ~np.isnan(before) & ~((summed or padded) & (before == 0))
            np.testing.assert_array_equal(np.signbit(before)[real], np.signbit(after)[real])


@pytest.mark.parametrize("power", [3.0, 4.0])
def test_small_powers_round_within_the_error_of_pow(power):
    graph = build_row((F,), lambda b, x: b.pow(x, power))
    small = simplify(graph)
    assert {n.prim.name for n in small.nodes} == {"input", "mul"}
    x = np.random.default_rng(0).standard_normal((4, 9)).astype(np.float32)
    np.testing.assert_allclose(evaluate(small, [x])[0], x.astype(np.float64) ** power, rtol=2e-7)
    special = np.resize(np.array([NAN, INF, -INF, 0.0, -0.0], np.float32), (4, 9))
    for a, c in zip(evaluate(graph, [special]), evaluate(small, [special])):
        np.testing.assert_array_equal(a, c)
        np.testing.assert_array_equal(np.signbit(a)[a == 0], np.signbit(c)[c == 0])


def test_every_rule_has_a_row(monkeypatch):
    applied: set[str] = set()

    def watched(rule: Any) -> Any:
        def run(*args: Any) -> Any:
            found = rule(*args)
            if found is not None:
                applied.add(rule.__name__)
            return found

        return run

    rules = {name: [watched(r) for r in found] for name, found in module.RULES.items()}
    every = {r.__name__ for found in module.RULES.values() for r in found}
    monkeypatch.setattr(module, "RULES", rules)
    for _, types, build, _ in ROWS:
        simplify(build_row(types, build))
    assert every - applied == set()


def test_origins_survive():
    b = builder()
    x = b.input(parse(F), "x")
    b.prov = Provenance("sigmoid", "net0_sigmoid0", "net.py:3")
    y = b.sigmoid(x * 1)
    small = simplify(b.finish([y], "net"))
    assert small.outputs[0].prov == Provenance("sigmoid", "net0_sigmoid0", "net.py:3")


def test_inputs_and_outputs_keep_their_places():
    b = builder()
    x, unused, y = (b.input(parse(F), n) for n in ("x", "unused", "y"))
    small = simplify(b.finish([y * 1, x, y], "places"))
    assert [n.params["name"] for n in small.inputs] == ["x", "unused", "y"]
    assert [o.params["name"] for o in small.outputs] == ["y", "x", "y"]
