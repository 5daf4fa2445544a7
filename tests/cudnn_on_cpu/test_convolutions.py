# SPDX-License-Identifier: Apache-2.0
"""Convolutions by cuDNN's stand-in: every form against the reference, choices, caching, errors, threads."""

from __future__ import annotations

import gc
import threading
from math import gcd, prod

import numpy as np
import pytest
from cudnn_on_cpu.cases import BACKWARD, CONV, FORMS, FORWARD, Case, arguments, case_of, misaligned
from emulated import aligned
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hybridgpu.backends.cuda import cudnn_conv
from hybridgpu.backends.cuda.cudnn import CudnnError
from hybridgpu.backends.library import LibraryRequest, ResultSlice, Unsupported
from hybridgpu.base import MXNetError
from hybridgpu.compiler.ir import tensor_type
from hybridgpu.core.dtypes import bf16, f16, f32, f64, i32


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
    found = library.prepare(LibraryRequest("conv", types, params, CONV.infer(types, params), "conv0"))
    assert found == Unsupported(f"unfolding + cuBLAS ({reason})")
    assert found([], None) is False


def test_half_products_are_left_to_cudnn(library):
    """cuBLAS is given widened halves, so a matrix product of halves is not better there."""
    case = Case((4, 3, 5, 5), (6, 3, 5, 5), f16)
    out = case.result()
    assert case.prepare(library)(case.operands, out)
    case.check(out)


def test_other_primitives_are_not_cudnns(fake, library):
    t = tensor_type((2, 3), f32)
    assert library.prepare(LibraryRequest("dot", [t, t], {}, t, "dot0")) is None
    assert fake.finds == 0  # not even looked for


def test_other_types(library):
    t = tensor_type((1, 1, 4, 4), i32)
    assert library.prepare(LibraryRequest("conv", [t, t], {}, t, "conv0")) == Unsupported(
        "unfolding + cuBLAS (cuDNN has no i32)"
    )


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
    if isinstance(prepared, Unsupported):
        dilated = max(case.params["base_dilate"]) > 1
        assert dilated or "one position" in prepared.note
        return
    assert prepared(case.operands, out)
    case.check(out)


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


@pytest.mark.parametrize("row", [FORWARD, BACKWARD, FORMS["weight"][0]], ids=["forward", "data", "filter"])
def test_operands_anywhere_in_memory(library, row):
    case = case_of(row)
    prepared = case.prepare(library)
    for form in (misaligned, np.asfortranarray, lambda a: np.repeat(a, 2, -1)[..., ::2]):
        out = misaligned(case.result())
        assert prepared([form(a) for a in case.operands], out)
        case.check(out)


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


@pytest.mark.parametrize("channels", [0, 1, 16])
@pytest.mark.parametrize("name", FORMS)
def test_parts_of_joins(library, name, channels):
    """Behind other channels; where a part begins at no multiple of 16 bytes, or is a weight's derivative, it is copied."""
    (x, w, params), *_ = FORMS[name]
    case = Case(x, w, f32, **params)
    (n, o, *size), others = case.out.shape, channels + 5
    shape = (n, o + others, *size)
    whole = aligned(shape, np.float32)
    whole[...] = 7
    start = 4 * channels * prod(size)
    part = ResultSlice(tuple(prod(shape[k + 1 :]) for k in range(len(shape))), gcd(start, 16))
    prepared = library.prepare(LibraryRequest("conv", case.types, case.params, case.out, "conv0", part))
    out = whole[:, channels : channels + o]
    assert prepared([*case.operands], out) is True
    case.check(out)
    assert start % 16 == 0 or prepared.note.endswith(", copied then")
    assert (whole[:, :channels] == 7).all() and (whole[:, channels + o :] == 7).all()
