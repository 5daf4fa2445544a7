# SPDX-License-Identifier: Apache-2.0
"""Every case graph: printed and parsed, simplified, compiled for the CPU and for CUDA, against the reference in float64."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from compiler.cases import CASES, EXPECTED, arrays, build, cuda_of, plain
from emulated import aligned, prepare
from guard_pages import guarded, guarded_copy

from hybridgpu.backends.cpu.backend import cpu_backend
from hybridgpu.backends.cuda.backend import CudaBackend
from hybridgpu.compiler.ir.parse import parse_graph
from hybridgpu.compiler.ir.verify import verify
from hybridgpu.compiler.passes.canonicalize.simplify import simplify
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import TABLE
from hybridgpu.compiler.program import KernelStep, Program
from hybridgpu.compiler.reference import evaluate
from hybridgpu.compiler.size_buckets import MIN_DYNAMIC_EXTENT
from hybridgpu.compiler.target import CPU, CUDA
from hybridgpu.core.dtypes import dtype_of, from_short

NAMES = list(CASES)
#: cases whose loads are masked or gathered, or which read again what a loop of theirs reads, too: their plan's traffic is
#: a bound, not exact
BOUNDED = {
    "concats",
    "slices",
    "take",
    "take_middle",
    "take_along",
    "cross_entropy",
    "extremes_of_gathered_rows",
    "random_mask",
    "padded_operand",
    "thinned_with_prologue",
    "product_of_rows",
    "wide_pad",
    "slope_uneven",
    "looped",
    "looped_in_a_cluster",
    "looped_halves",
    "looped_slopes",
    "looped_wide",
}
TOLERANCE = {"bfloat16": 3e-2, "float16": 4e-3, "float32": 3e-5, "float64": 1e-9}


def tolerance(got: np.ndarray, inputs: list[np.ndarray]) -> float:
    """Of the narrowest float that took part."""
    floats = {dtype_of(a.dtype).name for a in (got, *inputs)}
    return next(t for name, t in TOLERANCE.items() if name in floats)


def close(got: np.ndarray, want: np.ndarray, inputs: list[np.ndarray], what: str) -> None:
    assert got.shape == want.shape, f"{what}: shape {got.shape}, expected {want.shape}"
    if dtype_of(got.dtype).is_float:
        limit = tolerance(got, inputs)
        np.testing.assert_allclose(got.astype(np.float64), want, rtol=limit, atol=limit, err_msg=what)
    else:
        np.testing.assert_array_equal(got, want, err_msg=what)


def wanted(graph, inputs):
    """The reference, in float64 except where an integer result depends on rounding in float32."""
    with np.errstate(all="ignore"):
        return evaluate(graph, inputs, wide=True)


@pytest.mark.no_host_code
@pytest.mark.parametrize("name", NAMES)
def test_printed_form_reads_back(name):
    graph = build(name)
    text = str(graph)
    again = parse_graph(text, TABLE)
    verify(again)
    assert str(again) == text
    for a, b in zip(wanted(graph, arrays(graph)), wanted(again, arrays(graph))):
        np.testing.assert_array_equal(a, b)


@pytest.mark.no_host_code
@pytest.mark.parametrize("name", NAMES)
def test_simplified_graph_means_the_same(name):
    graph = build(name)
    small = simplify(graph)
    verify(small)
    assert len(small.nodes) <= len(graph.nodes) + 2
    for specials in (False, True):
        inputs = arrays(graph, 1, specials)
        for a, b in zip(evaluate(graph, inputs), evaluate(small, inputs)):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(plain(a), plain(b))


def fresh(program: Program) -> list[np.ndarray]:
    return [aligned(shape, from_short(short).np) for shape, short in program.outputs]


@pytest.mark.parametrize("specials", [False, True], ids=["plain", "specials"])
@pytest.mark.parametrize("name", NAMES)
def test_cpu(name, specials, compiler):
    graph = build(name)
    program = compile_graph(graph, CPU)
    inputs = arrays(graph, 2, specials)
    held = [guarded_copy(a, not specials) for a in inputs]
    outputs = [guarded(shape, from_short(short).np, not specials) for shape, short in program.outputs]
    cpu_backend().load(program)(held, outputs)
    for k, (got, want) in enumerate(zip(outputs, wanted(graph, inputs))):
        close(got, want, inputs, f"{name} output {k}")
    for a, b in zip(held, inputs):
        assert a.tobytes() == b.tobytes(), "an input was written"
    kinds = [program.kernels[s.kernel].kind for s in program.steps if isinstance(s, KernelStep)]
    if name in EXPECTED:
        assert kinds == EXPECTED[name], f"{name} became {kinds}: {program.refusals}"


def few_blocks(program: Program) -> Program:
    """The same with a block a multiprocessor wherever blocks take several shares: their loops go round."""
    kernels = [replace(k, launch={**k.launch, "limit": min(k.launch["limit"], 1)}) for k in program.kernels]
    return replace(program, kernels=kernels)


@cache
def for_cuda(name: str) -> Program:
    """A case as CUDA has it."""
    return compile_graph(build(name), cuda_of(name))


AT_ONCE = 12  #: cases whose kernels are compiled together


@cache
def prepared(names: tuple[str, ...]) -> None:
    """Compile what the cases of a group need."""
    prepare([k for name in names for k in for_cuda(name).kernels])


@pytest.fixture(scope="module")
def groups(request) -> dict[str, tuple[str, ...]]:
    """Case -> itself and its neighbours among those that this run executes as CUDA; alone where few tests were chosen."""
    here = (i for i in request.session.items if i.path == request.path)
    names = [i.callspec.params["name"] for i in here if i.originalname == "test_cuda_text_executed_on_the_cpu"]
    if request.session.testscollected <= len(NAMES):  # a mutant may end the run at the first
        return {name: (name,) for name in names}
    return {name: tuple(names[k - k % AT_ONCE :][:AT_ONCE]) for k, name in enumerate(names)}


@pytest.mark.no_host_code
@pytest.mark.parametrize("name", NAMES)
def test_cuda_text_executed_on_the_cpu(name, cuda_driver, groups):
    if len(groups[name]) > 1:
        prepared(groups[name])
    execute_as_cuda(name, cuda_driver)


def execute_as_cuda(name: str, cuda_driver) -> None:
    """Execute the CUDA text of a case and compare results and traffic with what was planned."""
    graph, program = build(name), for_cuda(name)
    backend = CudaBackend(cuda_driver, np, lambda a: int(a.__array_interface__["data"][0]))
    for seed, specials in ((3, False), (4, True)):
        loaded = backend.load(few_blocks(program) if specials else program)
        inputs = [on_device(a) for a in arrays(graph, seed, specials)]
        outputs = fresh(program)
        before = len(cuda_driver.launches)
        loaded(inputs, outputs)
        for k, (got, want) in enumerate(zip(outputs, wanted(graph, inputs))):
            close(got, want, inputs, f"{name} output {k}")
        steps = [s for s in program.steps if isinstance(s, KernelStep)]
        for launch, step in zip(cuda_driver.launches[before:], steps):
            assert launch.written == step.bytes_written
            again = program.kernels[step.kernel].choice.get("reread_bytes", 0)
            if again:  # every access counts
                assert launch.report.global_read == step.bytes_read
            # what every block looks through is counted each time, and read once as far as this measure goes
            planned = step.bytes_read - again - (step.choice or program.kernels[step.kernel].choice).get("scanned", 0)
            if name in BOUNDED:
                assert launch.read <= planned, (
                    f"{launch.kernel} reads {launch.read} bytes, the plan says at most {planned}"
                )
            else:
                assert launch.read == planned, f"{launch.kernel} reads {launch.read} bytes, the plan says {planned}"


def on_device(a: np.ndarray) -> np.ndarray:
    out = aligned(a.shape, a.dtype)
    out[...] = a
    return out


@pytest.mark.no_host_code
@pytest.mark.parametrize("name", NAMES)
def test_same_graph_same_bytes(name):
    first, second = compile_graph(build(name), CPU), compile_graph(build(name), CPU)
    assert first.source == second.source and first.to_bytes() == second.to_bytes()


@pytest.mark.parametrize("name", ["chain", "softmax", "dense", "batched", "several_outputs"])
def test_program_survives_its_stored_form(name):
    for target in (CPU, CUDA):
        program = compile_graph(build(name), target)
        again = Program.from_bytes(program.to_bytes())
        assert again == program


def test_batch_size_does_not_change_the_text():
    from hybridgpu.compiler.ir import tensor_type
    from hybridgpu.compiler.primitives import builder
    from hybridgpu.core.dtypes import f32

    def net(n):
        b = builder()
        x, w = b.input(tensor_type((n, 16), f32), "x"), b.input(tensor_type((8, 16), f32), "w")
        h = b.max(b.dot(x, b.transpose(w, (1, 0))), 0.0)
        e = b.exp(h - b.reduce("amax", h, (-1,), keepdims=True))
        return b.finish([e / b.sum(e, (-1,), keepdims=True)], "net")

    for target in (CPU, CUDA):
        texts = [[k.text for k in compile_graph(net(n), target).kernels] for n in (2, 3, 17)]
        assert texts[0] == texts[1] == texts[2]
    sources = [compile_graph(net(n), CPU).source for n in (MIN_DYNAMIC_EXTENT, 17, 10_000)]  # one chunk, and several
    assert sources[0] == sources[1] == sources[2]


class Short(str):
    pass


@pytest.mark.parametrize(
    ("value", "found"),
    [(np.float64(0.1), 0.1), (Short("a"), "a"), ([(1, [2.5, None])], [(1, [2.5, None])]), (-0.0, -0.0), (True, True)],
    ids=repr,
)
def test_values_are_stored_as_what_they_are(value, found):
    """Bytes that depend on the value alone, and exact types, which are all that is told apart in them."""
    program = compile_graph(build("chain"), CPU)
    program.launch_fusion_notes = [value]
    (again,) = Program.from_bytes(program.to_bytes()).launch_fusion_notes
    assert repr(again) == repr(found) and type(again) is type(found)


def test_a_value_that_cannot_be_stored_is_refused():
    program = compile_graph(build("chain"), CPU)
    program.launch_fusion_notes = [object()]
    with pytest.raises(TypeError, match="cannot be stored"):
        program.to_bytes()


@pytest.mark.parametrize("data", [b"", b"{}", b"N", b"(\x00\x00\x00\x00", b"(\x01\x00\x00\x00N"], ids=repr)
def test_bytes_that_are_no_program(data):
    with pytest.raises((EOFError, TypeError, ValueError)):
        Program.from_bytes(data)
