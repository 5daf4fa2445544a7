# SPDX-License-Identifier: Apache-2.0
"""Matrix products of GPUs: every form that the model weighs, executed as written, against float64; and what it chooses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from compiler.cases import parse
from cuda_on_cpu.static_checks import compile_report, has_nvrtc
from emulated import aligned
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hybridgpu.backends.cuda.backend import CudaBackend
from hybridgpu.backends.cuda.driver import module_source
from hybridgpu.backends.cuda.nvrtc import NUMERIC
from hybridgpu.cache.package_files import kernels_folder
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.program import KernelStep
from hybridgpu.compiler.schedule.matmul import config_cuda
from hybridgpu.compiler.size_buckets import length_bucket
from hybridgpu.compiler.target import CUDA
from hybridgpu.core.dtypes import f32, from_short

pytestmark = pytest.mark.no_host_code

EPSILON = {"f16": 2.0**-10, "bf16": 2.0**-7, "f32": 2.0**-23, "f64": 2.0**-52}


def graph(dtype, batch, m, k, n, left="mk", right="kn"):
    """max(x . w + c, -1) of operands stored in that order of axes; ``right`` may be a part of a wider matrix."""
    b = builder()
    extents = {"m": m, "k": k, "n": n, "N": n + 3}
    front = (batch,) if batch else ()

    def operand(order, wanted, name):
        x = b.input(parse(f"{dtype}[{','.join(str(d) for d in (*front, *(extents[a] for a in order)))}]"), name)
        if "N" in order:
            at = len(front) + order.index("N")
            shape = list(x.shape)
            shape[at] = n
            start = [0] * x.ndim
            start[at] = 3
            x = b.slice(x, start, [s + d for s, d in zip(start, shape, strict=True)], [1] * x.ndim)
            order = order.replace("N", "n")
        if order != wanted:
            axes = list(range(x.ndim))
            axes[-1], axes[-2] = axes[-2], axes[-1]
            x = b.transpose(x, axes)
        return x

    x, w = operand(left, "mk", "x"), operand(right, "kn", "w")
    y = b.dot(x, w)
    c = b.input(parse(f"{dtype}[{n}]"), "c")
    y = y + b.broadcast(b.reshape(c, (1,) * (y.ndim - 1) + (n,)), y.shape)
    return b.finish([b.max(y, -1 if y.dtype.kind == "i" else -1.0)], "product")


def values(made, seed=1):
    rng = np.random.default_rng(seed)
    out = []
    for node in made.inputs:
        a = rng.standard_normal(node.shape) if node.dtype.is_float else rng.integers(-9, 9, node.shape)
        x = aligned(node.shape, node.dtype.np)
        x[...] = a.astype(node.dtype.np)
        out.append(x)
    return out


def exact(inputs, left, right, dtype):
    """The result and the sum of the magnitudes of its terms, in float64."""
    x, w, c = (a.astype(np.float64 if from_short(dtype).is_float else np.int64) for a in inputs)
    x = x if left == "mk" else x.swapaxes(-1, -2)
    at = right.find("N")
    if at >= 0:
        w = w[..., 3:] if at == 1 else w[..., 3:, :]
    w = w if right in ("kn", "kN") else w.swapaxes(-1, -2)
    with np.errstate(invalid="ignore"):
        sums = x @ w + c
        if not from_short(dtype).is_float:
            sums = sums.astype(from_short(dtype).np)  # wraps around
        return np.maximum(sums, -1), np.abs(x) @ np.abs(w) + np.abs(c) + 1


def run(driver, made, inputs, exact_traffic=True):
    program = compile_graph(made, CUDA)
    (kernel,) = program.kernels
    assert kernel.kind == "matmul"
    ((shape, short),) = program.outputs
    out = aligned(shape, from_short(short).np)
    loaded = CudaBackend(driver, np, lambda a: int(a.__array_interface__["data"][0])).load(program)
    before = len(driver.launches)
    loaded(inputs, [out])
    (step,) = (s for s in program.steps if isinstance(s, KernelStep))
    (launch,) = driver.launches[before:]
    assert launch.written == step.bytes_written
    assert launch.read == step.bytes_read if exact_traffic else launch.read <= step.bytes_read
    return out, kernel


def check(got, inputs, left, right, dtype, k):
    want, terms = exact(inputs, left, right, dtype)
    if not from_short(dtype).is_float:
        np.testing.assert_array_equal(got, want)
        return
    summed = EPSILON["f64" if dtype == "f64" else "f32"]
    bound = 2 * summed * np.sqrt(k + 4) * terms + EPSILON[dtype] * np.abs(want)
    wrong = np.abs(got.astype(np.float64) - want)
    assert got.shape == want.shape and (wrong <= bound).all(), (wrong / bound).max()


def forms(made):
    (dot,) = (n for n in made.nodes if n.prim.name == "dot")
    return list(config_cuda.candidate_configs(CUDA, config_cuda.dot_shape(dot)))


#: (dtype, batch, m, k, n, order of the left operand's axes, of the right one's)
PRODUCTS = [
    ("f32", 0, 1, 512, 40, "mk", "nk"),
    ("f32", 0, 5, 264, 19, "mk", "nk"),
    ("f32", 0, 3, 48, 21, "mk", "nk"),
    ("f32", 0, 2, 70, 9, "km", "nk"),
    ("f32", 0, 3, 96, 44, "mk", "kn"),
    ("f32", 0, 16, 37, 30, "mk", "kn"),
    ("f32", 0, 7, 20, 33, "km", "kn"),
    ("f32", 0, 2, 24, 10, "mk", "kN"),
    ("f32", 0, 35, 150, 50, "mk", "kn"),
    ("f32", 0, 33, 67, 18, "mk", "nk"),
    ("f32", 0, 40, 136, 36, "km", "kn"),
    ("f32", 3, 2, 40, 12, "mk", "nk"),
    ("f32", 3, 20, 24, 20, "km", "nk"),
    ("f32", 1, 3, 24, 20, "mk", "nk"),
    ("f64", 0, 6, 70, 24, "mk", "nk"),
    ("f64", 0, 4, 33, 10, "mk", "kn"),
    ("f64", 2, 18, 40, 22, "mk", "kn"),
    ("f16", 0, 9, 128, 24, "mk", "nk"),
    ("f16", 0, 2, 64, 80, "mk", "kn"),
    ("f16", 0, 20, 40, 24, "mk", "kn"),
    ("bf16", 0, 4, 96, 33, "mk", "nk"),
    ("bf16", 0, 30, 64, 40, "mk", "nk"),
    ("i32", 0, 17, 9, 18, "mk", "kn"),
    ("i8", 0, 3, 64, 20, "mk", "nk"),
    ("i64", 0, 1, 5, 6, "mk", "kn"),
    ("f32", 0, 1, 1, 1, "mk", "kn"),
    ("f32", 0, 4, 1, 6, "mk", "kn"),
    ("f32", 0, 1, 300, 1, "mk", "kn"),
    ("f32", 0, 1, 300, 1, "mk", "kN"),
    ("f32", 0, 21, 150, 1, "mk", "kN"),
    ("f64", 0, 3, 70, 1, "km", "kN"),
    ("f16", 0, 6, 64, 1, "mk", "kN"),
]  # fmt: skip


@pytest.mark.parametrize("product", PRODUCTS, ids=lambda p: "-".join(map(str, p)))
def test_every_form(cuda_driver, monkeypatch, product):
    """Of each name the candidates that differ most: the cheapest, the dearest, and one in between."""
    dtype, *_, k, _, left, right = product
    made = graph(*product)
    inputs = values(made)
    found: dict[str, list] = {}
    for form in forms(made):
        found.setdefault(form.name, []).append(form)
    assert {"tiles", "axpy"} <= set(found)  # right operands this small serve any number of rows
    for several in found.values():
        ordered = sorted(several, key=lambda f: f.seconds)
        for form in {id(f): f for f in (ordered[0], ordered[len(ordered) // 2], ordered[-1])}.values():
            monkeypatch.setattr(config_cuda, "choose_config", lambda target, dot, form=form: form)
            monkeypatch.setattr(config_cuda, "library_seconds", lambda target, dot: 1.0)
            got, kernel = run(cuda_driver, made, inputs, "N" not in right)
            assert kernel.choice["form"] == form.name
            check(got, inputs, left, right, dtype, k)


@pytest.mark.parametrize("right", ["nk", "kn"])
@pytest.mark.parametrize(("m", "rows"), [(1, 1), (2, 2), (3, 4), (4, 4), (7, 8), (13, 16)])
def test_every_number_of_rows_of_a_patch(cuda_driver, monkeypatch, m, rows, right):
    """A right operand that is far away, as all are here, meets as many rows at once as there are, in steps of powers of two."""
    monkeypatch.setattr(config_cuda, "_SMALL_RIGHT_BYTES", 0)
    monkeypatch.setattr(config_cuda, "library_seconds", lambda target, dot: 1.0)
    made = graph("f32", 0, m, 68, 20, "mk", right)
    inputs = values(made)
    few = {f.name: f for f in forms(made) if f.name in ("dots", "axpy")}
    assert set(few) == ({"dots", "axpy"} if right == "nk" else {"axpy"})
    for form in few.values():
        assert form.rows == rows
        monkeypatch.setattr(config_cuda, "choose_config", lambda target, dot, form=form: form)
        check(run(cuda_driver, made, inputs)[0], inputs, "mk", right, "f32", 68)


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from(["f32", "f64", "f16", "bf16", "i32"]),
    st.sampled_from([0, 0, 2]),
    st.integers(1, 40),
    st.integers(1, 260),
    st.integers(1, 70),
    st.sampled_from(["mk", "km"]),
    st.sampled_from(["kn", "nk", "kN", "Nk"]),
)
def test_random_products(cuda_driver, dtype, batch, m, k, n, left, right):
    if batch and "N" in right:
        right = right.replace("N", "n")
    made = graph(dtype, batch, m, k, n, left, right)
    inputs = values(made, m + n)
    check(run(cuda_driver, made, inputs, "N" not in right)[0], inputs, left, right, dtype, k)


@pytest.mark.parametrize(("k", "n", "right"), [(300, 20, "nk"), (64, 24, "kn")])
def test_a_row_does_not_depend_on_its_place(cuda_driver, k, n, right):
    made = graph("f32", 0, 13, k, n, "mk", right)
    x, w, c = values(made)
    whole, kernel = run(cuda_driver, made, [x, w, c])
    turned = aligned(x.shape, x.dtype)
    turned[...] = x[::-1]
    again, _ = run(cuda_driver, made, [turned, w, c])
    np.testing.assert_array_equal(again[::-1], whole)
    for m in (1, 3, 11):
        fewer, same = run(cuda_driver, graph("f32", 0, m, k, n, "mk", right), [x[:m], w, c])
        assert (same.name == kernel.name) is (m > 1)  # the text does not depend on the number of rows
        np.testing.assert_array_equal(fewer, whole[:m])


@pytest.mark.parametrize("product", [("f32", 0, 5, 37, 19, "mk", "nk"), ("f32", 0, 18, 37, 19, "mk", "kn")])
def test_special_values_stay_in_their_rows(cuda_driver, monkeypatch, product):
    """Zeros that fill up a stage never meet an infinity."""
    made = graph(*product)
    x, w, c = values(made)
    x[3, 36], x[4, 0] = np.inf, np.nan
    w[(18, 36) if product[-1] == "nk" else (36, 18)] = w[0, 0] = -np.inf
    with np.errstate(invalid="ignore"):
        want, _ = exact([x, w, c], *product[-2:], "f32")
    for form in forms(made):
        monkeypatch.setattr(config_cuda, "choose_config", lambda target, dot, form=form: form)
        if form.name == "tiles" or form.layers == 1:
            got, _ = run(cuda_driver, made, [x, w, c])
            np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
            np.testing.assert_array_equal(np.isinf(got), np.isinf(want))


@pytest.mark.parametrize(
    ("product", "form"),
    [
        (("f32", 0, 1, 4096, 4096, "mk", "nk"), "dots"),
        (("f32", 0, 1, 4096, 4096, "mk", "kn"), "axpy"),
        (("f32", 0, 16, 4096, 4096, "mk", "nk"), "dots"),
        (("f16", 0, 1, 4096, 4096, "mk", "nk"), "dots"),
        (("bf16", 0, 4, 4096, 11008, "mk", "kn"), "axpy"),
        (("f32", 0, 64, 784, 256, "mk", "nk"), "dots"),
        (("f32", 0, 64, 256, 128, "mk", "kn"), "axpy"),
        (("f32", 4096, 4, 4, 4, "mk", "kn"), "product_element"),
        (("f32", 0, 1, 4096, 1, "mk", "kN"), "dots"),  # a column of a larger matrix: read where it lies
        (("f32", 0, 1024, 512, 1, "mk", "kN"), "dots"),
        (("f16", 0, 64, 4096, 1, "mk", "kN"), "dots"),
        (("i32", 0, 512, 1024, 1024, "mk", "kn"), "tiles"),
        (("f32", 0, 512, 1024, 1024, "mk", "nk"), None),
        (("f16", 0, 256, 4096, 4096, "mk", "nk"), None),
        (("f64", 0, 1024, 1024, 1024, "mk", "kn"), None),
    ],
)
def test_choice(product, form):
    """Thin products and small ones are kernels; large ones a library's."""
    program = compile_graph(graph(*product), CUDA)
    first = next(iter(program.steps))
    if form is None:
        assert not isinstance(first, KernelStep)
        return
    assert isinstance(first, KernelStep)
    choice = program.kernels[first.kernel].choice
    assert choice["form"] == form, choice
    assert choice["why"].endswith(" us") and choice["selected"]


