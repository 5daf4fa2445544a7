# SPDX-License-Identifier: Apache-2.0
"""Products that are wanted transposed are products of transposed operands on a host, where nobody else wants them."""

from __future__ import annotations

import numpy as np
import pytest
from compiler.cases import arrays, parse

from hybridgpu.compiler.passes.products import transpose_operands
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.reference import evaluate
from hybridgpu.compiler.target import CPU, CUDA

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


@pytest.mark.parametrize("target", [CPU, CUDA], ids=lambda t: t.name)
@pytest.mark.parametrize("name", TABLE)
def test_operands_are_transposed_in_place_of_products(name, target):
    make, types, wanted = TABLE[name]
    b = builder()
    made = make(b, *(b.input(parse(t), f"x{k}") for k, t in enumerate(types)))
    graph = b.finish(made if isinstance(made, list) else [made])
    found = transpose_operands(graph, target)
    (product,) = (n for n in found.nodes if n.prim.name == "dot")
    sides = [i.prim.name for i in product.inputs]
    assert (sides == ["transpose"] * 2) is (wanted and target is CPU)
    for got, want in zip(evaluate(found, arrays(graph, 1)), evaluate(graph, arrays(graph, 1)), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)
