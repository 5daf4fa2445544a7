# SPDX-License-Identifier: Apache-2.0
"""Several kernels as the steps of one: what becomes a step, what it costs, and that its barriers are needed.

``test_graphs.py`` executes the same cases, compares results and traffic; ``test_nvrtc.py`` compiles them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from compiler.cases import build, cuda_of
from compiler.cases.loops import lstm
from compiler.persistent import BARRIER, CASES, LOOPS, program_of, run
from cuda_on_cpu import KernelFault, Race, UninitialisedRead
from cuda_on_cpu.static_checks import compile_report, has_nvrtc
from emulated import EmulatedDriver

from hybridgpu.backends.cuda.driver import module_source
from hybridgpu.backends.cuda.nvrtc import NUMERIC
from hybridgpu.cache.package_files import kernels_folder
from hybridgpu.compiler.ir import tensor_type
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.program import Program
from hybridgpu.compiler.reference import evaluate
from hybridgpu.compiler.target import CUDA
from hybridgpu.core.dtypes import f32

pytestmark = pytest.mark.no_host_code


@pytest.mark.parametrize("name", CASES)
def test_what_becomes_a_step(name):
    kinds, barriers, threads = CASES[name]
    program = program_of(name)
    (kernel,), (step,) = program.kernels, program.steps
    assert kernel.kind == "graph" and kernel.launch["cooperative"] and kernel.launch["threads"] == threads
    assert kernel.choice["steps"] == kinds and kernel.choice["barriers"] == barriers == kernel.text.count(BARRIER)
    assert [program.buffers[b].space for b in step.buffers].count("barrier") == 1
    apart = compile_graph(build(name), replace(cuda_of(name), resident="never"))
    assert [k.kind for k in apart.kernels] == kinds and not apart.launch_fusion_notes
    (said,) = program.launch_fusion_notes
    assert said.startswith(f"{len(kinds)} kernels are one: ")


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_is_a_step(name, cuda_driver):
    """The grid waits for each phase of each turn, and the host starts one kernel."""
    kinds, turns, barriers = LOOPS[name]
    program = program_of(name)
    (kernel,), (_,) = program.kernels, program.steps
    assert kernel.choice["steps"] == kinds and kernel.choice["iterations"] == turns
    assert kernel.choice["barriers"] == barriers
    assert re.match(rf"a loop of {max(turns)} iterations is one kernel: ", program.launch_fusion_notes[0])
    run(program, cuda_driver)
    (launch,) = cuda_driver.launches
    assert launch.report.atomics == barriers * launch.report.threads / kernel.launch["threads"]


def test_a_recurrent_layer_and_its_gradients():
    """What goes through time forward, what goes back, and what stands between, are one kernel.

    The gradient of the weight is none of its steps: it has blocks of 512 threads, for which a step of the second loop
    holds too much.
    """
    program = program_of("looped_slopes")
    assert [k.kind for k in program.kernels] == ["graph", "matmul"]
    assert [k.launch["threads"] for k in program.kernels] == [256, 512]
    assert program.kernels[0].choice["iterations"].count(4) == 8


def recurrent(length: int, batch: int, size: int = 16, how: str = "always") -> Program:
    b = builder()
    shapes = {"z": (length, batch, 4 * size), "h": (batch, size), "c": (batch, size), "w": (4 * size, size)}
    states, _ = lstm(b, *(b.input(tensor_type(s, f32), n) for n, s in shapes.items()))
    return compile_graph(b.finish([b.tanh(states)], "recurrent"), replace(CUDA, resident=how))


def test_loops_of_another_length_and_batch_have_the_same_text():
    texts = {recurrent(length, batch).kernels[0].text for length, batch in ((2, 8), (7, 8), (60, 16))}
    assert len(texts) == 1


LOOP_CHOICES = {
    "small": (
        20,
        20,
        200,
        1,
        r"a loop of 20 iterations is one kernel: one launch instead of 40, and 20 iterations of the host fewer, save",
    ),
    "what a library is faster at": (20, 32, 512, 1, r"a loop of 20 iterations is one kernel: "),
    "large": (20, 128, 1024, 2, r"1 loop is no step of a kernel: one launch instead of 40, .* cost about [\d.]+ us$"),
}


@pytest.mark.parametrize("what", LOOP_CHOICES)
def test_which_loops_are_kernels(what):
    length, batch, size, steps, words = LOOP_CHOICES[what]
    program = recurrent(length, batch, size, "auto")
    assert len(program.steps) == steps and re.match(words, program.launch_fusion_notes[0])


def test_a_loop_that_is_no_kernel_says_why():
    program = program_of("looped_out_of_step")
    assert [s.primitive for s in program.steps] == ["loop"]
    assert program.launch_fusion_notes == [
        "1 loop is no step of a kernel: slices of its arrays are no multiples of 16 bytes"
    ]


# -- what is fetched ahead

#: case -> (bytes into the second-level cache, bytes a block into shared memory)
AHEAD = {
    "steps_mlp": (4 * 64 + 4 * 10, 4 * 8 * 128 + 4 * 10 * 64),  # biases; columns of two weights
    "steps_lstm": (4 * 64 + 4 * 3 * 16, 0),
    "steps_lenet": (4 * (1500 + 10), 0),  # lines of the weight are no multiple of 16 bytes
    "steps_narrow": (0, 4 * 40 * 4),
    "steps_apart": (0, 0),  # nothing is read that the first phase does not read
    "steps_heads": (4 * (24 * 48 + 40 * 24), 4 * 32 * 48),
    "steps_halves": (0, 2 * 16 * 32),
}


@pytest.mark.parametrize("name", AHEAD)
def test_what_is_fetched_ahead(name, cuda_driver):
    program = program_of(name)
    (kernel,), (step,) = program.kernels, program.steps
    far, near = AHEAD[name]
    assert kernel.choice.get("prefetched", {}) == {k: n for k, n in (("l2", far), ("shared", near)) if n}
    assert kernel.launch["shared"] == near
    assert ("bytes into the second-level cache" in kernel.choice["why"]) == bool(far)
    run(program, cuda_driver)
    (launch,) = cuda_driver.launches
    assert launch.report.prefetched == far, "each byte once, and none beyond"
    assert launch.read == step.bytes_read, "what is fetched ahead is what is read"
    assert bool(launch.report.async_copies) == bool(near)


#: what stands in the text of a kernel -> what is put in its place
EARLY = {
    "  hg::wait_copies();\n": "",
    "  __syncthreads();  // what other threads copied, too\n": "",
    "_prefetch(p3, p7, p4, p8, n2, n3, blockIdx.x, held + 0)": "_prefetch(p3, p7, p4, p8, n2, n3, blockIdx.x + 1, held + 0)",
    "block + gridDim.x, held + 0)": "block + 1, held + 0)",
    "held + 4096": "held + 2048",
}


@pytest.mark.parametrize("line", EARLY)
def test_copies_are_waited_for(line):
    """Weights are used when they have arrived, and they are those of the block."""
    program = program_of("steps_mlp")
    (kernel,) = program.kernels
    assert line in kernel.text
    mutant = replace(program, kernels=[replace(kernel, text=kernel.text.replace(line, EARLY[line]))])
    want, _ = run(program, EmulatedDriver(multiprocessors=1))
    for _ in range(3):
        try:
            got, _ = run(mutant, EmulatedDriver(multiprocessors=1))
        except KernelFault:
            continue
        assert any(a.tobytes() != b.tobytes() for a, b in zip(got, want, strict=True)), "nothing has changed"


def test_a_copy_that_is_not_waited_for_is_a_race():
    program = program_of("steps_mlp")
    (kernel,) = program.kernels
    mutant = replace(program, kernels=[replace(kernel, text=kernel.text.replace("  hg::wait_copies();\n", ""))])
    with pytest.raises((Race, UninitialisedRead), match="in flight|nothing has written"):
        run(mutant, EmulatedDriver())


FETCHES = {
    "an older GPU copies nothing": ({"async_copies": False}, "steps_narrow", {"l2": 640}),
    "no room": ({"shared_bytes": 2 << 10}, "steps_narrow", {"l2": 640}),
    "room for one": ({"shared_bytes": 6 << 10}, "steps_mlp", {"l2": 4 * (64 + 10 + 640), "shared": 4096}),
    "few blocks": ({"multiprocessors": 1}, "steps_lenet", {"l2": 6040}),
}


@pytest.mark.parametrize("what", FETCHES)
def test_what_there_is_room_for(what):
    machine, name, found = FETCHES[what]
    (kernel,) = compile_graph(build(name), cuda_of(name).changed(**machine)).kernels
    assert kernel.choice["prefetched"] == found


def test_many_lines_for_few_blocks_are_left():
    """Asking for a large weight line by line would take a few blocks longer than waiting for it."""

    def fetched(units: int) -> dict[str, int]:
        b = builder()
        x, w, v = (b.input(tensor_type(s, f32), n) for s, n in (((1, 30), "x"), ((30, 30), "w"), ((30, units), "v")))
        h = b.tanh(b.dot(x, w))
        graph = b.finish([b.tanh(b.dot(h, v))], "wide")
        (kernel,) = compile_graph(
            graph, CUDA.changed(resident="always", multiprocessors=2, persistent_cluster=0)
        ).kernels
        return kernel.choice.get("prefetched", {})

    assert fetched(300) == {"l2": 36000}
    assert fetched(3000) == {}


# -- memory that is written is not read through caches that do not see it


def read_only_loads(ptx: str) -> dict[int, int]:
    """Number of a parameter -> loads through the read-only path whose address comes from it."""
    sources: dict[str, set[int]] = defaultdict(set)
    lines = [line.strip().rstrip(";") for line in ptx.splitlines()]
    for _ in range(4):  # registers are defined before they are used, but for loops
        for line in lines:
            words = re.findall(r"%\w+|\w+_param_\d+", line)
            if not words or line.startswith((".", "st.", "ld.global", "@")):
                continue
            for word in words[1:]:
                found = re.fullmatch(r"\w+_param_(\d+)", word)
                sources[words[0]] |= {int(found[1])} if found else sources[word]
    counts: dict[int, int] = defaultdict(int)
    for line in lines:
        if "ld.global" in line and ".nc" in line:
            address = re.search(r"\[(%\w+)", line)
            assert address is not None
            for parameter in sources[address[1]]:
                counts[parameter] += 1
    return counts


@pytest.mark.long_table
@pytest.mark.skipif(not has_nvrtc(), reason="NVRTC is not installed")
@pytest.mark.parametrize("arch", ["compute_80", "compute_90", "compute_120"])
def test_only_what_no_step_writes_is_read_through_the_read_only_path(arch):
    pytest.importorskip("cupy", reason="production reaches NVRTC through CuPy")
    from hybridgpu.backends.cuda.nvrtc import compile_cubin

    for name in CASES:
        program = program_of(name)
        (kernel,), (step,) = program.kernels, program.steps
        ptx = compile_cubin(module_source([kernel]), arch, "strict")[0].decode()
        written = set(range(len(step.buffers) - step.outputs, len(step.buffers)))
        found = read_only_loads(ptx)
        assert found and not written & set(found), f"{name}: {sorted(found)} of which {sorted(written)} are written"


#: kinds of steps: rows and maps, products, a loop, loops and their gradients
COUNTED = ["steps_of_long_rows", "steps_mlp", "steps_lenet", "steps_lstm", "looped", "looped_slopes"]


@pytest.mark.skipif(not has_nvrtc(), reason="NVRTC is not installed")
@pytest.mark.parametrize("name", COUNTED)
def test_registers_are_about_as_many_as_the_plan_takes(name):
    """A multiprocessor holds as many blocks of the compiled kernel, or one more or less in three."""
    kernel = program_of(name).kernels[0]
    text, threads = module_source([kernel]), kernel.launch["threads"]
    found = compile_report(text, "sm_90", ["-default-device"], [kernels_folder()]).kernels[kernel.name].registers
    held, planned = (
        min(2048 // threads, 65536 // (-(-n // 8) * 8 * threads)) for n in (found, kernel.choice["registers"])
    )
    assert abs(held - planned) <= max(1, planned // 3), (found, kernel.choice["registers"])


# -- the choice


def several(rows: int):
    """Three kernels that follow each other, none of which a library computes."""
    b = builder()
    x = b.input(tensor_type((rows, 256), f32), "x")
    e = b.exp(x - b.reduce("amax", x, (1,), keepdims=True))
    share = e / b.sum(e, (1,), keepdims=True)
    total = b.sum(share, (0,))
    return b.finish([share, total, b.sum(share * total, (1,))], "several")


def forced(rows: int, how: str) -> Program:
    replayed = how == "replayed"
    return compile_graph(several(rows), replace(CUDA, resident="auto" if replayed else how, replayed=replayed))


CHOICES = {
    "small": (16, "auto", 1, r"3 kernels are one: one launch instead of 3 saves about 4\.0 us; 2 barriers of"),
    # sums of many rows are taken in two passes
    "large": (1 << 17, "auto", 4, r"3 kernels are no step of a kernel: far longer than starting one$"),
    "nodes of a graph": (
        1 << 12,
        "replayed",
        3,
        r"3 kernels stay apart: one node of a CUDA graph .* cost about [\d.]+ us$",
    ),
    "asked": (1 << 17, "always", 1, r"4 kernels are one: asked for, although one launch"),
    "never": (16, "never", 3, ""),
}


@pytest.mark.parametrize("name", CHOICES)
def test_the_choice_and_its_reason(name):
    rows, how, launches, words = CHOICES[name]
    program = forced(rows, how)
    assert len(program.steps) == launches
    assert re.match(words, program.launch_fusion_notes[0]) if words else not program.launch_fusion_notes


def test_loops_are_weighed_against_launches_in_any_mode():
    """The host starts their kernels in no CUDA graph; nor may sums take another order because other kernels are replayed."""
    auto = replace(CUDA, resident="auto")
    one, other = (compile_graph(build("looped"), replace(auto, replayed=r)).launch_fusion_notes for r in (False, True))
    assert one[0] == other[0] and one[0].startswith("a loop of 5 iterations is one kernel: one launch instead of 10")
    assert one[1] != other[1]


#: case -> (kinds of its kernels, what is said of those that are no steps)
NO_STEPS = {
    "steps_around_a_cluster": (
        ["graph", "reduce"],
        ["1 kernel is no step of a kernel: rows that several blocks share"],
    ),
    "steps_around_a_scatter": (
        ["graph", "scatter"],
        ["1 kernel is no step of a kernel: a table that blocks own in parts"],
    ),
    "steps_around_a_sort": (["graph", "foreach"], ["1 library call is no step of a kernel"]),
}


@pytest.mark.parametrize("name", NO_STEPS)
def test_what_is_no_step_does_not_part_those_that_are(name):
    """Steps are brought together where nothing that they read stands between, and why others are none is said."""
    kinds, said = NO_STEPS[name]
    program = program_of(name)
    assert [k.kind for k in program.kernels] == kinds
    assert program.launch_fusion_notes[:-1] == said and re.match(
        r"[23] kernels are one: ", program.launch_fusion_notes[-1]
    )


@pytest.mark.parametrize(("cluster", "texts"), [(0, 1), (8, 2)])
def test_batches_of_other_sizes_have_few_texts(cluster, texts):
    """One for each kind of grid: one block, a cluster, and as large as it may be."""

    def net(rows: int) -> Program:
        b = builder()
        x, w = b.input(tensor_type((rows, 16), f32), "x"), b.input(tensor_type((8, 16), f32), "w")
        h = b.dot(x, b.transpose(w, (1, 0)))
        e = b.exp(h - b.reduce("amax", h, (-1,), keepdims=True))
        target = replace(CUDA, resident="always", persistent_cluster=cluster)
        return compile_graph(b.finish([e / b.sum(e, (-1,), keepdims=True)], "net"), target)

    programs = [net(n) for n in (2, 3, 17, 18, 40)]
    assert {k.kind for p in programs for k in p.kernels} == {"graph"}
    assert len({p.kernels[0].text for p in programs}) == texts


@pytest.mark.parametrize("name", CASES)
def test_the_stored_form(name):
    program = program_of(name)
    assert Program.from_bytes(program.to_bytes()) == program


def test_one_step_is_no_graph():
    program = compile_graph(build("softmax"), replace(CUDA, resident="always"))
    assert [k.kind for k in program.kernels] == ["rows"] and not program.launch_fusion_notes


def test_results_are_those_of_the_kernels_apart(cuda_driver):
    for name in CASES:
        one = program_of(name)
        apart = compile_graph(build(name), replace(cuda_of(name), resident="never"))
        (got, held), (want, _) = run(one, cuda_driver, 5), run(apart, cuda_driver, 5)
        for a, b in zip(got, want, strict=True):
            np.testing.assert_array_equal(a, b)  # in the same order of summation
        for a, b in zip(got, evaluate(build(name), held, wide=True), strict=True):
            limit = 5e-3 if a.dtype == np.float16 else 3e-5
            np.testing.assert_allclose(a, b, rtol=limit, atol=limit)


def test_numeric_modes_are_both_compiled():
    assert set(NUMERIC) == {"strict", "fast"}
    names = {compile_graph(build("steps_lstm"), cuda_of("steps_lstm").with_numeric(n)).kernels[0].name for n in NUMERIC}
    assert len(names) == 2
