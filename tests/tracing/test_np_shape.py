# SPDX-License-Identifier: Apache-2.0
"""One block in and out of NumPy shape semantics, which change the shapes that some operators give."""

import pytest
from ops.test_table import RECORDS, samples_of

import hybridgpu as mx
from hybridgpu import autograd, gluon, nd
from hybridgpu.base import MXNetError
from hybridgpu.compiler.ir.types import tensor_type
from hybridgpu.core.dtypes import f32
from hybridgpu.ndarray.apply import operator_graph


class OnSymbols(gluon.HybridBlock):
    def hybrid_forward(self, F, x):
        return F.linalg.det(x)


class OnArrays(gluon.HybridBlock):
    def forward(self, x):
        return nd.linalg.det(x)


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("make", [OnSymbols, OnArrays, lambda: None], ids=["symbols", "arrays", "function"])
def test_each_call_has_the_shapes_of_its_semantics(make, first, recorded):
    x = nd.array([[2, 0], [0, 3]])
    x.attach_grad()
    call = make()
    if call is None:
        call = mx.hybridize(nd.linalg.det)
    else:
        call.hybridize()
    for _ in range(3):
        for active in (first, not first):
            with mx.np_shape(active):
                if recorded:
                    with autograd.record():
                        y = call(x)
                    y.backward()
                else:
                    y = call(x)
                assert y.shape == (() if active else (1,))


def shapes(op, sample):
    """Shapes of the results of a call with the sample's shapes."""
    types = [tensor_type(s, f32) for s in sample.shapes]
    return [o.shape for o in operator_graph(op, op.parse(sample.attributes), types, False)[0].outputs]


def test_records_say_whether_numpy_shape_semantics_change_their_shapes():
    found = set()
    for op in RECORDS:
        if op.eager is not None or op.python is not None or op.subgraphs:
            continue
        for sample in samples_of(op):
            if sample.shapes is None or any(0 in s for s in sample.shapes):
                continue
            try:
                with mx.np_shape(False):
                    plain = shapes(op, sample)
                with mx.np_shape(True):
                    if shapes(op, sample) != plain:
                        found.add(op.name)
            except (MXNetError, TypeError):  # other element types are needed, or empty results without these semantics
                continue
    assert found == {op.name for op in RECORDS if op.np_shape}
