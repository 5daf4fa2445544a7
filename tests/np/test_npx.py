# SPDX-License-Identifier: Apache-2.0
"""npx: which functions there are, and what they are in files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import hybridgpu as mx
from hybridgpu.ops.functions import registered
from hybridgpu.ops.numpy import NPX

REGISTERED = json.loads((Path(__file__).parents[1] / "recorded" / "numpy_operators.json").read_text())
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
