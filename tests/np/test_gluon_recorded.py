# SPDX-License-Identifier: Apache-2.0
"""Layers, losses, metrics and training in np mode beside what MXNet 1.9.1 gave there (``recorded/``).

Where MXNet has no np version of a layer, and raises, ours gives what it gives for arrays of nd.
"""

from __future__ import annotations

import pytest
from against_mxnet.recorded import layers, losses, metrics, training
from against_mxnet.recorded.record import in_np_mode, recorded, same

import hybridgpu as mx

FOR_ND = {name: recorded(name) for name in ("layers", "losses", "training", "metrics")}
FOR_NP = {name: recorded(f"{name} np") for name in ("layers", "losses", "training")}
FOR_NP["metrics"] = {name: {"raises": "TypeError"} for name in FOR_ND["metrics"]}  # those that compute with arrays do
#: of layers that are not MXNet's in np mode: texts and files show np's way of saying that an extent is open
_OWN = ("graph", "repr")


def compare(family, name, ours, rtol=1e-4, atol=2e-5):
    theirs = FOR_NP[family][name]
    if "raises" in theirs:
        theirs = {k: v for k, v in FOR_ND[family][name].items() if k not in _OWN}
    assert "raises" not in ours
    for key in theirs.keys() & ours.keys():
        assert same(ours[key], theirs[key], rtol, atol), key


@pytest.mark.long_table
@pytest.mark.parametrize("name", layers.CASES)
def test_layer(name):
    compare("layers", name, in_np_mode(mx, layers, name))


@pytest.mark.long_table
@pytest.mark.parametrize("name", [n for n in layers.CASES if "graph" in FOR_ND["layers"][n]])
def test_hybridized_layer(name):
    compare("layers", name, in_np_mode(mx, layers, name, hybrid=True))


@pytest.mark.long_table
@pytest.mark.parametrize("hybrid", [False, True], ids=["eager", "hybrid"])
@pytest.mark.parametrize("name", [n for n in losses.CASES if n not in losses.ONLY_EAGER])
def test_loss(name, hybrid):
    compare("losses", name, in_np_mode(mx, losses, name, hybrid=hybrid))


@pytest.mark.parametrize("name", losses.ONLY_EAGER)
def test_eager_loss(name):
    compare("losses", name, in_np_mode(mx, losses, name))


@pytest.mark.parametrize("name", metrics.CASES)
def test_metric(name):
    compare("metrics", name, in_np_mode(mx, metrics, name))


@pytest.mark.long_table
@pytest.mark.parametrize("hybrid", [False, True], ids=["eager", "hybrid"])
@pytest.mark.parametrize("name", training.CASES)
def test_training(name, hybrid):
    compare("training", name, in_np_mode(mx, training, name, hybrid=hybrid), 1e-3, 1e-4)
