# SPDX-License-Identifier: Apache-2.0
"""Sums over the batch on a GPU, slices, pads and joins of an outer axis: one text for batches of several sizes."""

from __future__ import annotations

import numpy as np
import pytest
from compiler.dynamic_sizes import texts_and_values
from cuda_on_cpu.static_checks import compile_report, has_nvrtc
from cuda_on_cpu.support import by_architecture
from emulated import aligned

from hybridgpu.backends.cpu.backend import cpu_backend
from hybridgpu.backends.cuda.backend import CudaBackend
from hybridgpu.backends.cuda.driver import module_source
from hybridgpu.cache.package_files import kernels_folder
from hybridgpu.compiler.ir.types import tensor_type
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import TABLE, builder
from hybridgpu.compiler.reference import evaluate
from hybridgpu.compiler.schedule.runtime_args import RuntimeArgs
from hybridgpu.compiler.target import CPU, CUDA
from hybridgpu.core.dtypes import f16, f32, f64, from_short, i32
from hybridgpu.ops.conv import windowed

BATCHES = (7, 16, 17, 50)
#: rows on chip have room for twice as many elements at most, where these are more than 64
CLASSES = {
    "normalised_planes": (12, 16, 20),
    "unit_length": (36, 45, 64),
    "slope_of_a_moved_state": (20, 21, 50),  # (five steps: sums of 100 to 250, which are one class)
}


@pytest.mark.parametrize("target", [CPU, CUDA], ids=["cpu", "cuda"])
def test_which_draw_of_a_graph_a_mask_takes_is_an_argument(target):
    """So that all layers that drop out have one kernel."""
    texts = set()
    for drawn_before in (0, 3):
        b = builder(streams=drawn_before)
        x = b.input(tensor_type((32, 48), f32))
        mask = b.lt(b.cast(b.random_bits((32, 48)) / 256, f32) * 2.0**-24, 0.5)
        texts.add(compile_graph(b.finish([b.select(mask, x, 0.0)], "masked"), target).kernels[0].text)
    assert len(texts) == 1


def slope_of_dense(b, n, dtype, left=12, right=20):
    """The gradient of a dense layer's weight."""
    return b.dot(b.transpose(b.input(tensor_type((n, left), dtype)), (1, 0)), b.input(tensor_type((n, right), dtype)))


def slope_behind_relu(b, n, dtype):
    """… whose left operand is computed as it is loaded."""
    g, x = b.input(tensor_type((n, 12), dtype)), b.input(tensor_type((n, 20), dtype))
    return b.dot(b.transpose(b.max(g, 0.0) * 0.5, (1, 0)), x) * 2.0


def slope_of_a_first_step(b, n, dtype):
    """… of a recurrent cell's, whose state is zero."""
    return b.dot(b.full((12, n), 0.0, dtype), b.input(tensor_type((n, 20), dtype))) + 1.0


def slope_of_conv(b, n, dtype, channels=3, **given):
    x, w = b.input(tensor_type((n, channels, 7, 7), dtype)), b.input(tensor_type((6, channels, 3, 3), dtype))
    two = (1, 1)
    params = {"stride": two, "low": two, "high": two, "dilate": two, "base_dilate": two, "groups": 1} | given
    y = b.conv(x, w, **params)
    return TABLE["conv"].vjp(b, b.input(y.type), y, (x, w), params)[1]


def slope_of_strided_conv(b, n, dtype):
    return slope_of_conv(b, n, dtype, stride=(2, 2))


def slope_of_one_channel(b, n, dtype):
    return slope_of_conv(b, n, dtype, channels=1)


def normalised(b, n, dtype):
    """Columns that stay on chip."""
    x = b.input(tensor_type((n, 20), dtype))
    d = x - b.mean(x, (0,), keepdims=True)
    return d * b.rsqrt(b.mean(d * d, (0,), keepdims=True) + 1e-3)


def normalised_planes(b, n, dtype):
    x = b.input(tensor_type((n, 5, 12), dtype))
    d = x - b.mean(x, (0, 2), keepdims=True)
    return d * b.rsqrt(b.mean(d * d, (0, 2), keepdims=True) + 1e-3)


