# SPDX-License-Identifier: Apache-2.0
"""Positions that are computed from values are within bounds, whatever the values are: kernels do not look again."""

from __future__ import annotations

import zlib
from dataclasses import replace

import numpy as np
import pytest
from ops.test_table import RECORDS, cases

import hybridgpu as mx
from hybridgpu import nd
from hybridgpu.base import MXNetError
from hybridgpu.compiler.ir.graph import Graph
from hybridgpu.compiler.reference import evaluate
from hybridgpu.ndarray.apply import operator_graph

FLOATS = [np.nan, np.inf, -np.inf, -0.0, -0.5, -1, -2, 100, 2.0**31, -(2.0**31) - 1, 1e18, -1e18, 1e30, -3e38]

#: primitives that read or write at computed positions -> which operand holds them, the extent that they lie within
POSITIONS = {
    "take": lambda n: (n.inputs[1], n.inputs[0].shape[n.params["axis"]]),
    "take_along": lambda n: (n.inputs[1], n.inputs[0].shape[n.params["axis"]]),
    "scatter_add": lambda n: (n.inputs[1], n.params["extent"]),
    "scatter_along": lambda n: (n.inputs[1], n.params["extent"]),
    "scatter_set": lambda n: (n.inputs[2], n.shape[0]),
}


def hostile(x, rng):
    """``x`` with every other value another that nobody means as a position, a length or a place."""
    if x.dtype == bool:
        return x
    if x.dtype.kind == "f":
        with np.errstate(all="ignore"):
            values = np.array(FLOATS).astype(x.dtype)
    else:
        limits = np.iinfo(x.dtype)
        values = np.array([limits.min, limits.max, limits.max // 2, 100, 0, *([-1] if limits.min else [])], x.dtype)
    return np.where(rng.uniform(size=x.shape) < 0.5, rng.choice(values, x.shape), x).astype(x.dtype)


def positions(graph):
    """The operands of the graph that hold positions, each with its extent."""
    return [POSITIONS[n.prim.name](n) for n in graph.nodes if n.prim.name in POSITIONS]


@pytest.fixture(autouse=True)
def _positions_wrap(monkeypatch):
    """As in kernels: NumPy, which computes eagerly, looks at each position first."""
    from hybridgpu.compiler.primitives import TABLE
    from hybridgpu.ndarray import apply

    monkeypatch.setattr(apply, "_graphs", {})
    wrap = replace(TABLE["wrap_index"], evaluate=lambda xp, inputs, params, out: np.mod(*inputs))
    monkeypatch.setitem(TABLE, "wrap_index", wrap)


@pytest.mark.parametrize("op", [op for op in RECORDS if op.eager is None], ids=lambda op: op.name)
def test_positions_are_within_bounds(op):
    rng = np.random.default_rng(zlib.crc32(op.name.encode()))
    for case in cases(op, ["float32", "int32"], mx.cpu()):
        try:
            graph, draws = operator_graph(op, case.values, [a._type.tensor for a in case.arrays], False)
        except MXNetError:
            continue
        for at, extent in positions(graph):
            wanted = Graph("positions", graph.inputs, (at,))
            for _ in range(3):
                words = [np.arange(4, dtype=np.uint32)] if draws else []
                with np.errstate(all="ignore"):
                    (found,) = evaluate(wanted, [*(hostile(x, rng) for x in case.host), *words])
                assert ((found >= 0) & (found < extent)).all(), f"{case}: {found} of {extent}"


NOWHERE = [np.nan, np.inf, -np.inf]


@pytest.mark.parametrize("value", NOWHERE)
@pytest.mark.parametrize(
    ("call", "width"),
    [
        (lambda F, x, r: F.ROIPooling(x, r, pooled_size=(2, 2), spatial_scale=1.0), 5),
        (lambda F, x, r: F.contrib.ROIAlign(x, r, pooled_size=(2, 2), spatial_scale=1.0), 5),
        (lambda F, x, r: F.contrib.RROIAlign(x, r, pooled_size=(2, 2), spatial_scale=1.0), 6),
        (lambda F, x, r: F.contrib.PSROIPooling(x, r, spatial_scale=1.0, output_dim=1, pooled_size=2), 5),
        (
            lambda F, x, r: F.contrib.DeformablePSROIPooling(
                x, r, spatial_scale=1.0, output_dim=1, group_size=2, pooled_size=2, no_trans=True
            ),
            5,
        ),
    ],
    ids=["ROIPooling", "ROIAlign", "RROIAlign", "PSROIPooling", "DeformablePSROIPooling"],
)
def test_regions_that_lie_nowhere_leave_the_others_alone(call, width, value):
    """As the proposals of a network whose training diverged."""
    rng = np.random.default_rng(0)
    x = nd.array(rng.normal(size=(2, 4, 6, 6)))
    sound = np.array([[0, 1, 1, 4, 4, 0], [1, 0, 2, 3, 5, 0]], "float32")[:, :width]
    net = mx.gluon.nn.HybridLambda(call)
    net.hybridize()
    want = call(nd, x, nd.array(sound)).asnumpy()
    for place in range(width):
        lost = sound[:1].copy()
        lost[0, place] = value
        rois = nd.array(np.concatenate([lost, sound]))
        for f in (net, lambda *a: call(nd, *a)):
            np.testing.assert_allclose(f(x, rois).asnumpy()[1:], want, rtol=1e-5, atol=1e-6)


def test_regions_beyond_all_bounds():
    """Their samples within the data are few; all of them would not fit into any memory."""
    x = nd.array(np.random.default_rng(0).normal(size=(1, 1, 5, 5)))
    rois = nd.array([[0, -1e9, -1e9, 1e9, 1e9], [0, 1, 1, 4, 4], [0, 0, 0, 1e30, 3]])
    y = nd.contrib.ROIAlign(x, rois, pooled_size=(2, 2), spatial_scale=1.0).asnumpy()
    alone = nd.contrib.ROIAlign(x, rois[1:2], pooled_size=(2, 2), spatial_scale=1.0).asnumpy()
    np.testing.assert_array_equal(y[1:2], alone)
    assert np.abs(y[[0, 2]]).max() < 1e-6
    with pytest.raises(MXNetError, match="region of 1e\\+09 elements is too large for 2 bins"):
        nd.contrib.RROIAlign(x, nd.array([[0, 2, 2, 1e9, 3, 30]]), pooled_size=(2, 2), spatial_scale=1.0)


EMPTY = {
    "take": (lambda F, a, i: F.take(a, i), (0, 3), (2,)),
    "take, wrapped": (lambda F, a, i: F.take(a, i, mode="wrap"), (0, 3), (2,)),
    "take, checked": (lambda F, a, i: F.take(a, i, mode="raise"), (0, 3), (2,)),
    "batch_take": (lambda F, a, i: F.batch_take(a, i), (2, 0), (2,)),
    "gather_nd": (lambda F, a, i: F.gather_nd(a, i), (0, 3), (1, 2)),
    "index_copy": (lambda F, a, i: F.contrib.index_copy(a, i, F.ones((2, 3))), (0, 3), (2,)),
}


@pytest.mark.parametrize("name", EMPTY)
def test_there_are_no_entries_of_nothing(name):
    """What a clipped position would read there lies behind the array."""
    call, shape, positions_ = EMPTY[name]
    net = mx.gluon.nn.HybridLambda(call)
    net.hybridize()
    for f in (lambda *a: call(nd, *a), net):
        with pytest.raises(MXNetError, match="an axis that has no entries"):
            f(nd.array(np.zeros(shape)), nd.zeros(positions_)).asnumpy()
