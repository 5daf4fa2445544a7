# SPDX-License-Identifier: Apache-2.0
"""Blocks of C text as data."""

from __future__ import annotations

import pytest

from hybridgpu.compiler.schedule.blocks import Block, for_head


@pytest.mark.parametrize(
    ("step", "text"),
    [
        ((), "for (Index i = a; i < b; ++i)"),
        ((1,), "for (Index i = a; i < b; ++i)"),
        ((2,), "for (Index i = a; i < b; i += 2)"),
        (("n",), "for (Index i = a; i < b; i += n)"),
    ],
)
def test_heads_of_loops(step, text):
    assert for_head("i", "a", "b", *step) == text


@pytest.mark.parametrize(
    ("heads", "opening"),
    [
        ([], ["{"]),
        (["if (x)"], ["if (x) {"]),
        (["#pragma a", "for (;;)", "if (x)"], ["#pragma a", "for (;;)", "if (x) {"]),
    ],
)
def test_openings(heads, opening):
    assert Block(heads, []).opening == opening
