# SPDX-License-Identifier: Apache-2.0
"""Convolutions by cuDNN's stand-in: every form against the reference, choices, caching, errors, threads."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest
from cudnn_on_cpu.support import Fake, Memory
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hybridgpu.backends.cuda import cudnn_conv
from hybridgpu.backends.cuda.cudnn import CudnnError
from hybridgpu.backends.cuda.cudnn_conv import ConvolutionLibrary
from hybridgpu.backends.library import Declined
from hybridgpu.base import MXNetError
from hybridgpu.compiler.ir import tensor_type
from hybridgpu.compiler.primitives import TABLE
from hybridgpu.dtypes import bf16, f16, f32, f64, i32

CONV, AFFINE = TABLE["conv"], TABLE["affine_conv"]
#: relative to the sum of the magnitudes of all products
BOUND = {"f16": 6e-4, "bf16": 5e-3, "f32": 2e-7, "f64": 4e-15}

TINY = 3e-8  #: half the distance of subnormal halves


@pytest.fixture
def fake(tmp_path):
    return Fake(tmp_path)


@pytest.fixture
def place():
    return Memory()


@pytest.fixture
def library(fake, place):
    return ConvolutionLibrary(place, fake.find)


def arguments(rank, **given):
    """The primitive's parameters; a number counts for every axis."""
    params = {"stride": 1, "low": 0, "high": 0, "dilate": 1, "base_dilate": 1, "groups": 1, **given}
    return {k: v if k == "groups" or isinstance(v, tuple) else (v,) * rank for k, v in params.items()}


class Case:
    """A convolution with its operands and the result in float64."""

    def __init__(self, x, w, dtype=f32, **params):
        rng = np.random.default_rng(len(x) * 100 + sum(x) + 7 * sum(w))
        self.params = arguments(len(x) - 2, **params)
        self.types = [tensor_type(x, dtype), tensor_type(w, dtype)]
        self.out = CONV.infer(self.types, self.params)
        self.operands = [rng.normal(size=t.shape).astype(dtype.np) for t in self.types]
        exact = [a.astype(np.float64) for a in self.operands]
        wide = [tensor_type(t.shape, f64) for t in (*self.types, self.out)]
        self.want = CONV.evaluate(np, exact, self.params, wide[2])
        self.scale = CONV.evaluate(np, [np.abs(a) for a in exact], self.params, wide[2])

    def prepare(self, library, operator="conv0"):
        return library.prepare("conv", self.types, self.params, self.out, operator)

    def result(self):
        """Memory that holds NaN."""
        return np.full(self.out.shape, np.nan, self.out.dtype.np)

    def check(self, got):
        assert got.dtype == self.out.dtype.np
        wrong = np.abs(got.astype(np.float64) - self.want)
        assert (wrong <= BOUND[self.out.dtype.short] * self.scale + TINY).all(), wrong.max()


