# SPDX-License-Identifier: Apache-2.0
"""Products that are wanted transposed are products of transposed operands, where nobody else wants them.

On a GPU that is so for those of a library alone: a generated kernel stores what it computes in any order.
"""

from __future__ import annotations

import numpy as np
import pytest
from compiler.cases import arrays, parse
from compiler.one_pass import run_pass

from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.program import LibraryStep
from hybridgpu.compiler.reference import evaluate
from hybridgpu.compiler.target import CPU, CUDA

pytestmark = pytest.mark.no_host_code

MATRICES = ("f32[4,5]", "f32[5,6]")
BATCH = ("f32[3,4,5]", "f32[3,5,6]")
CUBES = ("f32[4,4,4]", "f32[4,4,4]")


def turned(*perm):
    return lambda b, x, w: b.transpose(b.dot(x, w), perm)


def kept_too(b, x, w):
    y = b.dot(x, w)
    return [b.transpose(y, (1, 0)), y]


def read_too(b, x, w):
    y = b.dot(x, w)
    return [b.transpose(y, (1, 0)), b.exp(y)]


#: what is made of two operands, their types -> whether the product is computed the other way round
TABLE = {
    "a matrix": (turned(1, 0), MATRICES, True),
    "many": (turned(0, 2, 1), BATCH, True),
    "and what follows": (lambda b, x, w: b.exp(turned(1, 0)(b, x, w)) * 2.0, MATRICES, True),
    "in another order": (turned(2, 1, 0), CUBES, False),
    "the batch moved": (turned(1, 0, 2), CUBES, False),
    "a result, too": (kept_too, MATRICES, False),
    "read, too": (read_too, MATRICES, False),
    "a sum": (lambda b, x, w: b.transpose(b.exp(b.dot(x, w)), (1, 0)), MATRICES, False),
}


@pytest.mark.parametrize("generated", [False, True], ids=["library", "kernel"])
@pytest.mark.parametrize("target", [CPU, CUDA], ids=lambda t: t.name)
@pytest.mark.parametrize("name", TABLE)
def test_operands_are_transposed_in_place_of_products(name, target, generated):
    make, types, wanted = TABLE[name]
    b = builder()
    made = make(b, *(b.input(parse(t), f"x{k}") for k, t in enumerate(types)))
    graph = b.finish(made if isinstance(made, list) else [made])
    found = run_pass("transpose_dots", graph, target, generates=lambda node: generated)
    (product,) = (n for n in found.nodes if n.prim.name == "dot")
    sides = [i.prim.name for i in product.inputs]
    assert (sides == ["transpose"] * 2) is (wanted and (target is CPU or not generated))
    for got, want in zip(evaluate(found, arrays(graph, 1)), evaluate(graph, arrays(graph, 1)), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)


def test_a_gradient_of_a_weight_is_not_copied():
    """Of a dense layer: both of its operands are read as they lie, and the library leaves the result as it is wanted."""
    b = builder()
    dy, x = b.input(parse("f32[1024,512]"), "dy"), b.input(parse("f32[1024,2048]"), "x")
    program = compile_graph(b.finish([b.transpose(b.dot(b.transpose(x, (1, 0)), dy), (1, 0))]), CUDA)
    assert [type(s) for s in program.steps] == [LibraryStep]
    assert program.bytes_moved == program.bytes_min


def test_a_copy_is_made_in_the_order_that_others_want():
    """Heads of attention side by side, as both gradients of the layer behind them take them."""
    b = builder()
    heads, w, dy = (
        b.input(parse(t), n) for t, n in (("f32[8,8,128,64]", "h"), ("f32[512,512]", "w"), ("f32[1024,512]", "dy"))
    )
    rows = b.reshape(b.transpose(heads, (0, 2, 1, 3)), (1024, 512))
    of_weight = b.transpose(b.dot(b.transpose(rows, (1, 0)), dy), (1, 0))
    program = compile_graph(b.finish([b.dot(rows, w), of_weight]), CUDA)
    assert [k.kind for k in program.kernels] == ["map"]
    assert sum(isinstance(s, LibraryStep) for s in program.steps) == 2
