# SPDX-License-Identifier: Apache-2.0
"""Pickles: what comes back computes as before, and each name in them is one that users know."""

from __future__ import annotations

import copy
import importlib
import pickle
import pickletools

import numpy as onp
import pytest

import hybridgpu as mx
from hybridgpu import autograd, gluon, nd
from hybridgpu.gluon import nn, rnn
from hybridgpu.gluon.data.vision import transforms

#: where programs find classes and functions
PUBLIC = (
    "context gluon gluon.data gluon.data.dataloader gluon.data.vision.transforms gluon.loss gluon.model_zoo.vision gluon.nn "
    "gluon.parameter gluon.rnn initializer io lr_scheduler metric ndarray numpy optimizer symbol"
).split()
#: what makes arrays and errors, in modules that MXNet has, under a name of our own
MAKERS = {"hybridgpu.ndarray.ndarray._restore", "hybridgpu.base._error"}


def filled(net):
    net.initialize()
    net.hybridize()
    return net


def trained():
    net = nn.HybridSequential()
    net.add(nn.Dense(3, in_units=4), nn.BatchNorm(in_channels=3), nn.Dropout(0.1), nn.HybridLambda("relu"))
    filled(net)
    trainer = gluon.Trainer(net.collect_params(), "adam")
    for _ in range(3):
        with autograd.record():
            loss = net(nd.ones((2, 4))).sum()
        loss.backward()
        trainer.step(1)
    return net, trainer


def recurrent():
    net = rnn.SequentialRNNCell()
    net.add(rnn.GRUCell(3, input_size=4))
    net.add(rnn.ResidualCell(rnn.LSTMCell(3, input_size=3)))
    return filled(net)


def updater():
    update = mx.optimizer.get_updater(mx.optimizer.SGD(momentum=0.9))
    update(0, nd.ones(2), nd.ones(2))
    return update


X = nd.ones((2, 4))
KINDS = {
    "net": lambda: trained()[0],
    "trainer": lambda: trained()[1],
    "parameters": lambda: trained()[0].collect_params(),
    "recurrent layer": lambda: filled(rnn.LSTM(3, input_size=4)),
    "cells": recurrent,
    "zoo": lambda: gluon.model_zoo.vision.resnet18_v1(),
    "Symbol block": lambda: gluon.SymbolBlock(mx.sym.var("d") * 2, mx.sym.var("d")),
    "loss": lambda: gluon.loss.L2Loss(),
    "transforms": lambda: transforms.Compose([transforms.ToTensor()]),
    "array": lambda: X,
    "array of np": lambda: mx.np.ones(2),
    "Symbol": lambda: mx.sym.var("a") + 1,
    "Symbol of np": lambda: (mx.sym.var("a") + 1).as_np_ndarray(),
    "optimizer": lambda: mx.optimizer.Adam(),
    "scheduler": lambda: mx.lr_scheduler.FactorScheduler(2),
    "updater": updater,
    "metrics": lambda: mx.metric.create(["acc", "ce"]),
    "initializer": lambda: mx.init.Xavier(),
    "batch": lambda: mx.io.DataBatch([X], [X]),
    "batch of a loader": lambda: next(iter(gluon.data.DataLoader(gluon.data.ArrayDataset(X, X), 2))),
    "loader": lambda: gluon.data.DataLoader(gluon.data.ArrayDataset(X, X), 2),
    "iterator": lambda: mx.io.NDArrayIter(onp.ones((4, 2)), batch_size=2),
    "error": lambda: mx.MXNetError("text"),
}


def globals_of(value) -> set[str]:
    """The modules and names that a pickle has."""
    steps = pickletools.genops(pickle.dumps(value, 2))
    return {argument.replace(" ", ".") for step, argument, _ in steps if step.name == "GLOBAL"}


def is_public(path: str) -> bool:
    module, _, name = path.rpartition(".")
    found = getattr(importlib.import_module(module), name)
    homes = [importlib.import_module(f"hybridgpu.{home}") for home in PUBLIC]
    return any(getattr(home, name, None) is found for home in homes)


@pytest.mark.parametrize("kind", KINDS)
def test_each_name_is_public(kind):
    ours = {path for path in globals_of(KINDS[kind]()) if path.startswith("hybridgpu.")}
    assert not [path for path in sorted(ours - MAKERS) if not is_public(path)]


def test_nets_and_trainers_continue():
    net, trainer = trained()
    copied, other = pickle.loads(pickle.dumps((net, trainer)))
    for n, t in ((net, trainer), (copied, other)):
        for _ in range(3):
            with autograd.record():
                mx.random.seed(7)
                loss = (n(X) ** 2).sum()
            loss.backward()
            t.step(1)
    for mine, theirs in zip(net.collect_params().values(), copied.collect_params().values(), strict=True):
        onp.testing.assert_array_equal(mine.data().asnumpy(), theirs.data().asnumpy())
    assert other.explain().reasons == trainer.explain().reasons


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda b: pickle.loads(pickle.dumps(b))])
def test_names_of_children_go_on_counting(again):
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Dense(2), nn.Dense(2))
    other = again(net)
    with other.name_scope():
        other.add(nn.Dense(2), nn.HybridLambda("tanh"))
    assert [child.prefix for child in other] == ["net_dense0_", "net_dense1_", "net_dense2_", "net_hybridlambda0_"]
    onp.testing.assert_array_equal(pickle.loads(pickle.dumps(other[3]))(X).asnumpy(), nd.tanh(X).asnumpy())
