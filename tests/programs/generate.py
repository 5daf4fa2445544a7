# SPDX-License-Identifier: Apache-2.0
"""Hypothesis strategy of random Gluon programs."""

from __future__ import annotations

from hypothesis import strategies as st
from programs.actions import ACTIONS, Action
from programs.layers import LAYERS, Layer
from programs.script import Program

__all__ = ["programs"]

_NUMBERS = st.integers(0, 9_999)
_NESTING = ("nested", "residual", "twice", "gated", "branches", "pair", "half")
_LEAVES = tuple(kind for kind in LAYERS if kind not in _NESTING)


def _layers(depth: int) -> st.SearchStrategy[tuple[Layer, ...]]:
    leaf = st.builds(Layer, st.sampled_from(_LEAVES), _NUMBERS)
    if depth == 0:
        return st.lists(leaf, min_size=1, max_size=3).map(tuple)
    inner = st.builds(Layer, st.sampled_from(_NESTING), _NUMBERS, _layers(depth - 1))
    return st.lists(st.one_of(leaf, leaf, leaf, inner), min_size=1, max_size=5).map(tuple)


programs: st.SearchStrategy[Program] = st.builds(
    Program,
    source=_NUMBERS,
    layers=_layers(2),
    trainers=st.lists(_NUMBERS, max_size=2).map(tuple),
    actions=st.lists(st.builds(Action, st.sampled_from(tuple(ACTIONS)), _NUMBERS), min_size=1, max_size=6).map(tuple),
)
