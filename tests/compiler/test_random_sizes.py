# SPDX-License-Identifier: Apache-2.0
"""Random graphs with dimensions, planned for one size and filled in for others, beside the reference interpreter.

A session with others: ``HYBRIDGPU_RANDOM_GRAPHS=2000 pytest tests/compiler/test_random_sizes.py``.
"""

from __future__ import annotations

import os
import random

import numpy as np
import pytest
from compiler.random_sizes import SIZES, graphs

from hybridgpu.backends.cpu.backend import cpu_backend
from hybridgpu.compiler.ir import tensor_type
from hybridgpu.compiler.ir.dims import Scope, symbolic_dims
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.reference import evaluate
from hybridgpu.compiler.size_buckets import symbolic_type
from hybridgpu.compiler.size_templates import Template, at_own_extents
from hybridgpu.compiler.target import CPU
from hybridgpu.core.dtypes import f32

SESSION = int(os.environ.get("HYBRIDGPU_RANDOM_GRAPHS", "0"))


def drawn(rng, first):
    return tuple(rng.choice([n for n in SIZES if n != f]) for f in first)


def dims_of(scope, now, first):
    """Dimensions as the second signature of a block has them."""
    a, b = (
        symbolic_type(tensor_type((n,), f32), tensor_type((f,), f32), scope) for n, f in zip(now, first, strict=True)
    )
    return (*a.shape, *b.shape)


def assert_right(programs, seed, size):
    rng = np.random.default_rng(seed)
    for program, graph in zip(programs, graphs(seed, size), strict=True):
        inputs = [rng.standard_normal(node.shape).astype(np.float32) for node in graph.inputs]
        outputs = [np.full(node.shape, np.nan, np.float32) for node in graph.outputs]
        cpu_backend().load(program)(inputs, outputs)
        for found, want in zip(outputs, evaluate(graph, inputs, wide=True), strict=True):
            scale = max(np.abs(want).max(), 0.1)
            np.testing.assert_allclose(found / scale, want / scale, 0, 2e-4)


@pytest.mark.parametrize("seed", range(SESSION or 16))
def test_graphs_of_any_size(seed, compiler):
    rng = random.Random(seed)
    first = rng.choice(SIZES), rng.choice(SIZES)
    now = drawn(rng, first)
    with symbolic_dims() as scope:
        programs = [compile_graph(graph, CPU) for graph in graphs(seed, dims_of(scope, now, first))]
        template, own = Template(scope, programs), at_own_extents(scope, programs)
    assert_right(own, seed, now)
    for _ in range(4):
        other, others = drawn(rng, first), Scope()
        dims_of(others, other, first)
        alike = [n for _, n in others.dimensions] == [n for _, n in scope.dimensions]
        found = template.at([n for n, _ in others.dimensions]) if alike else None
        if found is not None:
            assert_right(found, seed, other)
