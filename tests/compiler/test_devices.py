# SPDX-License-Identifier: Apache-2.0
"""Constants of devices: each has a unit, a source, and says whether it was measured; targets take them from records."""

from __future__ import annotations

import ast
from dataclasses import FrozenInstanceError, fields, replace
from pathlib import Path

import pytest

import hybridgpu.compiler
from hybridgpu.compiler.devices.array_library import CupyConstants, NumpyConstants
from hybridgpu.compiler.devices.cpu import CpuConstants
from hybridgpu.compiler.devices.gpu import GpuConstants
from hybridgpu.compiler.devices.record import DeviceConstants, constants_of
from hybridgpu.compiler.target import CPU, CUDA, cuda_target

pytestmark = pytest.mark.no_host_code

RECORDS = (CpuConstants, GpuConstants)
UNITS = {
    "s", "s/byte", "bytes", "bytes/cycle", "cycles", "cycles/s", "1/cycle", "operations", "count", "share", "flag"
}  # fmt: skip
LIBRARIES = (NumpyConstants, CupyConstants)
ALL = [pytest.param(c, id=f"{r.__name__}.{c.name}") for r in (*RECORDS, *LIBRARIES) for c in constants_of(r)]
#: integers among the units that a kernel's text may contain
COUNTED = {"bytes", "count"}


@pytest.mark.parametrize("c", ALL)
def test_constant_is_described(c):
    assert c.unit in UNITS
    assert c.about and c.source and isinstance(c.measured, bool)
    assert isinstance(c.default, bool) == (c.unit == "flag")
    assert c.unit not in COUNTED or isinstance(c.default, int)
    assert c.measured or not c.source.startswith("measured"), "a measured value says so"
    assert not (c.measured and c.source.startswith("assumed"))


def test_records_have_the_fields_that_any_device_has():
    common = {f.name for f in fields(DeviceConstants)}
    assert all(common <= {c.name for c in constants_of(r)} for r in RECORDS)


def test_nothing_of_a_gpu_counts_as_measured_there():
    """There was no GPU so far; the only figure that was measured is the host's."""
    assert [c.name for c in constants_of(GpuConstants) if c.measured] == ["iteration_seconds"]


def test_a_record_is_not_changed():
    with pytest.raises(FrozenInstanceError):
        CUDA.gpu.clock = 1.0


def test_a_target_has_its_device_s_figures():
    assert CPU.device.byte_seconds == CPU.cpu.byte_seconds == CpuConstants.byte_seconds
    assert CUDA.device.op_seconds == CUDA.gpu.op_seconds == GpuConstants.op_seconds
    with pytest.raises(AssertionError, match="cpu is no GPU"):
        CPU.gpu  # noqa: B018


def test_other_figures_of_a_target_and_of_its_device():
    changed = CUDA.changed(clock=2e9, max_nodes=3)
    assert (changed.gpu.clock, changed.max_nodes) == (2e9, 3)
    assert changed == replace(CUDA, max_nodes=3, device=replace(CUDA.gpu, clock=2e9))
    with pytest.raises(TypeError):
        CUDA.changed(no_such_figure=1)


@pytest.mark.parametrize(
    ("arch", "figures"),
    [
        ("sm_75", {"shared_bytes": 64 << 10, "resident_threads": 1024, "cluster_blocks": 1, "async_copies": False}),
        ("sm_86", {"shared_bytes": 99 << 10, "resident_threads": 1536, "cluster_blocks": 1, "async_copies": True}),
        (
            "compute_90",
            {"shared_total": 228 << 10, "resident_threads": 2048, "cluster_blocks": 8, "row_cluster_blocks": 16},
        ),
        ("sm_121", {"shared_bytes": 99 << 10, "cluster_blocks": 1}),  # as the newest that is older: sm_120
    ],
)
def test_what_an_architecture_tells(arch, figures):
    device = cuda_target(arch, 40).gpu
    assert device.multiprocessors == 40
    assert {k: getattr(device, k) for k in figures} == figures


def test_bandwidth_of_blocks():
    """A block alone gets more than its part; all of them get all."""
    device = CUDA.gpu
    assert device.rate(1) == pytest.approx(device.lone_share / device.byte_seconds / device.multiprocessors)
    assert device.rate(device.multiprocessors) == device.rate(10**6) == pytest.approx(1 / device.byte_seconds)


def test_bytes_of_a_processor_cost_what_the_level_costs_that_holds_them():
    device = CPU.device
    costs = [device.seconds_a_byte(n) for n in (device.l1_bytes, device.l2_bytes, device.l3_bytes, 1 << 40)]
    assert costs == [device.l2_byte_seconds, device.l2_byte_seconds, device.l3_byte_seconds, device.byte_seconds]


def test_seconds_stand_in_the_records_alone():
    """A module's constant that is a tiny number is a time or a rate of a device, except for those that are listed."""
    thresholds = {
        ("split_scatters", "_MIN_SECONDS"),  # seconds that are worth a look
        ("scatter_cost", "_EQUAL_SECONDS"),  # seconds that make no difference
    }
    found = set()
    folder = Path(hybridgpu.compiler.__file__).parent
    for file in folder.rglob("*.py"):
        if "devices" in file.parts or "primitives" in file.parts:
            continue
        for statement in ast.parse(file.read_text()).body:
            if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant):
                value = statement.value.value
                if isinstance(value, float) and 0 < value < 1e-3:
                    found.add((file.stem, statement.targets[0].id))
    assert found == thresholds


#: where the target's name may be compared: who lays out a kernel's loops or threads, and who chooses among kinds of kernels
NAME_TESTS = {"assemble.py", "select.py", "pipeline.py", "target.py"}


def test_passes_ask_for_traits_not_for_the_target_s_name():
    root = Path(hybridgpu.compiler.__file__).parent
    found: dict[str, int] = {}
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            compared = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
            sides = compared + ([node.slice] if isinstance(node, ast.Subscript) else [])
            literals = any(isinstance(s, ast.Constant) and s.value in ("cpu", "cuda") for s in compared)
            if literals or any(ast.unparse(s).endswith("target.name") for s in sides):
                name = path.relative_to(root).as_posix()
                found[name] = found.get(name, 0) + 1
    assert {n for n in found if not n.startswith("schedule/")} <= NAME_TESTS
    assert sum(found.values()) < 30
