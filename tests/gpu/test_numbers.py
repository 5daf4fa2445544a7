# SPDX-License-Identifier: Apache-2.0
"""Rounding on the device, in both numeric modes (docs/numbers.md)."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hybridgpu import nd
from hybridgpu.gluon import nn

ULP = 2.0**-23  #: of a number between 1 and 2, relative to it


def _exp(x):
    return (2 + 1.173 * np.abs(x)) * ULP  # what the CUDA C++ programming guide says of __expf


def _log(around_1, ulps):
    """Relative to log(x): an absolute error for x from 1/2 to 2, so many ulp elsewhere."""

    def bound(x):
        with np.errstate(divide="ignore"):
            return np.where((x >= 0.5) & (x <= 2), 2.0**around_1 / np.abs(np.log(x)), ulps * ULP)

    return bound


#: function of F -> reference, arguments from … to, largest relative errors: strict, fast as a function of x
FUNCTIONS = {
    "exp": (np.exp, -87.3, 88.3, 2 * ULP, _exp),
    "log": (np.log, 1e-37, 1e38, 2 * ULP, _log(-21.4, 4)),
    "log2": (np.log2, 1e-37, 1e38, 2 * ULP, _log(-21.5, 3)),
    "log10": (np.log10, 1e-37, 1e38, 4 * ULP, _log(-21.8, 5)),
    "tanh": (np.tanh, -12, 12, 3 * ULP, lambda x: 2.0**-18),
    "erf": (np.vectorize(math.erf), -5, 5, 3 * ULP, lambda x: 2.0**-18),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), -80, 80, 5 * ULP, lambda x: _exp(x) + 4 * ULP),
}


def arguments(gpu, low, high):
    rng = np.random.default_rng(0)
    count = 1 << 20 if gpu.real else 500
    spread = rng.uniform(low, high, count)
    if low > 0:
        spread = np.exp(rng.uniform(np.log(low), np.log(high), count))
    near = np.clip(1 + rng.normal(size=count) * 0.3, max(low, 0.01), high)
    return np.concatenate([spread, near, near * 1e-3 if low < 0 else near * 3]).astype(np.float32)


def run(gpu, numeric, function, *arrays):
    net = nn.HybridLambda(function)
    net.hybridize(numeric=numeric)
    return net(*(nd.array(a, ctx=gpu.ctx) for a in arrays)).asnumpy()


@pytest.mark.parametrize("numeric", ["strict", "fast"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name, numeric, gpu):
    reference, low, high, strict, fast = FUNCTIONS[name]
    x = arguments(gpu, low, high)
    want = reference(x.astype(np.float64))
    got = run(gpu, numeric, lambda F, x: getattr(F, name)(x), x)
    error = np.abs(got - want)
    limit = np.abs(want) * (strict if numeric == "strict" else fast(x.astype(np.float64))) + 1e-45
    worst = int(np.argmax(error / limit))
    assert (error <= limit).all(), f"{name}({x[worst]!r}) is {got[worst]!r}, not {want[worst]!r}"


def test_arithmetic_is_that_of_numpy(gpu):
    """Each operation is rounded once, subnormal numbers included."""
    rng = np.random.default_rng(1)
    count = 100003 if gpu.real else 1003
    x, y, z = ((rng.normal(size=count) * 2.0 ** rng.integers(-70, 5, count)).astype(np.float32) for _ in range(3))

    def function(F, x, y, z):
        return F.sqrt(F.abs(x * y + z)) / (x * x - y * z + 0.1) + x * y * z

    want = np.sqrt(np.abs(x * y + z)) / (x * x - y * z + np.float32(0.1)) + x * y * z
    assert np.array_equal(run(gpu, "strict", function, x, y, z), want)


def test_fast_division(gpu):
    rng = np.random.default_rng(2)
    x, y = (rng.uniform(0.5, 2, 1000).astype(np.float32) for _ in range(2))
    want = np.sqrt(x.astype(np.float64)) / y
    got = run(gpu, "fast", lambda F, x, y: F.sqrt(x) / y, x, y)
    assert np.abs(got / want - 1).max() <= 4 * ULP
