# SPDX-License-Identifier: Apache-2.0
"""Random graphs: printed and parsed, simplified, fused and compiled for both targets, against float64.

The examples are the same in every run. A session with others:
``HYBRIDGPU_RANDOM_GRAPHS=2000 pytest tests/compiler/test_random_graphs.py --hypothesis-seed=1``.
"""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest
from compiler.cases import arrays, build, plain
from compiler.oracle import Oracle
from compiler.random_graphs import COVERED, LEFT_OUT, SCATTERS, graphs
from compiler.random_loops import loops, written_out
from emulated import aligned
from guard_pages import guarded, guarded_copy
from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import strategies as st

from hybridgpu.backends.base import Mode
from hybridgpu.backends.cpu.backend import cpu_backend
from hybridgpu.backends.cuda.backend import CudaBackend
from hybridgpu.compiler.ir import tensor_type
from hybridgpu.compiler.ir.parse import parse_graph
from hybridgpu.compiler.ir.verify import verify
from hybridgpu.compiler.passes.canonicalize.simplify import simplify
from hybridgpu.compiler.passes.differentiate import differentiate
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import TABLE, builder
from hybridgpu.compiler.reference import evaluate
from hybridgpu.compiler.target import CPU, CUDA
from hybridgpu.core.dtypes import f16, from_short

SESSION = int(os.environ.get("HYBRIDGPU_RANDOM_GRAPHS", "0"))