@pytest.mark.parametrize("product", [("f32", 0, 1, 4096, 4096, "mk", "nk"), ("f16", 0, 2, 4096, 4096, "mk", "kn")])
def test_thin_products_read_16_bytes_at_once_in_enough_blocks(product):
    program = compile_graph(graph(*product), CUDA)
    (kernel,) = program.kernels
    size = from_short(product[0]).size
    assert kernel.choice["vectors"][1] * size == 16
    (step,) = program.steps
    assert step.extents[1] * kernel.launch["scale"] >= CUDA.gpu.multiprocessors * 3 // 4


@pytest.mark.parametrize(("k", "n"), [(64, 24), (784, 256), (4096, 1000)])
@pytest.mark.parametrize("right", ["nk", "kn"])
def test_one_kernel_serves_the_rows_between_two_powers_of_two(k, n, right):
    names: dict[int, set[str]] = {}
    for m in range(1, 40):
        program = compile_graph(graph("f32", 0, m, k, n, "mk", right), CUDA)
        if len(program.kernels) == 1 and isinstance(program.steps[0], KernelStep):
            names.setdefault((m - 1).bit_length(), set()).add(program.kernels[0].name)
    assert len(names) >= 4 and all(len(found) == 1 for found in names.values()), names
    if k * n * 4 <= 1 << 20:  # a right operand that is read again at no cost: one kernel for 2 rows and more
        assert len(set.union(*names.values())) == 2