def unit_length(b, n, dtype):
    """A row that stays on chip."""
    x = b.input(tensor_type((n * 8,), dtype))
    return x * b.rsqrt(b.sum(x * x, (0,), keepdims=True))


def of_the_last_step(b, n, dtype):
    """Where a slice of the outer axis begins is told, too."""
    x, w = b.input(tensor_type((5, n, 24), dtype)), b.input(tensor_type((24, 12), dtype))
    return b.dot(b.reshape(b.slice(x, (4, 0, 0), (5, n, 24), (1, 1, 1)), (n, 24)), w)


def slope_of_a_moved_state(b, n, dtype):
    """The gradient of a recurrent layer's weight: states one step before the others."""
    g, h = b.input(tensor_type((5, n, 12), dtype)), b.input(tensor_type((5, n, 20), dtype))
    before = b.pad(b.slice(h, (0, 0, 0), (4, n, 20), (1, 1, 1)), low=(1, 0, 0), high=(0, 0, 0), value=0.5)
    return b.dot(b.transpose(b.reshape(g, (5 * n, 12)), (1, 0)), b.reshape(before, (5 * n, 20)))


def inputs_of_steps(b, n, dtype):
    """Sentences read step by step."""
    x, w = b.input(tensor_type((n, 6, 8), dtype)), b.input(tensor_type((8, 24), dtype))
    return b.dot(b.reshape(b.transpose(x, (1, 0, 2)), (6 * n, 8)), w)


def slope_of_exchanged_steps(b, n, dtype):
    """… whose gradients come step by step, and sentences one after the other."""
    x, g = b.input(tensor_type((n, 6, 8), dtype)), b.input(tensor_type((6 * n, 24), dtype))
    return b.dot(b.transpose(b.reshape(b.transpose(x, (1, 0, 2)), (6 * n, 8)), (1, 0)), g)


def exchanged_results(b, n, dtype):
    """Results of steps, written sentence by sentence."""
    x, w = b.input(tensor_type((6 * n, 12), dtype)), b.input(tensor_type((12, 20), dtype))
    return b.transpose(b.reshape(b.dot(x, w), (6, n, 20)), (1, 0, 2)) * 2.0


CASES = [(f, d) for f in (slope_of_dense, slope_of_conv) for d in (f32, f16, f64)] + [
    (slope_of_dense, i32),
    (slope_behind_relu, f32),
    (slope_of_a_first_step, f32),
    (slope_of_strided_conv, f32),
    (slope_of_one_channel, f32),
    (normalised, f32),
    (normalised_planes, f32),
    (unit_length, f32),
    (of_the_last_step, f32),
    (slope_of_a_moved_state, f32),
    (inputs_of_steps, f32),
    (slope_of_exchanged_steps, f32),
    (slope_of_exchanged_steps, f16),
    (exchanged_results, f32),
]


@pytest.mark.no_host_code
@pytest.mark.parametrize(("make", "dtype"), CASES, ids=lambda v: getattr(v, "__name__", None) or v.short)
def test_one_text_whatever_the_length(make, dtype, cuda_driver):
    texts = set()
    rng = np.random.default_rng(0)
    for n in CLASSES.get(make.__name__, BATCHES):
        b = builder()
        graph = b.finish([make(b, n, dtype)])
        program = compile_graph(graph, CUDA)
        texts.add(tuple(k.text for k in program.kernels))
        inputs = []
        for node in graph.inputs:
            a = aligned(node.shape, dtype.np)
            a[...] = rng.integers(-9, 9, node.shape) if dtype is i32 else rng.standard_normal(node.shape)
            inputs.append(a)
        ((shape, short),) = program.outputs
        out = aligned(shape, from_short(short).np)
        CudaBackend(cuda_driver, np, lambda a: int(a.__array_interface__["data"][0])).load(program)(inputs, [out])
        (want,) = evaluate(graph, inputs, wide=True)
        tolerance = {f16: 2e-3, f32: 2e-5, f64: 1e-12, i32: 0}[dtype]
        np.testing.assert_allclose(out, want, tolerance, tolerance * max(1, np.abs(want).max()))
    assert len(texts) == 1


