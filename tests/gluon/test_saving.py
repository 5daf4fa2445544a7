# SPDX-License-Identifier: Apache-2.0
"""Block.save and Block.load: structure, graphs and parameters of a model in two files."""

from __future__ import annotations

import numpy as np
import pytest

from hybridgpu import gluon, nd
from hybridgpu.gluon import nn


class Pair(nn.Block):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.body = nn.HybridSequential()
            self.body.add(nn.Dense(4, activation="relu"), nn.Dense(3))
            self.head = nn.Dense(2)

    def forward(self, x):
        return self.head(self.body(x))


@pytest.mark.parametrize("hybrid", [False, True])
def test_save_and_load(tmp_path, hybrid):
    first = Pair()
    first.initialize()
    if hybrid:
        first.hybridize()
    x = nd.array(np.random.RandomState(0).normal(size=(2, 5)))
    expected = first(x).asnumpy()
    first.save(str(tmp_path / "pair"))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["pair-model.json", "pair-model.params"]
    second = Pair()
    traced = []
    original = gluon.nn.Dense.hybrid_forward

    class Counting(nn.Dense):
        def hybrid_forward(self, *args, **kwargs):
            traced.append(self)
            return original(self, *args, **kwargs)

    for dense in (second.head, *second.body):
        dense.__class__ = type("Dense", (Counting,), {})
    second.load(str(tmp_path / "pair"))
    np.testing.assert_allclose(second(x).asnumpy(), expected, rtol=1e-5, atol=1e-6)
    assert bool(traced) is not hybrid  # loaded graphs are not traced again
    assert second.body.name == first.body.name


def test_other_structure_is_refused(tmp_path):
    net = Pair()
    net.initialize()
    net(nd.ones((1, 2)))
    net.save(str(tmp_path / "pair"))
    with pytest.raises(KeyError):
        nn.Dense(3).load(str(tmp_path / "pair"))
