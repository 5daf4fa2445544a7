# SPDX-License-Identifier: Apache-2.0
"""Convolutions whose bias, relu and array cuDNN computes in the same call; where it refuses, two steps."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from cudnn_on_cpu.cases import AFFINE, FORMS, FORWARD, FUSED, VARIANTS, Fused, misaligned

from hybridgpu.backends.cuda.cudnn import CudnnError
from hybridgpu.core.dtypes import bf16, f16, f32, f64


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