def examples(count: int) -> settings:
    """``count`` examples, the same ones each time; a session by hand draws its own."""
    return settings(
        max_examples=SESSION or count,
        derandomize=not SESSION,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


def show(graph, inputs) -> None:
    """Into the report of a failing example: what reproduces it."""
    note(str(graph))
    for node, a in zip(graph.inputs, inputs):
        if a.size <= 64:
            note(f"{node.params['name']} = {a.tolist()!r}")


def fresh(program):
    return [aligned(shape, from_short(short).np) for shape, short in program.outputs]


def unaligned(a: np.ndarray) -> np.ndarray:
    """The same array, one element past an aligned address."""
    raw = aligned((a.size + 1,), a.dtype)
    raw[1:] = a.reshape(-1)
    return raw[1:].reshape(a.shape)


def test_every_primitive_is_drawn():
    assert COVERED | set(LEFT_OUT) == set(TABLE)


@pytest.mark.no_host_code
@examples(150)
@given(graphs(), st.integers(0, 99), st.booleans())
def test_printed_and_simplified(graph, seed, specials):
    inputs = arrays(graph, seed, specials)
    show(graph, inputs)
    verify(graph)
    text = str(graph)
    again = parse_graph(text, TABLE)
    verify(again)
    assert str(again) == text
    with np.errstate(all="ignore"):
        for a, b in zip(evaluate(graph, inputs), evaluate(again, inputs), strict=True):
            np.testing.assert_array_equal(plain(a), plain(b))
    small = simplify(graph)
    verify(small)
    oracle = Oracle(graph, inputs)
    oracle.check(evaluate(small, inputs, wide=True), f"simplified:\n{small}")
    assert str(simplify(small)) == str(small), "simplifying twice gives something else"


@examples(60)
@given(graphs(), st.integers(0, 99), st.booleans(), st.booleans())
def test_cpu(compiler, graph, seed, specials, shifted):
    run_cpu(graph, seed, specials, shifted)


def run_cpu(graph, seed, specials, shifted, expanded=None):
    """``expanded``: a graph with the same results, for the oracle."""
    inputs = arrays(graph, seed, specials)
    show(graph, inputs)
    program = compile_graph(graph, CPU)
    outputs = [guarded(shape, from_short(short).np) for shape, short in program.outputs]
    held = [unaligned(a) if shifted else guarded_copy(a, not specials) for a in inputs]
    cpu_backend().load(program)(held, outputs)
    note(program.source)
    Oracle(expanded or graph, inputs).check(outputs, "CPU")
    for a, b in zip(held, inputs):
        np.testing.assert_array_equal(plain(a), plain(b), err_msg="an input was written")


def run_cuda(cuda_driver, target, graph, seed, specials, expanded=None):
    inputs = arrays(graph, seed, specials)
    show(graph, inputs)
    program = compile_graph(graph, target)
    for k in program.kernels:
        note(k.text)
    held = []
    for a in inputs:
        held.append(aligned(a.shape, a.dtype))
        held[-1][...] = a
    outputs = fresh(program)
    loaded = CudaBackend(cuda_driver, np, lambda a: int(a.__array_interface__["data"][0])).load(program)
    loaded.in_mode(list(Mode)[seed % 3])(held, outputs)
    Oracle(expanded or graph, inputs).check(outputs, "CUDA")


@pytest.mark.no_host_code
@examples(15)
@given(graphs(size_limit=300), st.integers(0, 99), st.booleans())
def test_cuda_text_executed_on_the_cpu(cuda_driver, graph, seed, specials):
    run_cuda(cuda_driver, CUDA, graph, seed, specials)


#: machines that are short of what keeps rows on chip, or eager to reduce in parts
MACHINES = {
    "shared": replace(CUDA, thread_items=0),
    "again": CUDA.changed(thread_items=0, shared_bytes=0, cluster_blocks=1),
    "parts": CUDA.changed(launch_seconds=0.0, part_elements=2, cluster_blocks=1),
}


@pytest.mark.no_host_code
@pytest.mark.long_table
@pytest.mark.parametrize("machine", MACHINES)
@examples(10)
@given(graph=graphs(size_limit=300), seed=st.integers(0, 99), specials=st.booleans())
def test_cuda_text_of_other_machines(cuda_driver, machine, graph, seed, specials):
    assume(any(n.prim.family == "reduce" for n in graph.nodes) and all(n.prim.name != "conv" for n in graph.nodes))
    run_cuda(cuda_driver, MACHINES[machine], graph, seed, specials)


@pytest.mark.long_test
@examples(25)
@given(graphs(size_limit=300), st.integers(0, 99), st.booleans())
def test_cuda_text_of_several_kernels_in_one(cuda_driver, graph, seed, specials):
    target = replace(CUDA, resident="always")
    assume(any(k.kind == "graph" for k in compile_graph(graph, target).kernels))
    run_cuda(cuda_driver, target, graph, seed, specials)


# -- tables, and loops


@examples(25)
@given(graphs(names=SCATTERS), st.integers(0, 99), st.booleans(), st.booleans())
def test_tables_on_the_cpu(compiler, graph, seed, specials, shifted):
    run_cpu(graph, seed, specials, shifted)


@pytest.mark.long_test
@examples(10)
@given(graphs(size_limit=300, names=SCATTERS), st.integers(0, 99), st.booleans(), st.sampled_from(["auto", "always"]))
def test_tables_in_cuda_text(cuda_driver, graph, seed, specials, resident):
    run_cuda(cuda_driver, replace(CUDA, resident=resident), graph, seed, specials)


def slopes_of(graph):
    """The graph of the gradients of a graph's inputs for given gradients of its results."""
    floats = [o.dtype.is_float for o in graph.outputs]
    return differentiate(graph, [], floats, [n.dtype.is_float for n in graph.inputs])


@examples(20)
@given(loops(), st.integers(0, 99), st.booleans())
def test_loops_on_the_cpu(compiler, graph, seed, shifted):
    run_cpu(graph, seed, False, shifted, written_out(graph))


@pytest.mark.long_test
@examples(10)
@given(loops(), st.integers(0, 99), st.sampled_from(["auto", "always"]))
def test_loops_in_cuda_text(cuda_driver, graph, seed, resident):
    run_cuda(cuda_driver, replace(CUDA, resident=resident), graph, seed, False, written_out(graph))


@pytest.mark.no_host_code
@examples(20)
@given(loops(), st.integers(0, 99))
def test_gradients_of_loops(graph, seed):
    """As those of the steps written out, interpreted in float64."""
    made, plain_one = slopes_of(graph), slopes_of(written_out(graph))
    inputs = arrays(graph, seed)
    show(graph, inputs)
    rng = np.random.default_rng(seed)
    every = [*inputs, *(rng.standard_normal(o.shape) for o in graph.outputs if o.dtype.is_float)]
    every = [a.astype(np.float64) if a.dtype.kind == "f" else a for a in every]
    with np.errstate(all="ignore"):
        found = [evaluate(d.graph, [every[t] for t in d.input_positions], wide=True) for d in (made, plain_one)]
    for a, b in zip(made.output_positions, plain_one.output_positions, strict=True):
        left, right = (None if k is None else np.asarray(r[k]) for k, r in zip((a, b), found, strict=True))
        if left is None or right is None:
            assert not np.any(right if left is None else left)
            continue
        # a loop multiplies what no step passes on by zero: that is no number where the slope is none
        np.testing.assert_allclose(np.where(np.isnan(left), right, left), right, 1e-8, 1e-10)


# -- the oracle itself


@pytest.mark.parametrize("name", ["chain", "softmax", "layer_norm", "dense", "concats", "half", "integers", "columns"])
def test_the_oracle_accepts_the_declared_precision_and_refuses_errors(name):
    graph = build(name)
    inputs = arrays(graph, 5)
    oracle = Oracle(graph, inputs)
    right = [np.array(r) for r in evaluate(graph, inputs)]
    oracle.check(right, "NumPy in the declared precision")
    for k, r in enumerate(right):
        assert oracle.compared[k].mean() > 0.9
        wrong = [a.copy() for a in right]
        flat = wrong[k].reshape(-1)
        flat[-1] = flat[-1] * 1.1 + 0.1 if r.dtype.kind == "f" else flat[-1] ^ 1
        with pytest.raises(AssertionError, match=f"result {k}"):
            oracle.check(wrong, "planted")


@pytest.mark.no_host_code
@pytest.mark.parametrize("seed", range(3))
def test_the_oracle_knows_overflows_that_rounding_explains(seed):
    """Of half precision: just beyond the largest number no disturbed evaluation may be infinite, and the right result is."""
    b = builder()
    x = b.input(tensor_type((31743,), f16), "x")
    graph = b.finish([b.trigamma(x), b.trigamma(b.exp(-x * 1.01))], "overflows")
    inputs = [np.arange(1, 31744, dtype=np.uint16).view(np.float16)]
    with np.errstate(all="ignore"):
        right = [np.asarray(r).astype(np.float16) for r in evaluate(graph, inputs, wide=True)]
    oracle = Oracle(graph, inputs, seed)
    oracle.check(right, "right")
    for wrong in (np.inf, -np.inf):
        at = np.flatnonzero(abs(right[0].astype(np.float64) - 1000) < 100)[:1]
        planted = right[0].copy()
        planted[at] = wrong
        with pytest.raises(AssertionError, match="result 0 at"):
            oracle.check([planted, right[1]], "planted")
