# SPDX-License-Identifier: Apache-2.0
"""Every record of the operator table as an eager kernel for any size: what array libraries compute, and its gradients."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from ops.test_table import RECORDS, cases, fresh

import hybridgpu as mx
from hybridgpu import autograd
from hybridgpu.base import MXNetError
from hybridgpu.compiler.interpreter_cost import _LITERAL, KernelKind
from hybridgpu.ndarray import kernels
from hybridgpu.ndarray.apply import forget_graphs, operator_graph


def computed(case, kind, monkeypatch):
    """(results, gradients) of a case whose operator is computed by a kernel of a kind."""
    forget_graphs()

    def chosen(graph, device):
        return KernelKind.NONE if any(n.prim.checks for n in graph.nodes) else kind

    with monkeypatch.context() as patch:
        patch.setattr(kernels, "_kernel_kind", chosen)
        inputs = fresh(case)
        for x in inputs:
            if x.dtype == np.float32:
                x.attach_grad()
        with autograd.record():
            results = case.run(mx.nd, inputs)
        recorded = [r for r in results if r._autograd is not None and r.dtype == np.float32]
        if recorded:
            try:
                autograd.backward(recorded)
            except MXNetError as e:  # it has no derivative, or none of a single array
                return [r.asnumpy() for r in results], str(e).splitlines()[0]
        return [r.asnumpy() for r in results], [None if x.grad is None else x.grad.asnumpy() for x in inputs]


@pytest.mark.usefixtures("compiler")
@pytest.mark.long_table
@pytest.mark.parametrize("op", [op for op in RECORDS if op.eager is None], ids=lambda op: op.name)
def test_kernels_compute_what_the_interpreter_does(op, monkeypatch):
    with mx.util.np_shape(op.name.startswith("_np")):
        # of the shapes of an elementwise function, whose kernels differ little, not the same for all
        first, every = (0, 1) if op.samples else (zlib.crc32(op.name.encode()) % 3, 3)
        for case in cases(op, ["float32"], mx.cpu())[first::every]:
            try:
                graph, draws = operator_graph(op, case.values, [a._type.tensor for a in case.arrays], True)
            except MXNetError:  # it refuses these types
                continue
            if draws or any(n.prim.family in _LITERAL for n in graph.nodes):  # whose kernels serve one size
                continue
            expected, wanted = computed(case, KernelKind.NONE, monkeypatch)
            found, gradients = computed(case, KernelKind.ANY_SIZE, monkeypatch)
            for x, y in zip(expected, found, strict=True):
                np.testing.assert_allclose(y, x, rtol=2e-5, atol=2e-5, err_msg=str(case))
            if isinstance(wanted, str) or isinstance(gradients, str):
                assert wanted == gradients
                continue
            for x, y in zip(wanted, gradients, strict=True):
                assert (x is None) == (y is None)
                if x is not None:
                    np.testing.assert_allclose(y, x, rtol=5e-4, atol=1e-4, err_msg=f"gradients of {case}")
