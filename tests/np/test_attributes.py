# SPDX-License-Identifier: Apache-2.0
"""Arrays in the places of attributes: MXNet reads their text, so those of one number and no axis are numbers."""

from __future__ import annotations

import pytest

from hybridgpu import np, npx
from hybridgpu.base import MXNetError

#: what is called -> what MXNet 1.9.1 gives
CALLS = {
    "np.arange(np.array(3.0))": [0, 1, 2],
    "np.arange(0, np.array(2), np.array(0.5))": [0, 0.5, 1, 1.5],
    "np.clip(np.arange(4), np.array(1), 2)": [1, 1, 2, 2],
    "np.full((2,), np.array(3.0))": [3, 3],
}
#: what is called -> what MXNet 1.9.1 says
REFUSED = {
    "np.arange(np.array([3.0]))": "Invalid Parameter format for stop expect double or None but value='[3.]'",
    "np.eye(np.array(3.0))": "Invalid Parameter format for N expect long but value='3.0'",
    "np.repeat(np.ones(2), np.array(2))": "Invalid Parameter format for repeats expect int but value='2.0'",
    "np.ones((2, 3)).reshape(np.array(3.0), 2)": "Invalid Parameter format for newshape expect Shape",
}


@pytest.fixture(autouse=True)
def _np():
    npx.set_np()
    yield
    npx.reset_np()


@pytest.mark.parametrize("call", CALLS)
def test_arrays_of_one_number(call):
    assert eval(call).tolist() == CALLS[call]


@pytest.mark.parametrize("call", REFUSED)
def test_other_arrays(call):
    with pytest.raises(MXNetError) as caught:
        eval(call)
    assert str(caught.value).startswith(REFUSED[call])


def test_the_number_is_read_at_each_call():
    end = np.array(2.0)
    assert np.arange(end).shape == (2,)
    end += 1
    assert np.arange(end).shape == (3,)
