# SPDX-License-Identifier: Apache-2.0
"""npx: which functions there are, and what they are in files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import hybridgpu as mx
from hybridgpu.ops.functions import registered
from hybridgpu.ops.numpy import NPX

REGISTERED = json.loads((Path(__file__).parents[1] / "against_mxnet" / "recorded" / "numpy_operators.json").read_text())
NAMES = {n: canonical for n, (canonical, *_) in REGISTERED.items() if n.startswith("_npx_")}


@pytest.mark.parametrize("name", NAMES)
def test_every_operator_of_npx_is_a_function_and_files_carry_its_canonical_name(name):
    word = name.removeprefix("_npx_")
    function = f"image.{word.removeprefix('_image_')}" if word.startswith("_image_") else word
    assert function in NPX
    assert registered(name).name == NAMES[name]


def test_a_function_has_the_signature_of_its_operator():
    import inspect

    assert [*inspect.signature(mx.npx.softmax).parameters][:3] == ["data", "length", "axis"]
    assert "num_filter" in mx.npx.convolution.__doc__


def test_the_seed_of_npx_is_that_of_all_generators():
    with mx.util.np_shape(True), mx.util.np_array(True):
        rows = []
        for _ in range(2):
            mx.npx.random.seed(5)
            rows.append(mx.np.random.uniform(size=(4,)).asnumpy())
        mx.random.seed(5)
        rows.append(mx.np.random.uniform(size=(4,)).asnumpy())
    assert (rows[0] == rows[1]).all() and (rows[0] == rows[2]).all()


def test_images_of_npx_are_those_of_image_too():
    with mx.util.np_shape(True), mx.util.np_array(True):
        picture = mx.np.zeros((6, 4, 3), dtype="uint8")
        small = mx.npx.image.imresize(picture, 2, 3)
        assert type(small) is mx.np.ndarray and small.shape == (3, 2, 3)
        assert mx.npx.image.to_tensor(picture).shape == (3, 6, 4)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        mx.npx.image.nothing


def test_modules_of_functions_that_are_numpys():
    assert {"cov", "isclose", "trapz", "npv"} <= set(mx.np.fallback.__all__)
    assert mx.np.fallback.cov is mx.np.cov
    assert mx.np.fallback_linalg.__all__ == ["cond", "lstsq", "matrix_power", "matrix_rank", "multi_dot", "qr"]
    with pytest.raises(AttributeError, match="no attribute 'sum'"):
        mx.np.fallback.sum
