# SPDX-License-Identifier: Apache-2.0
"""What MXNet 1.9.1 does not do, or does wrong, in programs that run here: each once, by name, with a reproduction.

A program that meets one of these is compared with MXNet up to there, or without what is wrong.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

__all__ = ["DEFECTS", "Defect", "rules_for"]


@dataclass(frozen=True)
class Defect:
    """One defect.

    Attributes:
        name: a sentence that says what happens.
        reproduction: lines behind ``import mxnet as mx; from mxnet import autograd, gluon, nd``.
        script: a regular expression of scripts that can meet it: others are compared in full.
        ends: a regular expression of the error that a program ends with; "" where MXNet raises none.
        ignore: a regular expression of labels of observations that are wrong in such scripts.
        until: a regular expression of labels from which on everything follows from what is wrong.
    """

    name: str
    reproduction: str
    script: str
    ends: str = ""
    ignore: str = ""
    until: str = ""


DEFECTS = (
    Defect(
        "Instance normalization has no float64",
        "nd.InstanceNorm(nd.ones((1, 2, 3), dtype='float64'), nd.ones(2, dtype='float64'), nd.ones(2, dtype='float64'))",
        script="InstanceNorm",
        ends="Unsupported data type 1",
    ),
    Defect(
        "RMSProp, AdaGrad, AdaDelta and Ftrl have float32 states whatever the weights are",
        "net = gluon.nn.Dense(1, in_units=1)\n"
        "net.initialize()\n"
        "net.cast('float64')\n"
        "trainer = gluon.Trainer(net.collect_params(), 'rmsprop')\n"
        "with autograd.record():\n"
        "    y = net(nd.ones((1, 1), dtype='float64'))\n"
        "y.backward()\n"
        "trainer.step(1)",
        script=r'"(rmsprop|adagrad|adadelta|ftrl)"',
        ends=r"step\([\s\S]*Incompatible attr in node",
    ),
    Defect(
        "Of two recorded graphs only one can be differentiated, mostly the second, if an operator's input has no gradient",
        "net = gluon.nn.BatchNorm()\n"
        "net.initialize()\n"
        "with autograd.record():\n"
        "    first = net(nd.ones((1, 2)))\n"
        "with autograd.record():\n"
        "    second = net(nd.ones((1, 2)))\n"
        "second.backward()\n"
        "first.backward()",
        script=r"(?m)^(loss\.backward\(\)\nfirst|first\.backward\(\)\nloss)\.backward\(\)$",
        ends="The any container is empty",
    ),
    Defect(
        "oneDNN cannot differentiate some transposed convolutions",
        "net = gluon.nn.HybridSequential()\n"
        "net.add(gluon.nn.Conv2DTranspose(2, 3), gluon.nn.Dense(4))\n"
        "net.initialize()\n"
        "with autograd.record():\n"
        "    y = net(nd.random.normal(shape=(3, 2, 6, 6)))\n"
        "    loss = (y * y).mean()\n"
        "autograd.grad(loss, [p.data() for p in net.collect_params().values()])",
        script="Conv2DTranspose",
        ends="could not execute a primitive",
    ),
    Defect(
        "autograd.grad ends the process where gradients of a sum are blocked",
        "net, blocked, head = gluon.nn.LayerNorm(), gluon.nn.LayerNorm(), gluon.nn.Dense(3)\n"
        "for block in (net, blocked, head):\n"
        "    block.initialize()\n"
        "with autograd.record():\n"
        "    x = net(nd.random.normal(shape=(2, 4)))\n"
        "    y = head(nd.BlockGrad(x + blocked(x)))\n"
        "    loss = (y * y).mean()\n"
        "autograd.grad(loss, [p.data() for b in (net, blocked, head) for p in b.collect_params().values()])",
        script=r"BlockGrad(?s:.)*autograd\.grad\(",
        ends="the process ended",
    ),
    Defect(
        "backward() ends the process where gradients of a part are blocked, a flattened one or others",
        "used, blocked, head = gluon.nn.Dense(8, activation='relu'), gluon.nn.Dense(8), gluon.nn.Dense(4)\n"
        "for block in (used, blocked, head):\n"
        "    block.initialize()\n"
        "x = nd.ones((3, 5))\n"
        "with autograd.record():\n"
        "    y = head(used(x) + nd.BlockGrad(nd.Flatten(blocked(x))))\n"
        "    loss = (y * y).mean()\n"
        "loss.backward()",
        script="BlockGrad",
        ends="the process ended",
    ),
    Defect(
        "Gradients of recurrent layers in float64, of several layers or both directions, are made of unwritten memory",
        "net = gluon.rnn.GRU(3, layout='NTC', num_layers=2)\n"
        "net.initialize()\n"
        "net.cast('float64')\n"
        "found = []\n"
        "for _ in range(100):\n"
        "    nd.full((10000,), 1e30, dtype='float64')\n"
        "    with autograd.record():\n"
        "        y = net(nd.ones((3, 4, 5), dtype='float64'))\n"
        "    y.backward()\n"
        "    found.append(net.l0_i2h_weight.grad().asnumpy())\n"
        "assert all(abs(g - found[0]).max() < 1e-6 for g in found)",
        script=r"rnn\.\w+\(.*(num_layers=2|bidirectional)(?s:.)*float64",
        until=".",
    ),
    Defect(
        "Gradients that flow through a GRU or RNN whose parameters have none are wrong in float64",
        "found = []\n"
        "for req in ('write', 'null'):\n"
        "    net = gluon.rnn.GRU(3, layout='NTC')\n"
        "    net.initialize(mx.init.One())\n"
        "    net.cast('float64')\n"
        "    net.collect_params().setattr('grad_req', req)\n"
        "    x = nd.ones((3, 4, 5), dtype='float64')\n"
        "    x.attach_grad()\n"
        "    with autograd.record():\n"
        "        y = net(x)\n"
        "    y.backward()\n"
        "    found.append(x.grad.asnumpy())\n"
        "assert abs(found[0] - found[1]).max() < 1e-6",
        script=r'rnn\.(GRU|RNN)\((?s:.)*float64(?s:.)*"null"',
        until=".",
    ),
    Defect(
        "Max pooling that is recorded in prediction mode has gradients of unwritten memory",
        "net = gluon.nn.GlobalMaxPool2D()\n"
        "x = nd.random.normal(shape=(2, 3, 6, 6))\n"
        "x.attach_grad()\n"
        "for _ in range(100):\n"
        "    nd.full((2, 3, 6, 6), 1e30).wait_to_read()\n"
        "    with autograd.record(train_mode=False):\n"
        "        y = net(x * 1)\n"
        "    y.backward(train_mode=False)\n"
        "    assert x.grad.sum() == 6",
        script="MaxPool2D",
        until="record predict|mixed modes",
    ),
    Defect(
        "There are no products of float16 on the CPU",
        "nd.FullyConnected(nd.ones((1, 2), dtype='float16'), nd.ones((1, 2), dtype='float16'), no_bias=True, num_hidden=1)",
        script=r"float16(?s:.)*trained in halves",
        ends="float16 fully connected|FP16 gemm|Check failed: in_type->at",
    ),
    Defect(
        "AdaDelta scales gradients where they lie",
        "net = gluon.nn.Dense(1, in_units=1)\n"
        "net.initialize()\n"
        "trainer = gluon.Trainer(net.collect_params(), 'adadelta')\n"
        "with autograd.record():\n"
        "    y = net(nd.ones((1, 1)))\n"
        "y.backward()\n"
        "trainer.step(2)\n"
        "assert net.weight.grad() == 1",
        script='"adadelta"',
        ignore="gradient of",
    ),
    Defect(
        "BatchNorm is differentiated in the mode that the backward pass names, whichever it was computed in",
        "net = gluon.nn.BatchNorm(in_channels=1)\n"
        "net.initialize()\n"
        "with autograd.record():\n"
        "    y = net(nd.array([[1], [2]]))\n"
        "y.backward(nd.array([[1], [2]]), train_mode=False)\n"
        "assert abs(net.gamma.grad() - 1) < 0.01",
        script="BatchNorm",
        until="mixed modes",
    ),
)


def rules_for(script: str) -> dict[str, Any]:
    """Arguments of ``compare.difference`` for a script whose second way is MXNet."""
    met = [d for d in DEFECTS if re.search(d.script, script)]
    return {
        "ends": "|".join(d.ends for d in met if d.ends),
        "ignore": "|".join(d.ignore for d in met if d.ignore),
        "until": "|".join(d.until for d in met if d.until),
        "float64": 1e-4,  # numbers among an operator's attributes are float32
    }
