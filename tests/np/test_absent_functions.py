# SPDX-License-Identifier: Apache-2.0
"""Functions of NumPy that np lacks: what the error says to write computes what NumPy's function does, traced as well."""

import numpy as onp
import pytest

import hybridgpu as mx
from hybridgpu import np
from hybridgpu.hints.foreign_names import OTHERS

_RANDOM = onp.random.RandomState(3)
VALUES = {name: _RANDOM.randn(3, 3).astype("float32") for name in "xy"}
WITH_NAN = {"x": onp.where(_RANDOM.rand(3, 3) < 0.3, onp.nan, VALUES["x"]).astype("float32"), "y": VALUES["y"]}
VECTORS = {"x": VALUES["x"].ravel(), "y": VALUES["y"][0]}
LARGE = {"x": onp.abs(VALUES["x"]) + 1, "y": VALUES["y"]}
SMALL = {"x": VALUES["x"] / 4, "y": VALUES["y"] / 4}
WHOLE = {"x": onp.arange(9, dtype="int32").reshape(3, 3), "y": onp.arange(9, dtype="int32")[::-1].copy().reshape(3, 3)}
ZEROS = {"x": (VALUES["x"] > 0).astype("float32"), "y": (VALUES["y"] > 0).astype("float32")}
NUMBERS = {"axis": 1, "k": 1, "n": 3, "m": 3, "p": 3, "q": 3, "start": 1, "stop": 100, "axes": (1, 0)}

#: name in NumPy -> its call, the values of x and y
ROWS = {
    "median": ("onp.median(x, axis)", VALUES),
    "floor_divide": ("onp.floor_divide(x, y)", VALUES),
    "fmod": ("onp.fmod(x, y)", VALUES),
    "logical_and": ("onp.logical_and(x, y)", ZEROS),
    "logical_or": ("onp.logical_or(x, y)", ZEROS),
    "logical_xor": ("onp.logical_xor(x, y)", ZEROS),
    "left_shift": ("onp.left_shift(x, n)", WHOLE),
    "exp2": ("onp.exp2(x)", VALUES),
    "logaddexp": ("onp.logaddexp(x, y)", VALUES),
    "fmax": ("onp.fmax(x, y)", WITH_NAN),
    "fmin": ("onp.fmin(x, y)", WITH_NAN),
    "nansum": ("onp.nansum(x, axis)", WITH_NAN),
    "nanmean": ("onp.nanmean(x, axis)", WITH_NAN),
    "cumprod": ("onp.cumprod(x, axis)", VALUES),
    "convolve": ("onp.convolve(x, y)", VECTORS),
    "cross": ("onp.cross(x, y)", VALUES),
    "kron": ("onp.kron(x, y)", VALUES),
    "triu": ("onp.triu(x, k)", VALUES),
    "tri": ("onp.tri(n, m, k)", VALUES),
    "tril_indices": ("onp.tril_indices(n, k)", VALUES),
    "triu_indices": ("onp.triu_indices(n, k)", VALUES),
    "diag_indices": ("onp.diag_indices(n)", VALUES),
    "geomspace": ("onp.geomspace(start, stop, n)", VALUES),
    "cumulative_sum": ("onp.cumsum(x, axis)", VALUES),
    "trapezoid": ("onp.trapz(y, x) if hasattr(onp, 'trapz') else onp.trapezoid(y, x)", VALUES),
    "vecdot": ("onp.einsum('ij,ij->i', x, y)", VALUES),
    "matrix_transpose": ("x.T", VALUES),
    "linalg.svdvals": ("onp.linalg.svd(x, compute_uv=False)", VALUES),
    "linalg.vector_norm": ("onp.sqrt((x * x).sum())", VALUES),
    "permute_dims": ("onp.transpose(x, axes)", VALUES),
    "unstack": ("onp.moveaxis(x, 1, 0)", VALUES),
    "acos": ("onp.arccos(x)", SMALL),
    "acosh": ("onp.arccosh(x)", LARGE),
    "asin": ("onp.arcsin(x)", SMALL),
    "asinh": ("onp.arcsinh(x)", VALUES),
    "atan": ("onp.arctan(x)", VALUES),
    "atanh": ("onp.arctanh(x)", SMALL),
    "atan2": ("onp.arctan2(y, x)", VALUES),
}


@pytest.mark.parametrize("name", ROWS)
def test_what_is_advised_is_the_function(name):
    call, values = ROWS[name]
    wanted = onp.asarray(eval(call, {"onp": onp, **values, **NUMBERS}))
    advice = OTHERS[f"np.{name}"].format(F="")
    expression = advice.partition(", of ")[0].partition(", which ")[0]
    function = eval(f"lambda x, y: {expression}", {"np": np, **NUMBERS})
    arrays = [np.array(v, dtype=v.dtype) for v in values.values()]
    with mx.util.np_shape(True), mx.util.np_array(True):
        for run in (function, mx.hybridize(function)):
            result = run(*arrays)
            got = onp.stack([r.asnumpy() for r in result]) if isinstance(result, (list, tuple)) else result.asnumpy()
            assert got.shape == wanted.shape
            onp.testing.assert_allclose(got, wanted, 2e-5, 2e-6)


def test_those_that_write_do():
    x, mask = np.array(VALUES["x"]), np.array(ZEROS["x"])
    scope = {"np": np, "x": x, "mask": mask, "n": 3, "value": 5, "values": 7}
    exec(OTHERS["np.fill_diagonal"], scope)
    exec(OTHERS["np.putmask"], scope)
    wanted = VALUES["x"].copy()
    onp.fill_diagonal(wanted, 5)
    onp.putmask(wanted, ZEROS["x"] != 0, 7)
    onp.testing.assert_array_equal(x.asnumpy(), wanted)
    exec(OTHERS["np.copyto"], scope)
    assert x.asnumpy().tolist() == [[7] * 3] * 3
