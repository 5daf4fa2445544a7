# SPDX-License-Identifier: Apache-2.0
"""Barriers of kernels whose phases are other kernels' work: each is needed, of the grid, of one cluster and of one block."""

from __future__ import annotations

import itertools
import re
import shutil
from dataclasses import replace

import emulated
import pytest
from compiler.cases import build, cuda_of
from compiler.persistent import BARRIER, CASES, LOOPS, program_of, run
from cuda_on_cpu import Hang, KernelFault, Race, UninitialisedRead
from emulated import EmulatedDriver

from hybridgpu.cache.package_files import kernels_folder
from hybridgpu.compiler.ir import tensor_type
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.program import Program
from hybridgpu.compiler.schedule.persistent import cost as persistent_cost
from hybridgpu.compiler.target import CUDA
from hybridgpu.core.dtypes import f32

pytestmark = pytest.mark.no_host_code

# -- barriers


#: whose steps are more than a block
SEVERAL = [*(n for n in CASES if n not in ("steps_narrow", "steps_halves")), "looped_wide"]


@pytest.mark.parametrize("name", SEVERAL)
def test_every_barrier_is_needed(name):
    program = program_of(name)
    (kernel,) = program.kernels
    places = [m.span() for m in re.finditer(re.escape(BARRIER), kernel.text)]
    for k, (begin, end) in enumerate(places):
        driver = EmulatedDriver()
        mutant = replace(kernel, text=kernel.text[:begin] + "__syncthreads();" + kernel.text[end:])
        for _ in range(3):  # the emulated driver turns the order of threads and blocks each time
            with pytest.raises((Race, UninitialisedRead)):
                run(replace(program, kernels=[mutant]), driver)
            assert driver.compiled == 1, f"barrier {k}"


#: what stands in grid_sync -> what is put in its place
TORN = {
    "  __syncthreads();\n  if": "  if",
    "red.release.gpu": "red.relaxed.gpu",
    "ld.acquire.gpu": "ld.relaxed.gpu",
    "    do {": "    if (true) {",
    "  }\n  __syncthreads();\n": "  }\n",
    "gridDim.x - 1)": "gridDim.x)",
    "gridDim.x - 1) ": "gridDim.x - 2) ",
    "? turn -": "? 0 -",
}


@pytest.mark.parametrize("line", TORN)
def test_every_line_of_the_barrier_is_needed(line, tmp_path, monkeypatch):
    folder = tmp_path / "kernels"
    shutil.copytree(kernels_folder(), folder, ignore=shutil.ignore_patterns("__pycache__"))
    text = (folder / "grid.h").read_text()
    assert text.count(line) == 1
    (folder / "grid.h").write_text(text.replace(line, TORN[line]))
    monkeypatch.setattr(emulated, "kernels_folder", lambda: folder)
    monkeypatch.setattr(emulated, "TIMEOUT", 2.0)
    driver = EmulatedDriver()
    with pytest.raises((KernelFault, AssertionError)):
        for _ in range(3):
            run(program_of("steps_lenet"), driver)


def skipping(wait: str, text: str, k: int) -> str:
    """The text of a kernel whose second block leaves the barrier of that number out."""
    places = [m.span() for m in re.finditer(re.escape(wait), text) if m.start() > text.index("__global__")]
    begin, end = places[k % len(places)]
    return f"{text[:begin]}{{ if (blockIdx.x != 1) {wait} }}{text[end:]}"


ARRIVAL = 'asm volatile("red.release.gpu.global.add.u32 [%0], %1;"'
#: what is left out, of which kernel -> what is said of it
DEADLOCKS = {
    "an arrival": ("steps_lenet", 0, "Hang", "deadlock: every thread that is left waits"),
    "the last arrival": ("steps_lenet", -1, "Hang", "deadlock: every thread that is left waits"),
    "an arrival in a loop": ("looped_wide", 1, "Hang", "deadlock: every thread that is left waits"),
    "a cluster's arrival": ("steps_in_a_cluster", 0, "BarrierFault", "cluster barrier"),
    "a cluster's last arrival": ("steps_in_a_cluster", -1, "BarrierFault", "cluster barrier not reached by all"),
}


