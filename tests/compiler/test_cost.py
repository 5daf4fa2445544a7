# SPDX-License-Identifier: Apache-2.0
"""The cost model: seconds of traffic, operations, blocks and launches; nobody else multiplies by a device's rates."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from compiler.cases import parse

import hybridgpu.compiler
from hybridgpu.compiler import cost
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.target import CPU, CUDA
from hybridgpu.core.dtypes import f16, f32, f64, i32

pytestmark = pytest.mark.no_host_code

FLAT = CUDA.changed(byte_seconds=1e-12, op_seconds=1e-14, launch_seconds=1e-6, graph_node_seconds=1e-7)
GPU = FLAT.gpu
MANY = GPU.multiprocessors
#: what is estimated -> seconds
TABLE = {
    "bytes": (lambda: cost.seconds(FLAT, 1e9), 1e-3),
    "all together": (lambda: cost.seconds(FLAT, 1e9, 1e12, 3), 1e-3 + 1e-2 + 3e-6),
    "a launch": (lambda: cost.launch_seconds(FLAT), 1e-6),
    "a node of a graph": (lambda: cost.launch_seconds(FLAT.changed(replayed=True)), 1e-7),
    "a trip through a cache": (lambda: cost.round_trip_seconds(CPU, 1000, 1000), 2000 * CPU.device.l2_byte_seconds),
    "a trip through memory": (lambda: cost.round_trip_seconds(CPU, 1000, 1 << 30), 2000 * CPU.device.byte_seconds),
    "all blocks read": (lambda: cost.read_seconds(FLAT, 1e9, 10 * MANY), 1e-3),
    "one block reads": (lambda: cost.read_seconds(FLAT, 1e9, 1), 1e-3 * MANY / GPU.lone_share),
    "a processor reads": (lambda: cost.read_seconds(CPU, 1e9, 1), 1e9 * CPU.device.byte_seconds),
    "enough in flight": (lambda: cost.block_traffic_seconds(FLAT, 1e6, MANY, 1 << 30), 1e-6 * MANY),
    "half of it": (lambda: cost.block_traffic_seconds(FLAT, 1e6, MANY, GPU.bytes_in_flight / 2), 2e-6 * MANY),
    "overlap": (lambda: cost.overlapped_seconds(3.0, 4.0, 1.0, 2), 6.5),
    "barriers of a cluster": (lambda: cost.barrier_seconds(GPU, 3, 8, 8), 3 * GPU.cluster_barrier_cycles / GPU.clock),
    "barriers of a block": (lambda: cost.barrier_seconds(GPU, 3, 1, 1), 3 * GPU.barrier_cycles / GPU.clock),
    "barriers of a grid": (
        lambda: cost.barrier_seconds(GPU, 2, 10, 0),
        GPU.cooperative_seconds + 2 * (GPU.grid_barrier_seconds + 10 * GPU.grid_arrival_seconds),
    ),
}


@pytest.mark.parametrize("name", TABLE)
def test_estimates(name):
    estimate, seconds = TABLE[name]
    assert estimate() == pytest.approx(seconds)


@pytest.mark.parametrize(
    "dtype,rate", [(f32, GPU.lanes), (f16, GPU.lanes), (f64, GPU.wide_lanes), (i32, GPU.integer_lanes)]
)
def test_multiply_adds(dtype, rate):
    assert cost.multiply_adds_per_cycle(GPU, dtype) == rate


def test_operations_of_nodes():
    b = builder()
    x, w = b.input(parse("f32[4,8]"), "x"), b.input(parse("f32[8,5]"), "w")
    assert cost.node_operations(b.dot(x, w)) == 2 * 4 * 8 * 5
    assert cost.node_operations(b.reduce("sum", x, (1,))) == 32
    assert cost.node_operations(b.add(x, x)) == 32


#: who may name a rate: the model, the records, and what passes them on
ALLOWED = {"cost.py", "target.py", "devices/record.py", "devices/cpu.py", "devices/gpu.py", "devices/array_library.py"}


def test_rates_are_named_in_the_model_alone():
    """A time that a module computes by itself would be another model."""
    root = Path(hybridgpu.compiler.__file__).parent
    found = set()
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr in ("byte_seconds", "op_seconds", "seconds_a_byte"):
                found.add(path.relative_to(root).as_posix())
    assert found <= ALLOWED
