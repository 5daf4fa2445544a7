# SPDX-License-Identifier: Apache-2.0
"""np.einsum: values and gradients against NumPy, and what it is made of."""

from __future__ import annotations

import numpy as onp
import pytest

import hybridgpu as mx
from hybridgpu import autograd
from hybridgpu.compiler.ir.types import tensor_type
from hybridgpu.core.dtypes import f32
from hybridgpu.ndarray.apply import operator_graph
from hybridgpu.ops.functions import registered

ROWS = [
    ("ij", [(2, 3)]),
    ("ba", [(2, 3)]),
    ("ii", [(3, 3)]),
    ("ii->i", [(3, 3)]),
    ("iij->j", [(3, 3, 2)]),
    ("iii->i", [(3, 3, 3)]),
    ("ijij->ji", [(2, 3, 2, 3)]),
    ("...ii->...i", [(2, 3, 3)]),
    ("ij->", [(2, 3)]),
    ("i...->...", [(2, 3, 4)]),
    ("i,i", [(3,), (3,)]),
    ("i,j->ji", [(3,), (2,)]),
    (",i", [(), (3,)]),
    (",", [(), ()]),
    ("ij,jk", [(2, 3), (3, 4)]),
    ("ij,jk->ki", [(2, 3), (3, 4)]),
    ("ij,kj->i", [(2, 3), (4, 3)]),
    ("ij,ij->i", [(2, 3), (2, 3)]),
    ("ij,ij->", [(2, 3), (2, 3)]),
    ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]),
    ("bij,bkj->ikb", [(2, 3, 4), (2, 5, 4)]),
    ("bqhd,bkhd->bhqk", [(2, 3, 2, 4), (2, 5, 2, 4)]),
    ("...ij,...jk->...ik", [(2, 1, 2, 3), (4, 3, 5)]),
    ("...,...", [(2, 3), (3,)]),
    ("i...,...j->...ij", [(2, 3), (3, 4)]),
    ("k...,jk", [(3, 2), (4, 3)]),
    ("ijk,jil->kl", [(3, 4, 5), (4, 3, 2)]),
    ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)]),
    ("ij,jk,kl,lm->", [(2, 3), (3, 4), (4, 5), (5, 2)]),
    ("a,ab,abc->abc", [(2,), (2, 3), (2, 3, 4)]),
    ("a,b,ab,abc->ca", [(2,), (3,), (2, 3), (2, 3, 4)]),
    ("ii,ij,j->i", [(3, 3), (3, 2), (2,)]),
    ("ij,ij->ij", [(2, 1), (1, 3)]),
    ("ij,jk", [(2, 0), (0, 4)]),
    ("ij,jk", [(0, 3), (3, 4)]),
    ("zA,Ab", [(2, 3), (3, 4)]),
]
rows = pytest.mark.parametrize("subscripts, shapes", ROWS, ids=[f"{s} {x}" for s, x in ROWS])


@pytest.fixture(autouse=True)
def _numpy_semantics():
    with mx.util.np_shape(True), mx.util.np_array(True):
        yield


def array(values, dtype="float64"):
    return mx.nd.array(onp.asarray(values, dtype), dtype=dtype).as_np_ndarray()


def operands(shapes):
    rng = onp.random.default_rng(0)
    return [rng.normal(size=s) for s in shapes]


@rows
@pytest.mark.parametrize("optimize", [False, True])
def test_value(subscripts, shapes, optimize):
    given = operands(shapes)
    got = mx.np.einsum(subscripts, *map(array, given), optimize=optimize)
    onp.testing.assert_allclose(got.asnumpy(), onp.einsum(subscripts, *given), 1e-12, 1e-12)


@rows
def test_gradient(subscripts, shapes):
    given = operands(shapes)
    arrays = [array(x) for x in given]
    for x in arrays:
        x.attach_grad()
    with autograd.record():
        y = mx.np.einsum(subscripts, *arrays)
    weights = onp.random.default_rng(1).normal(size=y.shape)
    y.backward(array(weights))
    for k, x in enumerate(given):  # linear in each operand: the slope along a direction is the value there
        direction = onp.random.default_rng(2 + k).normal(size=x.shape)
        moved = onp.einsum(subscripts, *(direction if j == k else v for j, v in enumerate(given)))
        onp.testing.assert_allclose((arrays[k].grad.asnumpy() * direction).sum(), (moved * weights).sum(), 1e-10, 1e-10)


@pytest.mark.parametrize("dtype", ["int32", "int64", "bool", "float16", "uint8"])
def test_element_type(dtype):
    a, b = onp.array([[1, 0, 2], [0, 0, 1]], dtype), onp.array([[1, 1], [0, 1], [1, 0]], dtype)
    got = mx.np.einsum("ij,jk", array(a, dtype), array(b, dtype))
    assert got.dtype == onp.dtype(dtype)
    onp.testing.assert_array_equal(got.asnumpy(), onp.einsum("ij,jk", a, b))


@pytest.mark.parametrize(
    "subscripts, shapes, made_of",
    [
        ("ij,jk->ik", [(3, 4), (4, 5)], ["dot"]),
        ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)], ["dot"]),
        ("ij,kj->ik", [(3, 4), (5, 4)], ["transpose", "dot"]),
        ("bi,bi->b", [(3, 4), (3, 4)], ["mul", "sum"]),
        ("i,i", [(3,), (3,)], ["mul", "sum"]),
        ("ij->ji", [(3, 4)], ["transpose"]),
    ],
)
def test_made_of(subscripts, shapes, made_of):
    op = registered("_npi_einsum")
    types = [tensor_type(s, f32) for s in shapes]
    graph, _ = operator_graph(op, op.parse({"num_args": len(types), "subscripts": subscripts}), types, False)
    assert [n.prim.name for n in graph.nodes if n.prim.name not in ("input", "reshape", "broadcast")] == made_of
