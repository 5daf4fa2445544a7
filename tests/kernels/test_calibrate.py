# SPDX-License-Identifier: Apache-2.0
"""kernels/calibrate.cu: each kernel of ``hybridgpu calibrate`` does what it is timed for, on the CPU under checks."""

from __future__ import annotations

import numpy as np
import pytest
from cuda_on_cpu import Buffer
from cuda_on_cpu.static_checks import compile_report, has_nvrtc
from cuda_on_cpu.support import by_architecture, launch, normal, out

from hybridgpu.backends.cuda.calibration import _ARITHMETIC, _sections, kernel_text, links
from hybridgpu.backends.cuda.driver import module_source
from hybridgpu.backends.cuda.nvrtc import NUMERIC, OPTIONS, without_report
from hybridgpu.cache.package_files import kernels_folder

ARCHITECTURES = ["sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"]
#: every section, with the words that the command fills in
KERNELS = {
    "nothing": {},
    "cycles": {},
    "chase": {},
    "copy": {"THREADS": 256, "AT_ONCE": 4},
    "read": {"THREADS": 256, "AT_ONCE": 8},
    "arithmetic": {"THREADS": 256, "TYPE": "double", "STEP": _ARITHMETIC["float64"][1]},
    "shuffles": {},
    "barriers": {},
    "cluster_barriers": {"CLUSTER": 8},
    "grid_barriers": {},
}


def run(section, *arguments, words=None, **how):
    kernel = kernel_text(section, **(words or {}))
    return launch(module_source([kernel]), *arguments, name=kernel.name, include_dirs=[kernels_folder()], **how)


def test_all_are_here():
    assert set(KERNELS) == set(_sections())


@pytest.mark.skipif(not has_nvrtc(), reason="NVRTC is not installed")
@pytest.mark.parametrize("arch", by_architecture(ARCHITECTURES))
@pytest.mark.parametrize("section", KERNELS)
def test_nvrtc_compiles_each_without_a_word(section, arch):
    if section == "cluster_barriers" and not 90 <= int(arch[3:]):
        pytest.skip("an architecture without clusters")
    source = module_source([kernel_text(section, **KERNELS[section])])
    report = compile_report(source, arch, [*OPTIONS, *NUMERIC["strict"]], [kernels_folder()])
    assert without_report(report.log).strip() == "" and not report.spills


def test_nothing_does_nothing():
    report = run("nothing", np.int64(0), grid=3)
    assert not report.traffic


def test_cycles_end():
    got = out(4, np.int64)
    run("cycles", got, np.int64(50), grid=4, block=1)
    assert (got.get() >= 50).all()


@pytest.mark.parametrize("lines", [2, 3, 64, 1000])
def test_a_chase_visits_every_line_once(lines):
    following = links(128 * lines)
    places = np.flatnonzero(np.arange(following.size) % 32 == 0)
    assert sorted(following[places]) == list(places), "each line is behind one other"
    x = Buffer(following, name="x")
    for steps in (lines - 1, lines):
        got = out(1, np.uint32)
        report = run("chase", x, got, np.int64(steps), block=1)
        assert (got.get()[0] == 0) == (steps == lines)  # it is back when all were visited, not before
        assert report.traffic["x"].read == 4 * steps
    assert report.traffic["x"].read_unique == 4 * lines


@pytest.mark.parametrize("at_once", [1, 2, 4, 8])
def test_a_copy_copies(at_once):
    n = 3 * 64 * at_once * 2
    x, got = normal(4 * n), out(4 * n)
    report = run(
        "copy", Buffer(x, name="x"), got, np.int64(n), words={"THREADS": 64, "AT_ONCE": at_once}, grid=3, block=64
    )
    np.testing.assert_array_equal(got.get(), x)
    assert (report.traffic["x"].read, report.traffic["out"].written) == (16 * n, 16 * n)


def test_reading_reads_everything_so_often():
    n = 2 * 32 * 8 * 3
    x, got = np.ones(n, np.float32), out(64)
    report = run(
        "read", Buffer(x, name="x"), got, np.int64(n), np.int64(5), words={"THREADS": 32, "AT_ONCE": 8}, grid=2
    )
    np.testing.assert_array_equal(got.get(), 5 * n / 64)
    assert (report.traffic["x"].read, report.traffic["x"].read_unique) == (5 * 4 * n, 4 * n)


@pytest.mark.parametrize("name", _ARITHMETIC)
def test_arithmetic_depends_on_every_step(name):
    kind, step, _ = _ARITHMETIC[name]
    found = []
    for n in (7, 22):  # of both, what is multiplied with is the same: n % 3 and n % 5
        got = out(64, {"float": np.float32, "double": np.float64}[kind])
        words = {"THREADS": 32, "TYPE": kind, "STEP": step}
        run("arithmetic", got, np.int64(n), words=words, grid=2)
        found.append(got.get())
    assert np.isfinite(found).all() and (found[0] != found[1]).any()


def test_shuffles_exchange():
    got = out(32)
    run("shuffles", got, np.int64(3))
    np.testing.assert_array_equal(got.get(), (np.arange(32) ^ 16) + 3)


def test_barriers_end():
    got = out(64)
    run("barriers", got, np.int64(5), block=64)
    np.testing.assert_array_equal(got.get(), 5)


def test_barriers_of_clusters_end():
    got = out(4 * 32)
    run("cluster_barriers", got, np.int64(5), words={"CLUSTER": 2}, grid=4)
    np.testing.assert_array_equal(got.get(), 5)


@pytest.mark.parametrize("blocks", [1, 5])
def test_barriers_of_the_grid_end(blocks):
    got, word = out(blocks * 32), Buffer(np.zeros(1, np.uint32), name="word")
    run("grid_barriers", got, word, np.int64(6), grid=blocks, cooperative=True)
    np.testing.assert_array_equal(got.get(), 6)
    assert word.get()[0] % (1 << 31) == 0