@pytest.mark.parametrize("order", ["forward", "reverse", "shuffle"])
@pytest.mark.parametrize("what", DEADLOCKS)
def test_a_block_that_misses_a_barrier_is_reported_and_hangs_nothing(what, order, monkeypatch):
    name, place, fault, words = DEADLOCKS[what]
    program = program_of(name)
    (kernel,) = program.kernels
    mutant = replace(
        kernel, text=skipping("hg::cluster_sync();" if kernel.choice.get("cluster") else BARRIER, kernel.text, place)
    )
    monkeypatch.setattr(emulated, "ORDERS", itertools.repeat(order))
    monkeypatch.setattr(emulated, "TIMEOUT", 0.0)  # none: it is not the time that it takes
    with pytest.raises((KernelFault, AssertionError)) as caught:
        run(replace(program, kernels=[mutant]), EmulatedDriver())
    # (behind a barrier that a block has left out it may read what is not there yet, before it waits for ever)
    assert isinstance(caught.value, (Race, UninitialisedRead)) or (
        type(caught.value).__name__ == fault and re.search(words, str(caught.value))
    ), caught.value


@pytest.mark.parametrize("order", ["forward", "reverse", "shuffle"])
@pytest.mark.parametrize("name", ["steps_lenet", "looped_wide"])
def test_without_arrivals_all_blocks_wait_for_ever(name, order, tmp_path, monkeypatch):
    folder = tmp_path / "kernels"
    shutil.copytree(kernels_folder(), folder, ignore=shutil.ignore_patterns("__pycache__"))
    text = (folder / "grid.h").read_text()
    assert text.count(ARRIVAL) == 1
    (folder / "grid.h").write_text(
        text.replace(
            ARRIVAL, 'asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(arrived)); if (0) ' + ARRIVAL
        )
    )
    monkeypatch.setattr(emulated, "kernels_folder", lambda: folder)
    monkeypatch.setattr(emulated, "ORDERS", itertools.repeat(order))
    monkeypatch.setattr(emulated, "TIMEOUT", 0.0)
    with pytest.raises(Hang, match="deadlock: every thread that is left waits"):
        run(program_of(name), EmulatedDriver())


@pytest.mark.parametrize(
    "name, place, staged", [("steps_mlp", 0, True), ("steps_mlp", 1, False), ("steps_apart", 2, True)]
)
def test_shared_memory_is_not_taken_over_too_early(name, place, staged):
    """Blocks play several blocks of a step with the same shared memory."""
    program = compile_graph(build(name), cuda_of(name).changed(async_copies=staged))
    (kernel,) = program.kernels
    line = "__syncthreads();  // shared memory is used again"
    begin, end = [m.span() for m in re.finditer(re.escape(line), kernel.text)][place]
    mutant = replace(kernel, text=kernel.text[:begin] + kernel.text[end:])
    driver = EmulatedDriver(multiprocessors=1)
    for _ in range(3):
        with pytest.raises(Race, match="shared memory"):
            run(replace(program, kernels=[mutant]), driver)


def test_the_steps_of_a_phase_are_dealt_out_one_after_the_other():
    """The block that plays the first of a step's blocks is the one behind the last of the step before."""
    program = program_of("steps_apart")
    (kernel,), (step,) = program.kernels, program.steps
    turns = [
        re.sub(r"\(unsigned int\)", "", m[1]).replace("/", "//")
        for m in re.finditer(r"^ *first = (.*);  // the next", kernel.text, re.M)
    ]
    assert len(turns) == kernel.choice["steps"].index("matmul") - 1
    for grid in (1, 5, 8, 40):
        numbers = dict(zip((f"n{k}" for k in range(9)), step.extents, strict=False))
        first, before = list(range(grid)), 0
        for turn in turns:
            blocks = eval(re.search(r"- (.*?) % gridDim", turn)[1], numbers)
            first = [eval(turn.replace("gridDim.x", str(grid)), {"first": f, **numbers}) for f in first]
            before += blocks
            assert first.index(0) == before % grid and sorted(first) == list(range(grid))


# -- one cluster, or one block, in place of a cooperative grid

#: case -> blocks of the cluster that costs least
LONE = {"steps_in_a_cluster": 8, "steps_in_a_block": 1, "looped_in_a_cluster": 8}
WAITS = {1: "__syncthreads();", 8: "hg::cluster_sync();"}


