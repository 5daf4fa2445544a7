# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E402 - what stands for CUDA comes before what imports CuPy
"""``hybridgpu calibrate`` over the null device, whose times a model makes: python calibration.py LIBRARY PATH…

Kernels compute nothing and take no time there. What CUDA events say comes from a device that is made up here, of whose
constants the command is to find each.
"""

from __future__ import annotations

import sys

sys.path[:0] = sys.argv[2:]

from cupy_on_null.null_cupy import NullCuda

null = NullCuda(sys.argv[1], devices=1)
if not null.replaced:
    print("SKIP this CuPy does not contain CUDA's run-time with its names")
    sys.exit()

import ctypes
import json
import math
import os
import tempfile
from pathlib import Path

folder = tempfile.mkdtemp(prefix="hybridgpu-test-")
os.environ["HYBRIDGPU_CACHE_DIR"] = folder

from click.testing import CliRunner

import hybridgpu as mx
from hybridgpu.backends.cuda import calibration, device_tables
from hybridgpu.backends.cuda.backend import CudaBackend
from hybridgpu.backends.cuda.cupy_driver import CupyDriver
from hybridgpu.backends.devices import device_of
from hybridgpu.cache.disk_cache import default_store
from hybridgpu.cli import main

#: the device: what a run is to find
CLOCK, NODE, LAUNCH, TOGETHER, BYTE, FLYING = 1.9e9, 1.2e-6, 1.7e-6, 4e-7, 2.5e-13, 40_000
TRUE = {
    "clock": CLOCK,
    "launch_seconds": LAUNCH,
    "graph_node_seconds": NODE,
    "l2_seconds": 2.5e-7,
    "cooperative_seconds": TOGETHER,
    "grid_barrier_seconds": 9e-7,
    "grid_arrival_seconds": 5e-10,
    "cluster_barrier_cycles": 380,
    "shuffle_cycles": 26,
    "barrier_cycles": 22,
    "block_cycles": 120,
    "memory_seconds": 7e-7,
    "byte_seconds": BYTE,
    "bytes_in_flight": 65536,  # of the table, the least that has 92 % of the best rate
    "product_bytes_in_flight": 65536,
    "lone_share": 3.0,
    "l2_cycle_bytes": 40,
    "lanes": 120,
    "wide_lanes": 60,
    "op_seconds": 6e-14,
}
SMS = 132


