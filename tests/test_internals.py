# SPDX-License-Identifier: Apache-2.0
"""What programs import without a promise, and arguments that they give: as recorded from MXNet 1.9.1."""

from __future__ import annotations

import pytest
from against_mxnet.recorded import internals
from against_mxnet.recorded.record import recorded, same

import hybridgpu as mx

EXPECTED = recorded("internals")


@pytest.mark.parametrize("case", internals.CASES)
def test_as_in_mxnet(case):
    found, expected = internals.measure(mx, case), EXPECTED[case]
    if isinstance(expected, str) and "Error: " in expected[:40]:  # ours may say more behind it
        found = found.split("\n")[0]
    assert same(found, expected, 1e-5, 1e-4), (found, expected)


def test_a_path_of_several_modules_leaves_them_their_own_package():
    """Else their relative imports at first use are looked for elsewhere."""
    import hybridgpu.numpy_extension.utils as divided

    import hybridgpu.ndarray.serialization as home

    assert (divided.__package__, home.__package__) == ("hybridgpu.numpy_extension", "hybridgpu.ndarray")
    assert (divided.__spec__.name, home.__spec__.name) == (divided.__name__, home.__name__)