@pytest.mark.parametrize(
    ("m", "n", "longest"),
    [(10, 128, 1024), (192, 64, 4096), (128, 256, 1024), (1024, 256, 1024), (1024, 1024, 256), (3072, 768, 64)],
)
def test_one_form_serves_sums_over_batches_of_many_sizes(m, n, longest):
    """It takes at most a twentieth longer than the best one for each size."""
    forms = set()
    for k in (16, 64, 96, 100, 256, 384, 1000, 1536, 4096, 6144):
        if 2 * k > 3 * longest:
            break
        dot = config_cuda.DotShape(f32, 1, m, length_bucket(k), n, (1, m), (n, 1), 1, 4, dynamic_k=True)
        form = config_cuda.choose_config(CUDA, dot)
        forms.add((form.name, form.arguments, form.threads))
        (mine,) = (
            f
            for f in config_cuda.candidate_configs(CUDA, replace(dot, k=k, max_k=longest))
            if f.arguments == form.arguments
        )
        assert mine.seconds <= 1.05 * min(f.seconds for f in config_cuda.candidate_configs(CUDA, replace(dot, k=k)))
    assert len(forms) == 1


@pytest.mark.parametrize(("dtype", "slower"), [("f32", False), ("i32", False), ("f64", True)])
def test_a_gpu_that_is_slow_in_double_precision_is_so_in_nothing_else(dtype, slower):
    """Few units for float64 (sm_86, 89, 120) are none for integers."""
    dot = config_cuda.DotShape(from_short(dtype), 1, 256, 2048, 256, (2048, 1), (256, 1), 16, 16)
    fast, slow = (
        min(f.seconds for f in config_cuda.candidate_configs(CUDA.changed(wide_lanes=n), dot)) for n in (64, 2)
    )
    assert (slow > 2 * fast) if slower else slow == fast