def kernel_seconds(work: calibration.Work) -> float:
    """What the device takes for a start of a kernel, beyond starting it."""
    section = work.kernel.name.removeprefix("calibrate_")
    n = work.numbers[-1]
    cycle = 1 / CLOCK
    if section == "nothing":
        return work.grid / SMS * TRUE["block_cycles"] * cycle if work.threads == 32 else 0.0
    if section == "cycles":
        address, nbytes, _ = work.pointers[0]
        (ctypes.c_int64 * (nbytes // 8)).from_address(address)[:] = [n + 10] * (nbytes // 8)
        return (n + 10) * cycle
    if section == "shuffles":
        return n * TRUE["shuffle_cycles"] * cycle
    if section == "barriers":
        return n * (TRUE["barrier_cycles"] + 4 * 8) * cycle
    if section.startswith("cluster_barriers"):
        return n * TRUE["cluster_barrier_cycles"] * cycle
    if section == "grid_barriers":
        return n * (TRUE["grid_barrier_seconds"] + work.grid * TRUE["grid_arrival_seconds"])
    if section == "chase":
        return n * (TRUE["l2_seconds"] if work.pointers[0][1] <= 4 << 20 else TRUE["memory_seconds"])
    if section.startswith("copy"):
        threads, at_once = map(int, section.split("_")[1:])
        flying = work.grid / min(work.grid, SMS) * threads * at_once * 16
        active = min(work.grid, SMS)
        share = min(TRUE["lone_share"], SMS / active)
        return 2 * n * 16 * BYTE * SMS / (active * share) / min(1, flying / (FLYING * share))
    if section.startswith("read"):
        return work.numbers[0] * n * 4 / (SMS * TRUE["l2_cycle_bytes"] * CLOCK)
    assert section.startswith("arithmetic"), section
    chains = 8 * work.grid * work.threads * n
    kind = section.rpartition("_")[2]
    if kind == "mixed":
        return chains * 6 * TRUE["op_seconds"]
    return chains / (SMS * CLOCK * TRUE[{"float32": "lanes", "float64": "wide_lanes"}[kind]])


class Modelled(calibration.Bench):
    """A bench whose graphs run on the null device, which refuses what a device refuses, and take what the model says."""

    def graph_seconds(self, *chains):
        real = super().graph_seconds(*chains)
        assert all(seconds >= 0 for seconds in real)
        found = []
        for chain in chains:
            each = [NODE + (TOGETHER if w.cooperative else 0) + kernel_seconds(w) for w in chain]
            found.append(5e-6 + math.fsum(each))
        return found

    def times(self, *runs):
        null.started()
        super().times(*runs)
        found = []
        for run in runs:
            null.started()
            run(self.driver.stream().ptr)
            found.append(3e-6 + LAUNCH * len(null.started()))
        return found


gpu = device_of(mx.gpu(0))
driver: CupyDriver = gpu.backend().driver


def run(*arguments: str):
    return CliRunner().invoke(main, ["calibrate", *arguments])


def fresh() -> CudaBackend:
    """The backend of a new process."""
    return CudaBackend(CupyDriver(0, default_store()), gpu.xp, gpu.address)


def what_is_known_before() -> None:
    result = run("--show")
    assert result.exit_code == 0 and "null device, 132 multiprocessors, driver for CUDA 12.9" in result.output
    assert "memory_seconds" in result.output and "assumed" in result.output
    assert driver.gpu == ("null device", 132, 12090) and not driver.constants


def every_constant_is_found() -> None:
    before = fresh()
    file = Path(folder) / "out.json"
    calibration.Bench, held = Modelled, calibration.Bench
    try:
        result = run("--seconds", "1", "--json", str(file))
    finally:
        calibration.Bench = held
    assert result.exit_code == 0, (result.output, result.exception)
    assert "from now on" in result.output
    document = json.loads(file.read_text())
    found = {r["name"]: r["measured"] for r in document["constants"] if r["measured"] is not None}
    for name, value in TRUE.items():
        assert math.isclose(found[name], value, rel_tol=2e-2), (name, found[name], value)
    failed = {s["name"]: s["failed"] for s in document["steps"] if s["failed"]}
    assert failed == {"products of a library": "there is no cuBLASLt"} or not failed, failed
    assert document["stored"] and (Path(folder) / "devices" / document["stored"]).is_file()
    after = fresh()
    new = {r["name"]: r["new"] for r in document["constants"] if r["new"] is not None}
    assert all(getattr(after.target.gpu, k) == v == device_tables.rounded(k, found[k]) for k, v in new.items())
    assert after.key() != before.key()  # programs of other constants are not these
    assert fresh().key() == after.key()
    shown = run("--show")
    assert "measured on this machine" in shown.output
    null.refused()


def a_dry_run_stores_nothing() -> None:
    held = fresh().key()
    calibration.Bench, bench = Modelled, calibration.Bench
    try:
        result = run("--dry-run", "--seconds", "1")
        assert result.exit_code == 0 and "rounded" in result.output and "from now on" not in result.output
    finally:
        calibration.Bench = bench
    assert fresh().key() == held
    null.refused()


def what_is_stored_is_forgotten() -> None:
    assert "deleted" in run("--forget").output
    assert not fresh().driver.constants
    assert "nothing was stored" in run("--forget").output


def a_device_that_takes_no_time_is_measured_by_nobody() -> None:
    """Kernels that end at once: what makes no sense is named, and not stored."""
    result = run("--seconds", "0.2", "--dry-run")
    assert "clock: more cycles took no longer" in result.output, result.output
    assert isinstance(result.exception, SystemExit | None)


def a_step_that_fails_is_named_and_the_others_go_on() -> None:
    calibration.Bench, bench = Modelled, calibration.Bench
    held = calibration.STEPS["latency of memory"]

    def broken(b: calibration.Bench) -> None:
        null.fail("cudaMalloc", status=2)
        try:
            held(b)
        finally:
            null.fail()

    calibration.STEPS["latency of memory"] = broken
    try:
        gpu.xp.get_default_memory_pool().free_all_blocks()
        result = run("--seconds", "1", "--dry-run")
    finally:
        calibration.Bench, calibration.STEPS["latency of memory"] = bench, held
    assert result.exit_code == 0 and "latency of memory: Out of memory" in result.output, result.output
    assert "byte_seconds" in result.output and "memory_seconds" not in result.output
    null.refused()


for case in (
    what_is_known_before,
    every_constant_is_found,
    a_dry_run_stores_nothing,
    what_is_stored_is_forgotten,
    a_device_that_takes_no_time_is_measured_by_nobody,
    a_step_that_fails_is_named_and_the_others_go_on,
):
    case()
    refused = null.refused()
    assert not refused, (case.__name__, refused)
print("DONE")