@pytest.mark.parametrize("name", LONE)
def test_few_blocks_are_one_cluster(name, cuda_driver):
    """They need no cooperative launch, and no word in memory to wait on."""
    cluster = LONE[name]
    program = program_of(name)
    (kernel,), (step,) = program.kernels, program.steps
    assert kernel.kind == "graph" and kernel.choice["cluster"] == cluster
    assert not kernel.launch["cooperative"] and kernel.launch["cluster"] == cluster
    assert "barrier" not in [program.buffers[b].space for b in step.buffers]
    words = f"a cluster of {cluster} blocks" if cluster > 1 else "one block"
    assert re.search(rf"barriers? of {words}", kernel.choice["why"])
    results, _ = run(program, cuda_driver)
    (launch,) = cuda_driver.launches
    assert launch.report.threads == cluster * kernel.launch["threads"] and not launch.report.atomics
    if cluster > 1:
        assert launch.report.cluster_barriers == kernel.choice["barriers"]
    apart, _ = run(compile_graph(build(name), replace(cuda_of(name), resident="never")), cuda_driver)
    assert [a.tobytes() for a in results] == [a.tobytes() for a in apart]


def lone(name: str, cluster: int, monkeypatch) -> Program:
    """A program whose kernel is one cluster of so many blocks, whatever that costs."""
    monkeypatch.setattr(persistent_cost, "possible_clusters", lambda *_: [cluster])
    return program_of(name)


@pytest.mark.parametrize("cluster", [1, 2, 8])
@pytest.mark.parametrize("name", [*CASES, *LOOPS])
def test_bits_do_not_depend_on_the_grid(name, cluster, cuda_driver, monkeypatch):
    want, _ = run(program_of(name), cuda_driver)
    program = lone(name, cluster, monkeypatch)
    (kernel,) = program.kernels
    assert kernel.launch["cluster"] == cluster
    got, _ = run(program, cuda_driver)
    assert [a.tobytes() for a in got] == [a.tobytes() for a in want]


@pytest.mark.parametrize(("name", "cluster"), [*((n, 2) for n in SEVERAL), ("steps_bare", 1)])  # (others share memory)
def test_every_barrier_of_a_cluster_is_needed(name, cluster, monkeypatch):
    program = lone(name, cluster, monkeypatch)
    (kernel,) = program.kernels
    wait = "hg::cluster_sync();" if cluster > 1 else "__syncthreads();"
    places = [m.span() for m in re.finditer(rf"^ *(?:if \(iteration > 0\) )?({re.escape(wait)})$", kernel.text, re.M)]
    places = [p for p in places if p[0] > kernel.text.index("__global__")]
    assert len(places) == kernel.text.count("// phase ") - (not kernel.choice.get("iterations"))
    weaker = "{ hg::cluster_arrive_relaxed(); hg::cluster_wait(); }" if cluster > 1 else ";"
    for begin, end in places:
        text = kernel.text[:begin] + kernel.text[begin:end].replace(wait, weaker) + kernel.text[end:]
        driver = EmulatedDriver()
        for _ in range(3):
            with pytest.raises((Race, UninitialisedRead)):
                run(replace(program, kernels=[replace(kernel, text=text)]), driver)


def test_what_a_grid_costs():
    """A barrier of a cluster takes a fraction of the grid's, and few blocks read and compute slowly."""

    def chosen(rows: int, width: int, **figures) -> int:
        b = builder()
        x, w = b.input(tensor_type((rows, width), f32), "x"), b.input(tensor_type((width, width), f32), "w")
        for _ in range(3):
            x = b.tanh(b.dot(x, w))
        program = compile_graph(b.finish([x], "net"), CUDA.changed(resident="always", **figures))
        assert len(program.kernels) == 1
        return program.kernels[0].choice.get("cluster", 0)

    assert [chosen(1, n) for n in (8, 32, 512)] == [1, 8, 0]
    assert chosen(1, 32, persistent_cluster=0) == 0, "not asked for"
    assert [chosen(1, n, cluster_blocks=1) for n in (8, 32)] == [1, 0], "no clusters"
    assert chosen(1, 32, cluster_barrier_cycles=10_000) == 0