def test_positions_beyond_2_to_the_31():
    (kernel,) = compile_graph(graph("f16", 0, 1, 65536, 40000, "mk", "nk"), CUDA).kernels
    assert "typedef long long Index;" in kernel.text
    (kernel,) = compile_graph(graph("f16", 0, 1, 4096, 40000, "mk", "nk"), CUDA).kernels
    assert "typedef int Index;" in kernel.text


@pytest.mark.skipif(not has_nvrtc(), reason="NVRTC is not installed")
@pytest.mark.parametrize(
    ("arch", "numeric", "every"),
    [
        ("sm_90", "strict", 4),
        *(
            pytest.param(*row, marks=pytest.mark.architectures)
            for row in (("sm_75", "strict", 2), ("sm_90", "strict", 1), ("sm_120", "fast", 2))
        ),
    ],
)
def test_every_form_stays_in_registers(monkeypatch, arch, numeric, every):
    large = [
        ("f32", 0, 16, 4096, 512, "mk", "nk"),
        ("f32", 0, 16, 512, 4096, "mk", "kn"),
        ("f32", 0, 1, 4096, 4096, "mk", "nk"),
        ("f32", 0, 200, 200, 200, "km", "nk"),
        ("f64", 0, 16, 512, 512, "mk", "nk"),
        ("f64", 0, 16, 512, 512, "mk", "kn"),
        ("f16", 0, 16, 1024, 1024, "mk", "nk"),
        ("f16", 0, 8, 1024, 1024, "mk", "kn"),
        ("bf16", 0, 100, 96, 128, "mk", "nk"),
        ("i64", 0, 33, 65, 64, "mk", "kn"),
        ("f32", 1, 2, 24, 20, "mk", "nk"),
        ("f32", 5, 2, 24, 20, "mk", "nk"),
        ("f32", 0, 16, 512, 1, "mk", "kN"),
    ]
    texts = {}
    for product in large:
        made = graph(*product)
        for form in forms(made):
            monkeypatch.setattr(config_cuda, "choose_config", lambda target, dot, form=form: form)
            monkeypatch.setattr(config_cuda, "library_seconds", lambda target, dot: 1.0)
            (kernel,) = compile_graph(made, CUDA).kernels
            texts[kernel.name] = kernel
    options = ["-default-device", *NUMERIC[numeric]]
    some = list(texts.values())[::every]
    report = compile_report(module_source(some), arch, options, [kernels_folder()])
    assert "warning" not in report.log, report.log
    wrong = [
        f"{name}: {need.stack} bytes of stack, {need.spills} of spills, {need.registers} registers; {texts[name].choice}"
        for name, need in report.kernels.items()
        if need.stack or need.spills or need.registers * texts[name].launch["threads"] > 65536
    ]
    assert len(report.kernels) == len(some) and not wrong, "\n".join(wrong)
