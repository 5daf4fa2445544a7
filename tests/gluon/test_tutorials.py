# SPDX-License-Identifier: Apache-2.0
"""Programs as MXNet's tutorials write them give what they give there."""

from __future__ import annotations

import pytest
from against_mxnet.recorded import tutorials
from against_mxnet.recorded.record import recorded, same

import hybridgpu as mx


@pytest.mark.parametrize("hybridized", [False, True])
@pytest.mark.parametrize("name", tutorials.CASES)
def test_a_tutorial(name, hybridized):
    found, expected = tutorials.measure(mx, name, hybridized), recorded("tutorials")[name]
    assert same(found, expected), (found, expected)
