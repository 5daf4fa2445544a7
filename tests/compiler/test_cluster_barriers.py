# SPDX-License-Identifier: Apache-2.0
"""Barriers of clusters in kernels of rows: each one is needed, as strong as it is, and the last waits for no store."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from compiler.cases import arrays, build, cuda_of
from cuda_on_cpu import BarrierFault, KernelFault, Race, SharedLifetime, UninitialisedRead
from cuda_on_cpu.static_checks import has_nvrtc
from emulated import EmulatedDriver, run_program

from hybridgpu.backends.cuda.driver import module_source
from hybridgpu.cache.package_files import kernels_folder
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.program import KernelInfo

pytestmark = pytest.mark.no_host_code

#: a cluster shares a row, rows side by side, a row with sums over all rows; blocks put sums together
CASES = ["softmax_in_two_blocks", "softmax_of_columns_in_a_cluster", "slopes_in_a_cluster", "slopes_of_full_rows"]
RELAXED = "hg::cluster_arrive_relaxed(); hg::cluster_wait();"


def faults_of(name: str, change) -> set[type[KernelFault]]:
    """What is found in three orders of threads if the text of the kernel with clusters is another one."""
    program = compile_graph(build(name), cuda_of(name))
    kernels = [replace(k, text=change(k.text)) if "__cluster_dims__" in k.text else k for k in program.kernels]
    assert [k.text for k in kernels] != [k.text for k in program.kernels]
    driver, found = EmulatedDriver(), set()
    for _ in range(3):
        with pytest.raises(KernelFault) as caught:
            run_program(replace(program, kernels=kernels), arrays(build(name)), driver, exact=False)
        found.add(caught.type)
    return found


def kernel_of(name: str) -> KernelInfo:
    return next(k for k in compile_graph(build(name), cuda_of(name)).kernels if "__cluster_dims__" in k.text)


@pytest.mark.parametrize("name", CASES)
def test_values_are_released_before_others_read_them(name):
    for k in range(kernel_of(name).text.count("hg::cluster_sync();")):

        def relax(text: str, k: int = k) -> str:
            begin, end = [m.span() for m in re.finditer(re.escape("hg::cluster_sync();"), text)][k]
            return text[:begin] + RELAXED + text[end:]

        assert faults_of(name, relax) <= {Race, UninitialisedRead}


@pytest.mark.parametrize("name", CASES)
def test_no_block_ends_while_others_read(name):
    halves = r" *hg::cluster_(?:arrive(?:_relaxed)?|wait)\(\);.*\n"
    assert faults_of(name, lambda text: re.sub(halves, "", text)) == {SharedLifetime}


@pytest.mark.parametrize("half", ["arrive(?:_relaxed)?", "wait"])
@pytest.mark.parametrize("name", CASES)
def test_each_half_needs_the_other(name, half):
    assert faults_of(name, lambda text: re.sub(rf"hg::cluster_{half}\(\);", "", text)) == {BarrierFault}


@pytest.mark.parametrize("name", CASES)
def test_an_arrival_before_the_reads_is_too_early(name):
    """Behind the barrier that publishes what is read: the block may end before another has read it."""

    def early(text: str) -> str:
        text = re.sub(r" *hg::cluster_arrive(?:_relaxed)?\(\);.*\n", "", text)
        at = text.rindex("hg::cluster_sync();") + len("hg::cluster_sync();")
        return text[:at] + " hg::cluster_arrive();" + text[at:]

    # (in a loop over rows, threads arrive again)
    assert faults_of(name, early) <= {SharedLifetime, BarrierFault}


@pytest.mark.skipif(not has_nvrtc(), reason="NVRTC is not installed")
@pytest.mark.parametrize("name", CASES)
def test_no_fence_stands_behind_the_last_stores(name):
    """An arrival that releases waits for stores: it stands before them, or it is relaxed."""
    nvrtc = pytest.importorskip("cupy.cuda").nvrtc
    program = nvrtc.createProgram(module_source([kernel_of(name)]), "k.cu", (), ())
    nvrtc.compileProgram(program, ["-arch=compute_90", "-std=c++17", "-default-device", f"-I{kernels_folder()}"])
    found = re.findall(r"st\.global|barrier\.cluster\.\w+(?:\.relaxed)?", nvrtc.getPTX(program).decode())
    behind = found[max(k for k, word in enumerate(found) if word == "st.global") + 1 :]
    assert behind[-1] == "barrier.cluster.wait" and "barrier.cluster.arrive" not in behind
