# SPDX-License-Identifier: Apache-2.0
"""Convolutions in every form, with what they are in float64."""

from __future__ import annotations

import numpy as np

from hybridgpu.backends.library import LibraryRequest
from hybridgpu.compiler.ir import tensor_type
from hybridgpu.compiler.primitives import TABLE
from hybridgpu.core.dtypes import f32, f64

CONV, AFFINE = TABLE["conv"], TABLE["conv_bias_act"]
#: relative to the sum of the magnitudes of all products
BOUND = {"f16": 6e-4, "bf16": 5e-3, "f32": 2e-7, "f64": 4e-15}

TINY = 3e-8  #: half the distance of subnormal halves


CONV, AFFINE = TABLE["conv"], TABLE["conv_bias_act"]
#: relative to the sum of the magnitudes of all products
BOUND = {"f16": 6e-4, "bf16": 5e-3, "f32": 2e-7, "f64": 4e-15}

TINY = 3e-8  #: half the distance of subnormal halves


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

    def prepare(self, library, operator="conv0", tf32=False):
        return library.prepare(LibraryRequest("conv", self.types, self.params, self.out, operator, tf32=tf32))

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


FORWARD = ((2, 3, 7, 8), (4, 3, 3, 3), {"low": 1, "high": 1})
BACKWARD = FORMS["transposed"][0]


def case_of(row, dtype=f32):
    x, w, params = row
    return Case(x, w, dtype, **params)


def misaligned(a):
    raw = np.empty(a.nbytes + 20, np.uint8)
    skip = (-raw.ctypes.data) % 16 + 4
    moved = raw[skip : skip + a.nbytes].view(a.dtype).reshape(a.shape)
    moved[...] = a
    return moved


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
        return library.prepare(LibraryRequest("conv_bias_act", self.types, self.params, self.out, operator))


FUSED = [k for k, (_, function, _) in FORMS.items() if function == "Forward"]
VARIANTS = {
    "bias": ({}, "bias in its call"),
    "bias, relu": ({"relu": True}, "bias and relu in its call"),
    "bias, array": ({"array": True}, "bias and array in its call"),
    "all": ({"array": True, "relu": True}, "bias, array and relu in its call"),
}
