# SPDX-License-Identifier: Apache-2.0
"""Programs whose kernels are steps of one, and a call of such a program."""

from __future__ import annotations

import numpy as np
from compiler.cases import arrays, build, cuda_of
from emulated import EmulatedDriver, aligned

from hybridgpu.backends.cuda.backend import CudaBackend
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.program import Program
from hybridgpu.core.dtypes import from_short

#: case -> (kinds of its steps, barriers, threads of a block)
CASES = {
    "steps_mlp": (["matmul", "matmul", "matmul", "rows"], 3, 256),
    "steps_lstm": (["matmul", "matmul", "map"], 1, 256),
    "steps_lenet": (["conv", "matmul", "rows"], 2, 256),
    "steps_pooled": (["conv", "reduce"], 0, 32),
    "steps_bare": (["rows", "map"], 1, 128),
    "steps_narrow": (["reduce", "reduce", "matmul"], 2, 256),
    "steps_apart": (["map", "reduce", "rows", "matmul"], 1, 512),
    "steps_halves": (["matmul", "matmul"], 1, 256),
    "steps_heads": (["matmul", "matmul", "reduce", "matmul", "matmul"], 2, 256),
}
#: case -> (kinds of its steps, how often each runs, barriers)
LOOPS = {
    "looped": (["matmul", "matmul", "map", "matmul", "rows"], [1, 5, 5, 1, 1], 12),
    "looped_both_ways": (["matmul", "map", "matmul", "map", "foreach"], [5, 5, 5, 5, 1], 10),
    "looped_last": (["matmul", "map", "map", "foreach"], [4, 4, 4, 1], 4),
    "looped_twice": (["matmul", "map", "map", "foreach"], [2, 2, 2, 1], 2),
    "looped_once": (["matmul", "map", "map", "foreach"], [1, 1, 1, 1], 1),
    "looped_halves": (["map", "matmul", "map", "map"], [1, 3, 3, 1], 7),
}
BARRIER = "hg::grid_sync(arrived);"


def program_of(name: str) -> Program:
    return compile_graph(build(name), cuda_of(name))


def run(program: Program, driver: EmulatedDriver, seed: int = 0) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """(results, arguments) of a call."""
    held = []
    for (shape, short), a in zip(program.inputs, arrays(build(program.name), seed), strict=True):
        held.append(aligned(shape, from_short(short).np))
        held[-1][...] = a
    outputs = [aligned(shape, from_short(short).np) for shape, short in program.outputs]
    loaded = CudaBackend(driver, np, lambda a: int(a.__array_interface__["data"][0])).load(program)
    loaded(held, outputs)
    return outputs, held
