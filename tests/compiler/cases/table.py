# SPDX-License-Identifier: Apache-2.0
"""How a graph becomes a case, and what a case is tried with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hybridgpu.compiler.ir import Graph, Node, tensor_type
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.target import CUDA, Target, cuda_target
from hybridgpu.core.dtypes import from_short

Case = tuple[Callable[..., Any], tuple[str, ...]]
CASES: dict[str, Case] = {}
#: cases whose CUDA kernels are made for a machine that is shorter of something than the usual one, or put together
MACHINES: dict[str, dict[str, Any]] = {}


def case(*types: str, **machine: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a graph; ``machine`` replaces figures of its CUDA target."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        CASES[function.__name__] = (function, types)
        if machine:
            MACHINES[function.__name__] = machine
        return function

    return register


def cuda_of(name: str, arch: str = "") -> Target:
    """The CUDA target of a case, on ``arch`` (by default that of ``CUDA``)."""
    target = cuda_target(arch, CUDA.gpu.multiprocessors) if arch else CUDA
    machine = dict(MACHINES.get(name, {}))
    if "cluster_blocks" in machine:
        machine["cluster_blocks"] = min(machine["cluster_blocks"], target.gpu.cluster_blocks)
    return target.changed(**machine)


def parse(text: str) -> Any:
    short, _, rest = text.partition("[")
    return tensor_type(tuple(int(d) for d in rest.rstrip("]").split(",") if d), from_short(short))


def build(name: str) -> Graph:
    """The graph of a case."""
    function, types = CASES[name]
    b = builder()
    inputs = [b.input(parse(t), f"x{k}") for k, t in enumerate(types)]
    out = function(b, *inputs)
    return b.finish([out] if isinstance(out, Node) else list(out), name)


def arrays(graph: Graph, seed: int = 0, specials: bool = False) -> list[np.ndarray]:
    """Inputs for a graph; ``specials`` mixes in NaN, infinities and zeros."""
    rng = np.random.default_rng(seed)
    out = []
    for node in graph.inputs:
        shape, dtype = node.shape, node.dtype
        if dtype.short == "u32":
            a = rng.integers(0, 2**32, shape, dtype=np.uint32)
        elif dtype.is_float:
            a = rng.standard_normal(shape).astype(dtype.np)
            if specials and a.size:
                where = rng.random(shape)
                a = np.where(
                    where < 0.05,
                    np.nan,
                    np.where(where < 0.1, np.inf, np.where(where < 0.15, -np.inf, np.where(where < 0.25, -0.0, a))),
                ).astype(dtype.np)
        elif dtype.kind == "b":
            a = rng.random(shape) < 0.5
        else:
            low = 0 if dtype.kind == "u" else -5
            a = rng.integers(low, 12, shape).astype(dtype.np)
        out.append(a)
    return out


def plain(a: np.ndarray) -> np.ndarray:
    """The values in a type of NumPy's: its comparisons of arrays do not know bfloat16's NaN."""
    return a.astype(np.float32) if a.dtype.name == "bfloat16" else a
