# SPDX-License-Identifier: Apache-2.0
"""Programs of several sizes: their texts, and that their results are right."""

from __future__ import annotations

import numpy as np
from emulated import aligned

from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.reference import evaluate
from hybridgpu.compiler.size_templates import at_own_extents

__all__ = ["texts_and_values"]


def texts_and_values(make, sizes, target, load, scope=None):
    """The texts of programs of several sizes, dimensions of ``scope`` if given, whose results are right."""
    texts, rng = set(), np.random.default_rng(1)
    for n in sizes:
        b = builder()
        graph = b.finish([make(b, n)])
        program = compile_graph(graph, target)
        if scope is not None:
            program = at_own_extents(scope, program)
        texts.add(tuple(k.text for k in program.kernels))
        inputs = [aligned(node.shape, np.float32) for node in graph.inputs]
        for a in inputs:
            a[...] = rng.standard_normal(a.shape)
        ((shape, _),) = program.outputs
        out = aligned(shape, np.float32)
        load(program)(inputs, [out])
        (want,) = evaluate(graph, inputs, wide=True)
        np.testing.assert_allclose(out, want, 2e-5, 2e-5)
    return texts