@pytest.mark.no_host_code
@pytest.mark.skipif(not has_nvrtc(), reason="NVRTC is not here")
@pytest.mark.parametrize("arch", by_architecture(["sm_80", "sm_120"]))
def test_texts_stay_in_registers(arch):
    """Positions that are taken apart by what is told, in blocks of many threads."""
    found = {}
    for make, dtype in [(slope_of_exchanged_steps, f32), (slope_of_exchanged_steps, f16), (exchanged_results, f32)]:
        b = builder()
        found |= {k.name: k for k in compile_graph(b.finish([make(b, 50, dtype)]), CUDA).kernels}
    report = compile_report(module_source(list(found.values())), arch, ["-default-device"], [kernels_folder()])
    assert len(report.kernels) == len(found) >= 3
    for name, need in report.kernels.items():
        assert not need.spills and need.registers * found[name].launch["threads"] <= 65536, (name, need)


# -- the length of an inner axis: time, where the batch comes first, or the batch, where time does


def numbered(b, words):
    """Numbers below 30."""
    return b.cast(b.max(b.min(words * 10.0 + 15.0, 29.0), 0.0), i32)


def of_each_example(b, t):
    """A value of each example, one of each step and one of each feature."""
    x, g, m, f = (b.input(tensor_type(s, f32)) for s in ((6, t, 20), (6, 1, 1), (1, t, 1), (20,)))
    return b.tanh(x + f) * g + m


def steps_of_words(b, t):
    """Rows of a table, in another order than the words that they stand for."""
    words, table = b.input(tensor_type((6, t), f32)), b.input(tensor_type((30, 8), f32))
    return b.transpose(b.take(table, numbered(b, words), axis=0), (1, 0, 2)) * 2.0


def mean_of_examples(b, t):
    """How many elements a mean is of is told, too."""
    x, f = b.input(tensor_type((6, t, 20), f32)), b.input(tensor_type((20,), f32))
    return b.mean((x + f) * (x + f), (1, 2))


def softmax_of_steps(b, t):
    x, g, m = (b.input(tensor_type(s, f32)) for s in ((6, t, 64), (6, 1, 1), (1, t, 1)))
    e = b.exp(x - b.reduce("amax", x, (2,), keepdims=True))
    return e / b.sum(e, (2,), keepdims=True) * g + m


def product_in_another_order(b, t):
    """Results of steps, written where the batch comes first."""
    x, w = b.input(tensor_type((6 * t, 12), f32)), b.input(tensor_type((12, 20), f32))
    return b.transpose(b.reshape(b.dot(x, w), (6, t, 20)), (1, 0, 2)) * 2.0


def slopes_of_words(b, t):
    """Sums over the words of a table's rows, whose gradients lie in another order."""
    words, g = b.input(tensor_type((6, t), f32)), b.input(tensor_type((t, 6, 8), f32))
    return b.scatter_add(b.transpose(g, (1, 0, 2)), numbered(b, words), axis=0, extent=30)


INNER = [of_each_example, steps_of_words, mean_of_examples, softmax_of_steps, product_in_another_order, slopes_of_words]


# -- slices, pads and joins of an outer axis


def last(b, n, *shape):
    """The last step of an array whose first axis is time."""
    x = b.input(tensor_type((3, n, *shape), f32))
    rest = (0,) * (1 + len(shape)), (1,) * (2 + len(shape))
    return b.reshape(b.slice(x, (2, *rest[0]), (3, n, *shape), rest[1]), (n, *shape))


def busy_map(b, n):
    """Lines of several arrays are fetched before they are needed."""
    x, y, z = last(b, n, 1024), *(b.input(tensor_type((n, 1024), f32)) for _ in range(2))
    return b.tanh(x * y) * b.exp(y * z) + b.sqrt(b.exp(x) + b.exp(z)) * b.tanh(z)


def softmax_of_rows(b, n):
    """… and those of rows."""
    x = last(b, n, 1000)
    e = b.exp(x - b.reduce("amax", x, (1,), keepdims=True))
    return e / b.sum(e, (1,), keepdims=True)


def turned_map(b, n):
    """Tiles begin in the slice."""
    return b.transpose(last(b, n, 64, 96), (0, 2, 1)) + 1.0


def short_rows(b, n):
    """… and those of rows that are turned."""
    x = last(b, n, 48, 10)
    return x / b.sum(b.abs(x), (2,), keepdims=True)


