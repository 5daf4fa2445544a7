# SPDX-License-Identifier: Apache-2.0
"""BatchNorm in training reads what it normalises once: statistics, result and slopes come from one kernel."""

from __future__ import annotations

import numpy as np
import pytest

from hybridgpu import autograd, nd, sym
from hybridgpu.compiler.ir.types import tensor_type
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.program import KernelStep
from hybridgpu.compiler.target import CPU, CUDA
from hybridgpu.core.dtypes import f32
from hybridgpu.gluon import nn
from hybridgpu.runtime.recorded_program import RecordedProgram

#: columns of a batch, planes of pictures (some that take a cluster), planes of volumes
SHAPES = [(64, 256), (9, 40), (4, 8, 6, 6), (64, 16, 8, 8), (32, 64, 56, 56), (2, 3, 4, 5, 6)]


def graphs(shape: tuple[int, ...]):
    """The forward and the backward graph of a layer that learns."""
    symbol = nn.BatchNorm(in_channels=shape[1])(sym.var("data"))
    arguments, _, states = symbol.infer_shape(data=shape)
    names = [*symbol.list_arguments(), *symbol.list_auxiliary_states()]
    types = {n: tensor_type(tuple(s), f32) for n, s in zip(names, [*arguments, *states], strict=True)}
    inputs = symbol.list_inputs()
    learned = set(symbol.list_arguments())
    training = RecordedProgram(symbol, [types[n] for n in inputs], True, tuple(n in learned for n in inputs))
    training._follow(training._plan())
    return training._forward_graph(), training.derivative().graph


@pytest.mark.parametrize("target", [CPU, CUDA], ids=lambda t: t.name)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_one_kernel_each_way(shape, target):
    forward, backward = graphs(shape)
    # a CPU walks short pieces of rows less often, and all of memory in order instead
    short = target is CPU and len(shape) > 2 and shape[-1] * shape[-2] < 256
    assert not short or [k.kind for k in compile_graph(forward, target).kernels] == ["reduce", "map"]
    for graph in [backward] if short else [forward, backward]:
        program = compile_graph(graph, target)
        assert len(program.steps) == 1 and isinstance(program.steps[0], KernelStep), program.refusals
        read = {n for node in graph.nodes for n in node.inputs if n.prim.name == "input"}
        least = sum(n.type.nbytes for n in read) + sum(n.type.nbytes for n in graph.outputs)
        assert program.bytes_moved == least
        assert "reread_bytes" not in program.kernels[0].choice


@pytest.mark.parametrize("act", ["", "relu"])
@pytest.mark.parametrize("shape", SHAPES[:4], ids=str)
def test_results_slopes_and_averages(shape, act, compiler):
    rng = np.random.default_rng(0)
    x, weight = (rng.normal(1, 2, shape).astype(np.float32) for _ in range(2))
    found = []
    for hybridized in (False, True):
        net = nn.HybridSequential()
        net.add(nn.BatchNorm(in_channels=shape[1]))
        if act:
            net.add(nn.Activation(act))
        net.initialize()
        net[0].gamma.set_data(nd.array(np.linspace(0.5, 2, shape[1], dtype=np.float32)))
        if hybridized:
            net.hybridize()
        data = nd.array(x)
        data.attach_grad()
        for _ in range(2):  # the averages take part of the statistics each time
            with autograd.record():
                y = net(data)
                loss = (y * nd.array(weight)).sum()
            loss.backward()
        parameters = net[0].collect_params().values()
        slopes = [p.grad().asnumpy() for p in parameters if p.grad_req != "null"]
        found.append([y.asnumpy(), data.grad.asnumpy(), *slopes, *(p.data().asnumpy() for p in parameters)])
    for eager, ours in zip(*found, strict=True):
        np.testing.assert_allclose(ours, eager, rtol=2e-5, atol=2e-5 * max(1, np.abs(eager).max()))
    # and what MXNet says they are
    axes = tuple(k for k in range(len(shape)) if k != 1)
    mean, variance = (getattr(x.astype(np.float64), m)(axes) for m in ("mean", "var"))
    np.testing.assert_allclose(found[1][-2], mean * (1 - 0.9**2), rtol=1e-5)
    np.testing.assert_allclose(found[1][-1], 0.9**2 + variance * (1 - 0.9**2), rtol=1e-5)
