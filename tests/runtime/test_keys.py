# SPDX-License-Identifier: Apache-2.0
"""What programs are found by: two that differ in anything that matters are never mixed up."""

from __future__ import annotations

import grimp
import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu.base import MXNetError
from hybridgpu.compiler.ir import tensor_type
from hybridgpu.core.dtypes import f32
from hybridgpu.ops import OPERATORS
from hybridgpu.ops.record import operator
from hybridgpu.runtime.compilation import compiled
from hybridgpu.symbol.node_factory import make_node

pytestmark = pytest.mark.usefixtures("compiler")


def test_every_record_of_ours_is_covered_by_the_hash_of_the_sources():
    assert {op.name for op in OPERATORS.values() if op.identity} == set()


#: what compiler/ and ops/ import that their hash does not cover: none of it decides a text or a plan
UNHASHED = {
    "base", "cache.package_files", "context", "core.autograd_state", "core.float_errors", "core.fork_safe_lock", "core.settings",
    "core.source_location", "frontend.late_declarations", "hints.arguments", "hints.members", "hints.op_errors", "hints.tracing", "util",
}  # fmt: skip


def test_what_the_compiler_and_the_operators_import_is_hashed_or_decides_nothing():
    graph = grimp.build_graph("hybridgpu", exclude_type_checking_imports=True)
    hashed = {m for m in graph.modules if m.split(".")[1:2] in (["compiler"], ["ops"])}
    imported = {i for m in hashed for i in graph.find_modules_directly_imported_by(m)}
    imported -= hashed | {"hybridgpu.core.dtypes", "hybridgpu.core.dataclass"}
    assert {m.removeprefix("hybridgpu.") for m in imported} == UNHASHED


def test_an_operator_declared_outside_and_declared_again():
    """Its source is not ours to hash: neither this process nor the next may run the old one's program."""
    for factor in (2, 3):
        operator("_outside", same_shape=True)(lambda b, p, data, factor=factor: data * factor)
        try:
            y = make_node(OPERATORS["_outside"], "_outside", [mx.sym.var("x")], {}, "y", None)
        finally:
            del OPERATORS["_outside"]
        (result,) = y.eval(ctx=mx.cpu(), x=mx.nd.array([1, -2]))
        np.testing.assert_array_equal(result.asnumpy(), [factor, -2 * factor])


def test_numpy_shape_semantics():
    """An extent of 0 is unknown without them, and the other operand tells it."""
    symbol = mx.sym.zeros(shape=(0, 3), name="z") + mx.sym.var("x")
    types = [tensor_type((2, 3), f32)]
    assert compiled(symbol, types, False, mx.cpu()).outputs == types
    with mx.util.np_shape(True), pytest.raises(MXNetError, match="Incompatible attr"):
        compiled(symbol, types, False, mx.cpu())


def test_devices_of_one_kind(two_gpus):
    """Kernels that were loaded for one GPU do not run on another."""
    symbol, types = mx.sym.exp(mx.sym.var("x")), [tensor_type((4,), f32)]
    first, second = (compiled(symbol, types, False, mx.gpu(k)) for k in range(2))
    assert first.device is two_gpus[0] and second.device is two_gpus[1]
    assert compiled(symbol, types, False, mx.gpu(0)).loaded is first.loaded


@pytest.fixture
def two_gpus(cuda_driver):
    """Two emulated GPUs with one driver."""
    from emulated import EmulatedDevice

    from hybridgpu.backends import devices

    old = devices._gpu_factory
    made = {}

    def factory(number):
        made[number] = EmulatedDevice(number, cuda_driver)
        return made[number]

    devices.use_gpu_devices(factory)
    yield made
    devices.use_gpu_devices(old)