def disjoint_windows(b, n):
    """… and those of windows."""
    x = windowed(b, last(b, n, 4, 24, 24), (2, 2), (2, 2), (1, 1), (12, 12), (0, 0), 0.0)
    return b.reduce("sum", x, (0, 1)) * 0.25


def sums_of_columns(b, n):
    return b.sum(last(b, n, 40), (0,))


def moved(b, n):
    """The state before each step of three, whose first one is one for all."""
    h, first = b.input(tensor_type((3, n, 24), f32)), b.input(tensor_type((24,), f32))
    return b.pad(b.slice(h, (0, 0, 0), (2, n, 24), (1, 1, 1)), low=(1, 0, 0), high=(0, 0, 0), value=0.0) + first


def slope_of_the_last(b, n):
    """A gradient that is zero but for the last step."""
    g = b.input(tensor_type((1, n, 24), f32))
    return b.pad(g, low=(6, 0, 0), high=(0, 0, 0), value=0.0)


def joined(b, n):
    x, y = b.input(tensor_type((1, n, 24), f32)), b.input(tensor_type((4, n, 24), f32))
    return b.exp(b.concat([x, y, x * 2.0], 0))


def padded_on_both_sides(b, n):
    """… one element of which is told too, since it is as many as an example has."""
    return b.pad(b.input(tensor_type((n, 40), f32)), low=(1, 0), high=(2, 0), value=1.0)


def steps_first(b, n):
    """Rows in another order."""
    return b.transpose(b.input(tensor_type((n, 7, 8), f32)), (1, 0, 2)) * 2.0


def neighbouring_steps(b, n):
    """Two places in one array."""
    x = b.input(tensor_type((3, n, 64), f32))
    before, after = (b.reshape(b.slice(x, (k, 0, 0), (k + 1, n, 64), (1, 1, 1)), (n, 64)) for k in (1, 2))
    return b.tanh(after) - before * 2.0


def added_to_the_last(b, n):
    """A product whose epilogue adds what only the last step has."""
    x, w, g = (b.input(tensor_type(s, f32)) for s in ((5 * n, 12), (12, 20), (n, 20)))
    return b.dot(x, w) + b.pad(g, low=(4 * n, 0), high=(0, 0), value=0.0)


SLICED = [busy_map, softmax_of_rows, turned_map, short_rows, disjoint_windows, sums_of_columns]
MOVED = [added_to_the_last, moved, slope_of_the_last, joined, padded_on_both_sides, neighbouring_steps]


def test_a_parameter_is_of_one_number_and_one_use():
    """Equal numbers of several uses are several parameters: whether they are equal depends on the batch."""
    numbers = RuntimeArgs()
    names = [
        numbers.named("depth", 96),
        numbers.by_value("start", 96),
        numbers.by_value("start", 480),
        numbers.by_value("extent", 96),
        numbers.by_value("extent", 7),
    ]
    assert len(set(names)) == 5 and list(numbers.values.values()) == [96, 96, 480, 96, 7]
    assert [numbers.by_value("start", 480), numbers.by_value("extent", 96)] == names[2:4]
    assert len(numbers.values) == 5


@pytest.mark.parametrize("make", [*SLICED, *MOVED, steps_first], ids=lambda f: f.__name__)
def test_where_a_part_begins_is_in_no_text(make, compiler):
    assert len(texts_and_values(make, (16, 17, 40), CPU, cpu_backend().load)) == 1


@pytest.mark.parametrize("make", INNER, ids=lambda f: f.__name__)
def test_how_long_an_inner_axis_is_is_in_no_text(make, compiler):
    assert len(texts_and_values(make, (6, 7, 9, 35), CPU, cpu_backend().load)) == 1


@pytest.mark.no_host_code
@pytest.mark.parametrize("make", [*SLICED, *MOVED], ids=lambda f: f.__name__)
def test_where_a_part_begins_is_in_no_text_for_a_gpu(make, cuda_driver):
    backend = CudaBackend(cuda_driver, np, lambda a: int(a.__array_interface__["data"][0]))
    sizes = (4, 5) if make in (busy_map, softmax_of_rows, turned_map, short_rows, disjoint_windows) else (16, 17, 20)
    assert len(texts_and_values(make, sizes, CUDA, backend.load)) == 1
