# SPDX-License-Identifier: Apache-2.0
"""Who computes each product, convolution and scatter, and the reason that is given for it."""

from __future__ import annotations

import pytest
from compiler.cases import parse

from hybridgpu.compiler.pass_context import PassContext
from hybridgpu.compiler.passes import materialize
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.program import LibraryStep
from hybridgpu.compiler.select import select
from hybridgpu.compiler.target import CPU, CUDA

pytestmark = pytest.mark.no_host_code

FAST = CUDA.with_numeric("fast")


def dot(left, right):
    def make(b):
        return b.dot(b.input(parse(left), "x"), b.input(parse(right), "w"))

    return make


def dot_over_batch(left, right):
    """As the gradient of a dense layer's weight."""

    def make(b):
        return b.dot(b.transpose(b.input(parse(left), "x"), (1, 0)), b.input(parse(right), "w"))

    return make


def conv(x, w, **params):
    def make(b):
        x_, w_ = b.input(parse(x), "x"), b.input(parse(w), "w")
        ones, zeros = (1,) * (x_.ndim - 2), (0,) * (x_.ndim - 2)
        plain = {"stride": ones, "low": zeros, "high": zeros, "dilate": ones, "base_dilate": ones, "groups": 1}
        return b.conv(x_, w_, **{**plain, **params})

    return make


def scatter(updates, at, extent):
    def make(b):
        return b.scatter_add(b.input(parse(updates), "x"), b.input(parse(at), "at"), axis=0, extent=extent)

    return make


SMALL_CONV = conv("f32[1,8,16,16]", "f32[8,8,3,3]")
LARGE_CONV = conv("f32[8,64,56,56]", "f32[64,64,3,3]")
#: name -> (node, target, kind, words of the reason)
TABLE = {
    "one row": (dot("f32[1,4096]", "f32[4096,4096]"), CPU, "matmul", "1 row: bound by reading"),
    "small product": (dot("f32[64,64]", "f32[64,64]"), CPU, "matmul", "less than copying the operands"),
    "gradient of a weight": (dot_over_batch("f32[64,48]", "f32[64,40]"), CPU, "matmul", "in blocks: sums over a batch"),
    "tiles": (dot("f32[64,500]", "f32[500,256]"), CPU, "matmul", "8,192,000 multiplications, at most 16,777,216"),
    "large product": (
        dot("f32[512,512]", "f32[512,512]"),
        CPU,
        "matmul",
        "in blocks: 134,217,728 multiplications, more than",
    ),
    "halves": (dot("f16[64,500]", "f16[500,256]"), CPU, "library", "of halves"),
    "integers": (dot("i32[512,512]", "i32[512,512]"), CPU, "matmul", "floats alone"),
    "no terms": (dot("f32[4,0]", "f32[0,4]"), CPU, "library", "multiplies nothing"),
    "few rows, deep": (dot("f32[8,1024]", "f32[1024,500]"), CPU, "matmul", "in blocks: 8 rows"),
    "small product of a GPU": (dot("f32[1,64]", "f32[64,64]"), CUDA, "matmul", "us in a kernel"),
    "large product of a GPU": (dot("f32[2048,2048]", "f32[2048,2048]"), CUDA, "library", "us in a library"),
    "no library": (
        dot("f32[512,512]", "f32[512,512]"),
        CUDA.changed(library_products=False),
        "matmul",
        "no library multiplies",
    ),
    "convolution": (SMALL_CONV, CPU, "conv", "of what it computes counts"),
    "convolution of a GPU": (SMALL_CONV, CUDA, "conv", "direct kernel: 112,896 multiplications, at most"),
    "large convolution of a GPU": (LARGE_CONV, CUDA, "library", "multiplications, more than 16,777,216"),
    "four axes": (
        conv("f32[1,4,3,3,3,3]", "f32[2,2,2,2,2,2]", groups=2),
        CPU,
        "library",
        "more than three spatial axes",
    ),
    "spread operand": (
        conv("f32[1,8,8,8]", "f32[8,8,4,4]", base_dilate=(2, 2)),
        CPU,
        "conv_input_dilated",
        "4 phases without",
    ),
    "spread operand of a GPU": (conv("f32[1,8,8,8]", "f32[8,8,4,4]", base_dilate=(2, 2)), CUDA, "conv", "direct"),
    "scatter": (scatter("f32[100,8]", "i32[100]", 50), CPU, "scatter", ""),
    "halves are scattered as floats": (scatter("f16[100,8]", "i32[100]", 50), CPU, "library", ""),
    "scatter, the same bits": (scatter("f32[100,8]", "i32[100]", 50), CUDA, "scatter", "differ from run to run"),
    "scatter in any order": (scatter("f32[100,8]", "i32[100]", 50), FAST, "scatter", "us in a kernel"),
    "many updates": (scatter("f32[1000000]", "i32[1000000]", 50), FAST, "library", "1,000,000 updates"),
    "truth values": (scatter("bool[100]", "i32[100]", 50), CPU, "library", "no sum"),
}


@pytest.mark.parametrize("name", TABLE)
def test_kind_and_reason(name):
    make, target, kind, words = TABLE[name]
    found = select(make(builder()), target)
    assert (found.kind, found.generated) == (kind, kind != "library")
    assert words in found.reason and bool(words) == bool(found.reason)


@pytest.mark.parametrize("name", TABLE)
def test_programs_do_as_selected_and_say_why(name):
    make, target, kind, words = TABLE[name]
    if name in (
        "halves are scattered as floats",
        "no terms",
        "many updates",
    ):  # earlier passes make something else of it
        return
    b = builder()
    program = compile_graph(b.finish([make(b)], "selected"), target)
    step = program.steps[-1]
    if kind == "library":
        assert isinstance(step, LibraryStep) and words in step.note
    else:
        assert words in program.kernels[0].choice.get("selected", "")
        assert program.kernels[0].kind == kind.split("_")[0]


def test_a_rewritten_graph_keeps_its_selections():
    """A copy of an operand in another order would make another choice of the product."""
    b = builder()
    x, w = b.input(parse("f32[8,500]"), "x"), b.input(parse("f32[500,500]"), "w")
    product = b.dot(b.slice(b.concat([x, x], 0), (1, 0), (9, 500), (1, 1)), w)
    graph = b.finish([product], "sliced")
    ctx = PassContext(CPU)
    materialize.run(graph, ctx)
    ready, selector = ctx.materialized, ctx.select
    (new,) = ready.generated
    assert ready.sources == {new: product}
    assert selector(product).reason != select(new, CPU).reason
    assert selector(new) is selector(product)


@pytest.mark.parametrize(
    "primitive, node",
    [
        ("conv_backward_filter", conv("f32[64,32,58,58]", "f32[64,32,56,56]")),
        ("conv_backward_data", conv("f32[8,64,28,28]", "f32[64,64,4,4]", base_dilate=(2, 2))),
    ],
)
def test_derivatives_that_a_library_computes_say_why(primitive, node):
    b = builder()
    program = compile_graph(b.finish([node(b)], "derivative"), CUDA)
    (step,) = [s for s in program.steps if isinstance(s, LibraryStep)]
    assert step.primitive == primitive and "derivative of a convolution" in step.note