#: what is computed -> which of cuDNN's functions, whether the operand is padded in memory first
FORMS = {
    "plain": (((2, 3, 7, 8), (4, 3, 3, 3), {}), "Forward", False),
    "one axis": (((2, 3, 9), (4, 3, 3), {"low": 1, "high": 1}), "Forward", False),
    "three axes": (((1, 2, 4, 5, 6), (3, 2, 2, 3, 3), {"low": (0, 1, 1), "high": (0, 1, 1)}), "Forward", False),
    "pad, stride, dilation": (
        ((2, 3, 11, 9), (4, 3, 3, 2), {"low": (2, 1), "high": (2, 1), "stride": (2, 3), "dilate": (2, 1)}),
        "Forward",
        False,
    ),
    "groups": (((2, 6, 5, 5), (4, 3, 3, 3), {"groups": 2, "low": 1, "high": 1}), "Forward", False),
    "a channel a group": (((2, 4, 6, 6), (8, 1, 3, 3), {"groups": 4}), "Forward", False),
    "pixels": (((2, 5, 4, 4), (3, 5, 1, 1), {}), "Forward", False),
    "a stride that leaves the end out": (((1, 2, 8, 8), (3, 2, 3, 3), {"stride": 2, "low": 1, "high": 0}), "Forward", False),
    "more zeros behind": (((1, 2, 8, 8), (3, 2, 3, 3), {"low": 0, "high": 1}), "Forward", True),
    "more zeros before": (((1, 2, 8, 7), (3, 2, 3, 3), {"low": (2, 0), "high": (0, 0)}), "Forward", True),
    "cut off": (((1, 2, 8, 8), (3, 2, 3, 3), {"low": -1, "high": -2}), "Forward", True),
    "cut off and padded": (((1, 2, 8, 8), (3, 2, 3, 3), {"low": (-1, 2), "high": (1, 2)}), "Forward", True),
    "transposed": (((2, 3, 4, 5), (2, 3, 3, 3), {"base_dilate": 2, "low": 1, "high": 1}), "BackwardData", False),
    "transposed, one axis": (((2, 3, 6), (2, 3, 4), {"base_dilate": 3, "low": 2, "high": 3}), "BackwardData", False),
    "transposed, three axes": (
        ((1, 2, 2, 3, 3), (2, 2, 2, 3, 3), {"base_dilate": (1, 2, 2), "low": (1, 2, 1), "high": (1, 2, 2)}),
        "BackwardData",
        False,
    ),
    "transposed, groups": (
        ((2, 6, 4, 4), (4, 3, 3, 3), {"base_dilate": (2, 3), "low": 2, "high": (2, 4), "groups": 2}),
        "BackwardData",
        False,
    ),
    "transposed, dilation": (
        ((1, 2, 4, 4), (3, 2, 3, 2), {"base_dilate": 2, "dilate": (2, 3), "low": (4, 2), "high": (4, 3)}),
        "BackwardData",
        False,
    ),
    "weight": (((3, 2, 9, 9), (4, 2, 8, 7), {"low": 1, "high": 1}), "BackwardFilter", False),
    "weight, one axis": (((3, 2, 9), (4, 2, 8), {"low": 1, "high": 1}), "BackwardFilter", False),
    "weight, strides": (((3, 2, 9, 9), (4, 2, 4, 4), {"dilate": 2, "low": 1, "high": 1, "stride": 2}), "BackwardFilter", False),
    "weight, groups": (((3, 6, 7, 7), (4, 3, 5, 6), {"groups": 2}), "BackwardFilter", False),
    "weight, uneven": (((3, 2, 7, 7), (4, 2, 6, 7), {"low": (1, 0), "high": (0, 2)}), "BackwardFilter", True),
    "weight, three axes": (((2, 1, 4, 5, 5), (2, 1, 3, 4, 4), {}), "BackwardFilter", False),
    "weight of a transposed": (
        ((3, 2, 4, 4), (2, 2, 7, 7), {"base_dilate": 2, "low": 1, "high": 1}),
        "BackwardFilter",
        False,
    ),
    "weight of a transposed, groups": (
        ((3, 4, 3, 4), (6, 2, 9, 8), {"base_dilate": (3, 2), "groups": 2, "low": (2, 1), "high": (2, 2), "stride": (1, 1)}),
        "BackwardFilter",
        False,
    ),
    "weight of a transposed, strides": (
        ((2, 3, 4, 4), (2, 3, 7, 7), {"base_dilate": 2, "stride": 2, "low": 1, "high": 3}),
        "BackwardFilter",
        None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [f16, bf16, f32, f64], ids=lambda d: d.short)
@pytest.mark.parametrize("name", FORMS)
def test_forms(fake, library, name, dtype):
    (x, w, params), function, copies = FORMS[name]
    case = Case(x, w, dtype, **params)
    prepared, out = case.prepare(library), case.result()
    assert prepared(case.operands, out) is True
    case.check(out)
    assert fake.runs == {function: 1}
    assert copies is None or ("padded first" in prepared.note) is copies
    assert prepared.note.startswith("cuDNN 9.12.3: ")


#: left to unfolding, for a reason
LEFT = {
    "four axes": (((1, 2, 3, 3, 3, 3), (2, 2, 2, 2, 2, 2), {}), "more than three spatial axes"),
    "no samples": (((0, 2, 5, 5), (2, 2, 3, 3), {}), "nothing to compute"),
    "a matrix product": (((4, 3, 5, 5), (6, 3, 5, 5), {}), "one position: a matrix product"),
    "both steps": (((1, 2, 6, 6), (2, 2, 2, 2), {"base_dilate": 2, "stride": 2}), "a stride and a dilated operand together"),
    "ends": (((1, 2, 4, 4), (2, 2, 3, 3), {"base_dilate": 2, "low": 4, "high": 4}), "padding that no transposed convolution has"),
    "many elements": (((1 << 20, 64, 64, 64), (1, 64, 1, 1), {}), "more than 2^31 elements"),
}  # fmt: skip


@pytest.mark.parametrize("name", LEFT)
def test_left_to_unfolding(library, name):
    (x, w, params), reason = LEFT[name]
    params = arguments(len(x) - 2, **params)
    types = [tensor_type(s, f32) for s in (x, w)]
    found = library.prepare("conv", types, params, CONV.infer(types, params), "conv0")
    assert found == Declined(f"unfolding + cuBLAS ({reason})")
    assert found([], None) is False


def test_half_products_are_left_to_cudnn(library):
    """cuBLAS is given widened halves, so a matrix product of halves is not better there."""
    case = Case((4, 3, 5, 5), (6, 3, 5, 5), f16)
    out = case.result()
    assert case.prepare(library)(case.operands, out)
    case.check(out)


def test_other_primitives_are_not_cudnns(fake, library):
    t = tensor_type((2, 3), f32)
    assert library.prepare("dot", [t, t], {}, t, "dot0") is None
    assert fake.finds == 0  # not even looked for


def test_other_types(library):
    t = tensor_type((1, 1, 4, 4), i32)
    assert library.prepare("conv", [t, t], {}, t, "conv0") == Declined("unfolding + cuBLAS (cuDNN has no i32)")


@st.composite
def convolutions(draw):
    rank, groups = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    x = [draw(st.integers(1, 3)), groups * draw(st.integers(1, 2))]
    w = [groups * draw(st.integers(1, 2)), x[1] // groups]
    params = {k: [] for k in ("stride", "low", "high", "dilate", "base_dilate")}
    for _ in range(rank):
        d, k, stride, dilate, base = (draw(st.integers(1, most)) for most in (6, 5, 3, 3, 3))
        span, reach = (d - 1) * base + 1, (k - 1) * dilate + 1
        low, high = draw(st.integers(-1, 4)), draw(st.integers(-1, 4))
        high = max(high, reach - span - low)
        x.append(d)
        w.append(k)
        for name, value in zip(params, (stride, low, high, dilate, base)):
            params[name].append(value)
    return tuple(x), tuple(w), {"groups": groups, **{k: tuple(v) for k, v in params.items()}}


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(convolutions())
def test_any_convolution(library, drawn):
    x, w, params = drawn
    case = Case(x, w, f64, **params)
    prepared, out = case.prepare(library), case.result()
    if isinstance(prepared, Declined):
        dilated = max(case.params["base_dilate"]) > 1
        assert dilated or "one position" in prepared.note
        return
    assert prepared(case.operands, out)
    case.check(out)


FORWARD = ((2, 3, 7, 8), (4, 3, 3, 3), {"low": 1, "high": 1})
BACKWARD = FORMS["transposed"][0]


def case_of(row, dtype=f32):
    x, w, params = row
    return Case(x, w, dtype, **params)


def test_everything_is_prepared_once(fake, library, place):
    case = case_of(FORWARD)
    prepared = case.prepare(library)
    asked = {
        name: fake.count(name)
        for name in (
            "cudnnCreate",
            "cudnnCreateTensorDescriptor",
            "cudnnCreateFilterDescriptor",
            "cudnnCreateConvolutionDescriptor",
            "cudnnGetConvolutionForwardAlgorithm_v7",
            "cudnnGetConvolutionForwardWorkspaceSize",
        )
    }
    assert asked["cudnnCreate"] == asked["cudnnGetConvolutionForwardAlgorithm_v7"] == 1
    for k in range(4):
        place.current_stream = 64 * k
        out = case.result()
        assert prepared(case.operands, out)
        case.check(out)
        assert fake.stream == 64 * k  # the current one, every time
    assert asked == {name: fake.count(name) for name in asked}
    assert fake.runs == {"Forward": 4} and fake.finds == 1 and place.entered == 0
    case_of(BACKWARD).prepare(library)
    assert fake.count("cudnnCreate") == 1  # one handle a device


def test_descriptors_go_with_their_convolution(fake, library):
    prepared = [case_of(FORWARD).prepare(library) for _ in range(3)]
    assert fake.descriptors == 12
    del prepared
    gc.collect()
    assert fake.descriptors == 0


@pytest.mark.parametrize(
    ("dtype", "plants", "algorithm", "note"),
    [
        # skipped: one that fails, Winograd, one that would multiply float32 as TF32
        (f32, {}, 1, "cuDNN 9.12.3: forward, implicit GEMM with precomputed indices"),
        (f32, {"Forward refuses": 2}, 0, "cuDNN 9.12.3: forward, implicit GEMM"),
        (f32, {"Forward refuses to run": 2}, 0, "cuDNN 9.12.3: forward, implicit GEMM"),
        (f16, {}, 1, "cuDNN 9.12.3: forward, implicit GEMM with precomputed indices"),
        (f32, {"Forward only": 7}, None, "unfolding + cuBLAS (cuDNN 9.12.3 has no algorithm for it)"),
        (f32, {"Forward only": 3}, None, "unfolding + cuBLAS (cuDNN 9.12.3 has no algorithm for it)"),
        (f32, {"Forward only": 2, "Forward refuses": 2}, None, "unfolding + cuBLAS (cuDNN 9.12.3 has no algorithm for it)"),
        (f32, {"Forward only": 2, "Forward refuses to run": 2}, None, "unfolding + cuBLAS (cuDNN 9.12.3 has no algorithm for it)"),
        (f32, {"cudnnGetConvolutionForwardAlgorithm_v7": 3000}, None, "unfolding + cuBLAS (cuDNN 9.12.3 has no algorithm for it)"),
    ],
)  # fmt: skip
def test_the_algorithm(fake, library, dtype, plants, algorithm, note):
    for name, value in plants.items():
        fake.plant(name, value)
    case = case_of(FORWARD, dtype)
    prepared, out = case.prepare(library), case.result()
    assert prepared(case.operands, out) is (algorithm is not None)
    assert prepared.note == note
    if algorithm is None:
        assert np.isnan(out.astype(np.float32)).all()
    else:
        assert fake.algorithm == algorithm
        case.check(out)


@pytest.mark.parametrize(("row", "algorithm"), [(BACKWARD, 1), (FORMS["weight"][0], 1)])
def test_gradients_add_in_a_fixed_order(fake, library, row, algorithm):
    case = case_of(row)
    assert case.prepare(library)(case.operands, case.result())
    assert fake.algorithm == algorithm


def test_large_workspaces_are_left_alone(fake, library, monkeypatch):
    monkeypatch.setattr(cudnn_conv, "WORKSPACE", 10)  # algorithm 1 needs more, algorithm 0 nothing
    case = case_of(FORWARD)
    out = case.result()
    assert case.prepare(library)(case.operands, out) and fake.algorithm == 0
    case.check(out)


@pytest.mark.parametrize(
    ("function", "status", "words"),
    [
        ("cudnnCreate", 1001, "CUDNN_STATUS_NOT_INITIALIZED (planted)"),
        ("cudnnCreateFilterDescriptor", 2000, "CUDNN_STATUS_BAD_PARAM (planted)"),
        ("cudnnSetTensorNdDescriptor", 2000, "CUDNN_STATUS_BAD_PARAM (planted)"),
        ("cudnnSetConvolutionGroupCount", 2000, "CUDNN_STATUS_BAD_PARAM (planted)"),
        ("cudnnSetStream", 2000, "CUDNN_STATUS_BAD_PARAM (planted)"),
        ("cudnnGetConvolutionForwardAlgorithm_v7", 2000, "CUDNN_STATUS_BAD_PARAM (planted)"),
        ("cudnnGetConvolutionForwardWorkspaceSize", 2000, "CUDNN_STATUS_BAD_PARAM (planted)"),
        ("cudnnConvolutionForward", 5000, "CUDNN_STATUS_EXECUTION_FAILED (planted)"),
    ],
)
def test_failures_are_errors(fake, library, function, status, words):
    fake.plant(function, status)
    case = case_of(FORWARD)
    with pytest.raises(CudnnError) as raised:
        case.prepare(library, "stage1_conv2")(case.operands, case.result())
    e = raised.value
    assert isinstance(e, MXNetError) and (e.function, e.status, e.unsupported) == (function, status, False)
    assert str(e).startswith(f"Error in operator stage1_conv2: {function} of cuDNN 9.12.3 failed: {words}\n")
    assert "HYBRIDGPU_CUDNN=0" in str(e)
    fake.plant(function, 0)
    out = case.result()
    assert case.prepare(library)(case.operands, out)  # nothing is left broken
    case.check(out)


def misaligned(a):
    raw = np.empty(a.nbytes + 20, np.uint8)
    skip = (-raw.ctypes.data) % 16 + 4
    moved = raw[skip : skip + a.nbytes].view(a.dtype).reshape(a.shape)
    moved[...] = a
    return moved


@pytest.mark.parametrize("row", [FORWARD, BACKWARD, FORMS["weight"][0]], ids=["forward", "data", "filter"])
def test_operands_anywhere_in_memory(library, row):
    case = case_of(row)
    prepared = case.prepare(library)
    for form in (misaligned, np.asfortranarray, lambda a: np.repeat(a, 2, -1)[..., ::2]):
        out = misaligned(case.result())
        assert prepared([form(a) for a in case.operands], out)
        case.check(out)


class Fused(Case):
    """A convolution with a bias, perhaps an array, and perhaps relu."""

    def __init__(self, row, dtype=f32, array=False, relu=False):
        x, w, params = row
        super().__init__(x, w, dtype, **params)
        self.params |= {"residual": array, "relu": relu}
        rng = np.random.default_rng(8)
        shapes = [self.out.shape[1:2], self.out.shape][: 1 + array]
        self.types += [tensor_type(s, dtype) for s in shapes]
        self.operands += [rng.normal(size=s).astype(dtype.np) for s in shapes]
        self.renew()

    def renew(self):
        """The result of the operands as they are now."""
        exact = [a.astype(np.float64) for a in self.operands]
        wide = tensor_type(self.out.shape, f64)
        plain = {k: v for k, v in self.params.items() if k not in ("residual", "relu")}
        bias = exact[2].reshape((-1, *(1,) * (self.out.ndim - 2)))
        self.want = CONV.evaluate(np, exact[:2], plain, wide) + bias + sum(exact[3:])
        self.scale = CONV.evaluate(np, [np.abs(a) for a in exact[:2]], plain, wide) + np.abs(bias) + abs(sum(exact[3:]))
        if self.params["relu"]:
            self.want = np.maximum(self.want, 0)

    def prepare(self, library, operator="conv0"):
        return library.prepare("affine_conv", self.types, self.params, self.out, operator)


FUSED = [k for k, (_, function, _) in FORMS.items() if function == "Forward"]
VARIANTS = {
    "bias": ({}, "bias in its call"),
    "bias, relu": ({"relu": True}, "bias and relu in its call"),
    "bias, array": ({"array": True}, "bias and array in its call"),
    "all": ({"array": True, "relu": True}, "bias, array and relu in its call"),
}


@pytest.mark.parametrize("dtype", [f16, bf16, f32, f64], ids=lambda d: d.short)
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", FUSED)
def test_what_follows_is_part_of_the_call(fake, library, name, variant, dtype):
    options, words = VARIANTS[variant]
    case = Fused(FORMS[name][0], dtype, **options)
    prepared, out = case.prepare(library), case.result()
    assert prepared(case.operands, out) is True
    case.check(out)
    assert fake.runs == {"BiasActivationForward": 1}
    assert prepared.note.startswith("cuDNN 9.12.3: forward, implicit GEMM with precomputed indices")
    assert prepared.note.endswith(f", {words}")


@pytest.mark.parametrize("dtype", [f16, bf16, f32, f64], ids=lambda d: d.short)
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("plant", ["Fused refuses to run", "cudnnConvolutionBiasActivationForward"])
def test_a_refused_call_is_two_steps_and_said(fake, library, plant, variant, dtype):
    """Of its algorithms none is left, or the function says that it does nothing of the kind."""
    options, words = VARIANTS[variant]
    if plant == "Fused refuses to run":
        fake.plant("Forward only", 2)
        fake.plant(plant, 2)
    else:
        fake.plant(plant, 3000)
    case = Fused(FORWARD, dtype, **options)
    prepared = case.prepare(library)
    assert prepared.note.endswith("in its call")
    asked = []
    for _ in range(2):
        out = case.result()
        assert prepared(case.operands, out) is True
        case.check(out)
        asked.append(fake.count("cudnnConvolutionBiasActivationForward"))
    assert fake.runs["Forward"] == 2 and 0 < asked[0] == asked[1]  # known since the first call
    follows = words.removesuffix(" in its call")
    assert prepared.note == (
        "cuDNN 9.12.3: forward, implicit GEMM with precomputed indices; "
        f"{follows} by the array module (cuDNN has no fused call for it)"
    )


@pytest.mark.parametrize(
    ("relu", "plants", "algorithm"),
    [
        (False, {}, 1),
        (True, {}, 1),
        (True, {"Fused refuses to run": 2}, 0),  # without relu no other may be asked for
        (True, {"Forward only": 1}, 0),
        (False, {"Forward only": 1}, None),
    ],
)
def test_the_algorithm_of_a_fused_call(fake, library, relu, plants, algorithm):
    for name, value in plants.items():
        fake.plant(name, value)
    case = Fused(FORWARD, relu=relu)
    out = case.result()
    assert case.prepare(library)(case.operands, out)
    case.check(out)
    fused = {"BiasActivationForward"} if algorithm is not None else {"Forward"}
    assert fused <= set(fake.runs) and fake.algorithm == (0 if algorithm is None else algorithm)


def test_no_algorithm_at_all(fake, library):
    fake.plant("Forward only", 7)
    case = Fused(FORWARD)
    prepared, out = case.prepare(library), case.result()
    assert prepared(case.operands, out) is False and np.isnan(out).all()
    assert prepared.note == "unfolding + cuBLAS (cuDNN 9.12.3 has no algorithm for it)"
    held = AFFINE.evaluate(np, case.operands, case.params, case.out)
    case.check(held)


def test_an_operand_that_is_added_itself(library):
    """cuDNN forbids it; programs do not ask for it, arguments of a net may be the same array all the same."""
    case = Fused(((2, 3, 6, 5), (3, 3, 3, 3), {"low": 1, "high": 1}), array=True)
    case.operands[3] = case.operands[0]
    case.renew()
    out = case.result()
    assert case.prepare(library)(case.operands, out)
    case.check(out)


def test_fused_operands_anywhere_in_memory(library):
    case = Fused(FORWARD, array=True)
    prepared = case.prepare(library)
    for form in (misaligned, np.asfortranarray, lambda a: np.repeat(a, 2, -1)[..., ::2]):
        out = misaligned(case.result())
        assert prepared([form(a) for a in case.operands], out)
        case.check(out)


def test_fused_descriptors_go_with_their_convolution(fake, library):
    prepared = [Fused(FORWARD).prepare(library) for _ in range(3)]
    assert fake.descriptors == 18
    del prepared
    gc.collect()
    assert fake.descriptors == 0


@pytest.mark.parametrize(
    ("function", "status"),
    [
        ("cudnnCreateActivationDescriptor", 2000),
        ("cudnnSetActivationDescriptor", 2000),
        ("cudnnConvolutionBiasActivationForward", 5000),
    ],
)
def test_failures_of_fused_calls_are_errors(fake, library, function, status):
    fake.plant(function, status)
    case = Fused(FORWARD)
    with pytest.raises(CudnnError, match=rf"^Error in operator stage1: {function} of cuDNN 9.12.3 failed") as raised:
        case.prepare(library, "stage1")(case.operands, case.result())
    assert (raised.value.function, raised.value.status) == (function, status)


def test_threads_take_turns(fake, library):
    """The stand-in refuses a handle that is in use."""
    case = case_of(FORWARD)
    prepared = [case.prepare(library), case.prepare(library)]
    fake.plant("slow", 5)
    problems = []

    def work(k):
        try:
            for _ in range(4):
                out = case.result()
                assert prepared[k % 2](case.operands, out)
                case.check(out)
        except BaseException as e:
            problems.append(e)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not problems
    assert fake.runs == {"Forward": 16}


def test_the_stand_in_refuses_what_cudnn_would(fake, library, place):
    """Otherwise the tests above would prove little."""
    from hybridgpu.backends.cuda.cudnn import Binding, Descriptor, ints

    prepared = case_of(FORWARD).prepare(library)
    binding = library.binding
    assert isinstance(binding, Binding)
    run = prepared._library.run
    query = "cudnnGetConvolutionForwardAlgorithm_v7"

    def asked():
        import ctypes

        from hybridgpu.backends.cuda.cudnn import Performance

        results, found = (Performance * 4)(), ctypes.c_int()
        run(binding, query, *prepared._descriptors, 4, ctypes.byref(found), results)

    asked()
    binding.call("cudnnSetConvolutionGroupCount", prepared._conv, 3)
    with pytest.raises(CudnnError, match="channels and group count"):
        asked()
    binding.call("cudnnSetConvolutionGroupCount", prepared._conv, 1)
    binding.call(
        "cudnnSetConvolutionNdDescriptor", prepared._conv, 2, ints((0, 0)), ints((1, 1)), ints((1, 1)), 1, 0
    )  # fmt: skip
    with pytest.raises(CudnnError, match="extents of the result"):
        asked()
    other = Descriptor(binding, "Tensor")
    binding.call("cudnnSetTensorNdDescriptor", other, 0, 4, ints((2, 3, 7, 8)), ints((1, 2, 6, 42)))
    prepared._descriptors = (other, *prepared._descriptors[1:])
    with pytest.raises(CudnnError, match="strides") as raised:
        asked()
    assert raised.value.unsupported


def test_the_stand_in_refuses_what_cudnns_fused_call_would(fake, library, place):
    import ctypes

    from hybridgpu.backends.cuda.cudnn import Descriptor, ints

    case = Fused(((2, 3, 6, 5), (3, 3, 3, 3), {"low": 1, "high": 1}), array=True)
    prepared, out = case.prepare(library), case.result()
    binding = library.binding
    x, w, conv, y = prepared._descriptors
    x_, w_, bias_, z_ = (place.address(a) for a in case.operands)
    one, work = ctypes.c_float(1), np.zeros(1000, np.uint8)

    def call(
        x_=x_, z_=z_, y_=place.address(out), z=y, bias=prepared._bias, activation=prepared._activation, algorithm=1
    ):
        a = ctypes.byref(one)
        library.run(
            binding, "cudnnConvolutionBiasActivationForward", a, x, x_, w, w_, conv, algorithm, work.ctypes.data, 1000,
            a, z, z_, bias, bias_, activation, y, y_,
        )  # fmt: skip

    def tensor(shape, strides):
        made = Descriptor(binding, "Tensor")
        binding.call("cudnnSetTensorNdDescriptor", made, 0, 4, ints(shape), ints(strides))
        return made

    def activation(mode, nan):
        made = Descriptor(binding, "Activation")
        binding.call("cudnnSetActivationDescriptor", made, mode, nan, 0.0)
        return made

    call()
    case.check(out)
    for unsupported, words, changed in (
        (True, "this activation", {"activation": activation(2, 0)}),
        (True, "keeps NaN", {"activation": activation(1, 1)}),
        (True, "no activation with this algorithm", {"algorithm": 0}),
        (True, "second stride of the bias", {"bias": tensor((1, 3, 1, 1), (6, 2, 1, 1))}),
        (True, "not like the result", {"z": tensor((2, 3, 6, 5), (90, 1, 15, 3))}),
        (False, "the bias", {"bias": tensor((1, 2, 1, 1), (2, 1, 1, 1))}),
        (False, "the operand overlaps", {"z_": x_}),
        (False, "the operand overlaps", {"y_": x_ + 16}),
        (False, "in part", {"z_": place.address(out) + 16}),
    ):
        with pytest.raises(CudnnError, match=words) as raised:
            call(**changed)
        assert raised.value.unsupported is unsupported
    prepared._activation.__del__(lambda: False)
    with pytest.raises(CudnnError, match="destroyed"):
        call()
    prepared._activation._made.value = None  # it is gone
