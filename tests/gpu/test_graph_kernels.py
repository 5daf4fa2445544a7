# SPDX-License-Identifier: Apache-2.0
"""Several kernels as the steps of one on the device (a cooperative grid, a cluster, a block): bits, barriers, streams, graphs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from compiler.cases import arrays, build, cuda_of
from emulated import EmulatedStream

from hybridgpu.backends.base import Mode
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.core.dtypes import from_short

NAMES = [
    "steps_mlp",
    "steps_lstm",
    "steps_lenet",
    "steps_bare",
    "steps_narrow",
    "steps_apart",
    "looped",
    "looped_both_ways",
    "steps_in_a_cluster",
    "steps_in_a_block",
    "looped_in_a_cluster",
]
CALLS = 2000  #: on a GPU, one after the other: a barrier that can be missed is missed before long


class Case:
    """A program with its arguments on the device."""

    def __init__(self, gpu, name, resident="always"):
        graph = build(name)
        program = compile_graph(graph, replace(cuda_of(name, gpu.driver.arch), resident=resident))
        self.gpu, self.loaded = gpu, gpu.backend.load(program)
        self.shapes = [(shape, from_short(short).np) for shape, short in program.outputs]
        self.inputs = [gpu.put(a) for a in arrays(graph, 5)]

    def fresh(self):
        return [self.gpu.filled(*s) for s in self.shapes]

    def run(self, mode=Mode.EAGER_ALLOC):
        outputs = self.fresh()
        self.loaded.in_mode(mode)(self.inputs, outputs)
        return [self.gpu.get(a) for a in outputs]


@pytest.fixture
def cooperative(gpu):
    if gpu.real and not gpu.driver.cooperative:
        pytest.skip("this GPU has no cooperative launches")


@pytest.mark.parametrize("mode", list(Mode), ids=lambda m: m.value)
@pytest.mark.parametrize("name", NAMES)
def test_bits_are_those_of_the_kernels_apart(name, mode, gpu, cooperative):
    for got, want in zip(Case(gpu, name).run(mode), Case(gpu, name, "never").run(), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("name", NAMES)
def test_many_calls(name, gpu, cooperative):
    case = Case(gpu, name)
    want, outputs = case.run(), case.fresh()
    for _ in range(CALLS if gpu.real else 3):
        case.loaded(case.inputs, outputs)
    for got, w in zip(map(gpu.get, outputs), want, strict=True):
        np.testing.assert_array_equal(got, w)


def test_two_streams_at_once(gpu, cooperative):
    """Cooperative kernels of two streams take turns or run side by side, and never wait for each other's blocks."""
    case = Case(gpu, "steps_mlp")
    want = case.run()
    if gpu.real:
        streams = [gpu.xp.cuda.Stream(non_blocking=True) for _ in range(2)]
        using = [lambda s=s: s for s in streams]
    else:
        using = [lambda k=k: gpu.driver.using(EmulatedStream(5000 + k)) for k in range(2)]
    outputs = [case.fresh() for _ in using]
    gpu.device.synchronize()
    for _ in range(CALLS if gpu.real else 2):
        for scope, out in zip(using, outputs, strict=True):
            with scope():
                case.loaded(case.inputs, out)
    for out in outputs:
        for got, w in zip(map(gpu.get, out), want, strict=True):
            np.testing.assert_array_equal(got, w)
