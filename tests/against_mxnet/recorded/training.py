# SPDX-License-Identifier: Apache-2.0
"""Whole training runs on made-up data: losses of every step and the parameters at the end."""

import numpy as np
from against_mxnet.recorded.record import array, draw, project


def mlp(nn):
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Dense(16, activation="relu"), nn.Dense(8, activation="tanh"), nn.Dense(4))
    return net


def lenet(nn):
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Conv2D(4, 5, activation="tanh"), nn.MaxPool2D(2, 2), nn.Conv2D(6, 3, activation="tanh"))
        net.add(nn.MaxPool2D(2, 2), nn.Flatten(), nn.Dense(12, activation="tanh"), nn.Dense(4))
    return net


def normalised(nn):
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Conv2D(4, 3, padding=1, use_bias=False), nn.BatchNorm(), nn.Activation("relu"))
        net.add(nn.GlobalAvgPool2D(), nn.Dense(4))
    return net


VECTORS, IMAGES = (8, 6), (8, 1, 14, 14)
#: name -> (network, input shape, optimizer, its arguments, number of devices)
CASES = {
    "mlp sgd": (mlp, VECTORS, "sgd", {"learning_rate": 0.1}, 1),
    "mlp momentum": (mlp, VECTORS, "sgd", {"learning_rate": 0.1, "momentum": 0.9, "wd": 0.01}, 1),
    "mlp adam": (mlp, VECTORS, "adam", {"learning_rate": 0.01}, 1),
    "mlp two devices": (mlp, VECTORS, "sgd", {"learning_rate": 0.1, "momentum": 0.9}, 2),
    "mlp lamb": (mlp, VECTORS, "lamb", {"learning_rate": 0.01}, 1),
    "lenet": (lenet, IMAGES, "sgd", {"learning_rate": 0.1, "momentum": 0.9}, 1),
    "lenet adam two devices": (lenet, IMAGES, "adam", {"learning_rate": 0.01}, 2),
    "mlp nag decay": (mlp, VECTORS, "nag", {"learning_rate": 0.1, "momentum": 0.9, "wd": 0.05}, 1),
    "normalised": (normalised, IMAGES, "nag", {"learning_rate": 0.1, "momentum": 0.9}, 1),
}


def measure(mx, name, hybrid=False, steps=6):
    """Losses and, at the end, projections of parameters."""
    make, shape, optimizer, arguments, devices = CASES[name]
    contexts = [mx.cpu(k) for k in range(devices)]
    net = make(mx.gluon.nn)
    net.initialize(ctx=contexts)
    if hybrid:
        net.hybridize()
    net(array(mx, draw(shape, 0)))  # settles shapes
    for k, p in enumerate(net.collect_params().values()):
        if not p.name.endswith(("running_mean", "running_var")):
            p.set_data(array(mx, draw(p.shape, 100 + k, -0.4, 0.4)))
    trainer = mx.gluon.Trainer(net.collect_params(), optimizer, arguments)
    loss_function = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    losses = []
    for t in range(steps):
        data = mx.gluon.utils.split_and_load(array(mx, draw(shape, t)), contexts)
        labels = array(mx, np.arange(shape[0]) * (t + 1) % 4)
        labels = mx.gluon.utils.split_and_load(labels, contexts)
        with mx.autograd.record():
            values = [loss_function(net(x), y) for x, y in zip(data, labels)]
        for v in values:
            v.backward()
        trainer.step(shape[0])
        losses.append(float(np.concatenate([v.asnumpy() for v in values]).mean()))
    parameters = [[p.name, project(p.list_data()[-1])] for p in net.collect_params().values()]
    return {"losses": losses, "parameters": parameters, "rate": float(trainer.learning_rate)}
