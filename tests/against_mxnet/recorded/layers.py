# SPDX-License-Identifier: Apache-2.0
"""Layers: how they print, their parameters, their graphs, results and gradients."""

import json
import os
import tempfile

from against_mxnet.recorded.record import array, draw, project


def _branches(container):
    def make(mx):
        nn, contrib = mx.gluon.nn, mx.gluon.contrib.nn
        net = getattr(contrib, container)(axis=1)
        net.add(nn.Dense(3), contrib.Identity(), nn.Dense(2, activation="relu"))
        return net

    return make


def _nn(name, *args, **kwargs):
    return lambda mx: getattr(mx.gluon.nn, name)(*args, **kwargs)


def _contrib(name, *args, **kwargs):
    return lambda mx: getattr(mx.gluon.contrib.nn, name)(*args, **kwargs)


IMAGE = (2, 3, 6, 7)
#: name -> (layer, input shape)
CASES = {
    "dense": (_nn("Dense", 4, activation="relu"), (2, 3, 2)),
    "dense not flattened": (_nn("Dense", 4, flatten=False, use_bias=False), (2, 3, 2)),
    "conv 1d": (_nn("Conv1D", 4, 3, padding=1, strides=2), (2, 3, 8)),
    "conv 1d dilated": (_nn("Conv1D", 4, 3, dilation=2, activation="relu"), (2, 3, 8)),
    "conv 2d": (_nn("Conv2D", 4, 3, activation="tanh"), IMAGE),
    "conv 2d groups": (_nn("Conv2D", 6, (3, 2), groups=3, strides=(2, 1), padding=(1, 0), use_bias=False), IMAGE),
    "conv 2d depthwise": (_nn("Conv2D", 3, 3, groups=3, padding=1, in_channels=3), IMAGE),
    "conv 3d": (_nn("Conv3D", 2, 2), (2, 3, 4, 4, 4)),
    "transposed 1d": (_nn("Conv1DTranspose", 4, 3, strides=2, output_padding=1), (2, 3, 5)),
    "transposed 2d": (_nn("Conv2DTranspose", 4, 3, strides=2, padding=1, output_padding=1), (2, 3, 5, 4)),
    "transposed 2d groups": (_nn("Conv2DTranspose", 4, 3, groups=2, in_channels=4, use_bias=False), (2, 4, 5, 4)),
    "transposed 3d": (_nn("Conv3DTranspose", 2, 2, strides=2), (1, 3, 3, 3, 3)),
    "average without padding": (_nn("AvgPool2D", 3, 2, 1, count_include_pad=False), (2, 3, 7, 9)),
    "reflection": (_nn("ReflectionPad2D", 2), (2, 3, 5, 6)),
    "batch norm": (_nn("BatchNorm"), (4, 3, 5, 6)),
    "batch norm last axis": (_nn("BatchNorm", axis=-1, momentum=0.8, epsilon=1e-3, scale=False), (4, 3, 5)),
    "batch norm global": (_nn("BatchNorm", center=False, use_global_stats=True), (4, 3)),
    "batch norm relu": (_nn("BatchNormReLU"), (4, 3, 5, 6)),
    "layer norm": (_nn("LayerNorm"), (4, 3, 5)),
    "layer norm axis 1": (_nn("LayerNorm", axis=1, center=False), (4, 3, 5)),
    "group norm": (_nn("GroupNorm", num_groups=2), (4, 6, 5)),
    "instance norm": (_nn("InstanceNorm"), (4, 3, 5, 6)),
    "instance norm axis 2": (_nn("InstanceNorm", axis=2, scale=True), (4, 3, 5, 6)),
    "prelu": (_nn("PReLU"), (4, 3)),
    "prelu channels": (_nn("PReLU", in_channels=3), (4, 3)),
    "elu": (_nn("ELU", 0.7), (4, 3)),
    "gelu": (_nn("GELU"), (4, 3)),
    "swish": (_nn("Swish", 1.5), (4, 3)),
    "leaky relu": (_nn("LeakyReLU", 0.2), (4, 3)),
    "activation": (_nn("Activation", "softsign"), (4, 3)),
    "flatten": (_nn("Flatten"), (4, 3, 2)),
    "sync batch norm": (_contrib("SyncBatchNorm", num_devices=1), (4, 3, 5)),
    "branches": (_branches("Concurrent"), (4, 3)),
    "hybrid branches": (_branches("HybridConcurrent"), (4, 3)),
    "pixel shuffle 1d": (_contrib("PixelShuffle1D", 2), (2, 4, 3)),
    "pixel shuffle 2d": (_contrib("PixelShuffle2D", (2, 3)), (2, 6, 3, 4)),
    "pixel shuffle 3d": (_contrib("PixelShuffle3D", (2, 3, 2)), (1, 12, 2, 3, 2)),
}
for ndim, shape in ((1, (2, 3, 9)), (2, (2, 3, 7, 9)), (3, (1, 2, 5, 6, 7))):
    for kind in ("Max", "Avg"):
        CASES[f"{kind} pool {ndim}d"] = (_nn(f"{kind}Pool{ndim}D"), shape)
        CASES[f"{kind} pool {ndim}d padded"] = (_nn(f"{kind}Pool{ndim}D", 3, 2, 1, ceil_mode=True), shape)
        CASES[f"global {kind} pool {ndim}d"] = (_nn(f"Global{kind}Pool{ndim}D"), shape)


def graph(net):
    """The exported nodes: operator, name, inputs (without the number of traces), attributes."""
    with tempfile.TemporaryDirectory() as folder:
        net.export(os.path.join(folder, "net"))
        with open(os.path.join(folder, "net-symbol.json")) as f:
            nodes = json.load(f)["nodes"]
    return [[n["op"], n["name"], [i[:2] for i in n["inputs"]], n.get("attrs", {})] for n in nodes]


def measure(mx, name, hybrid=None):
    """Texts, and projections of results and gradients, eager or (with ``hybrid``) compiled; None chooses eager."""
    make, shape = CASES[name]
    with mx.name.NameManager():
        net = make(mx)
    net.initialize()
    if hybrid:
        net.hybridize()
    x = array(mx, draw(shape, 1))
    net(x)  # settles shapes
    params = list(net.collect_params().items())
    for k, (key, p) in enumerate(params):
        if not key.endswith("running_var"):
            p.set_data(array(mx, draw(p.shape, 10 + k)))
    found = {"repr": repr(net), "params": [[key, list(p.shape), p.grad_req] for key, p in params]}
    found["predict"] = project(net(x))
    x.attach_grad()
    with mx.autograd.record():
        y = net(x)
        loss = (y * array(mx, draw(y.shape, 2))).sum()
    loss.backward()
    found["shape"] = list(y.shape)
    found["train"], found["input gradient"] = project(y), project(x.grad)
    found["gradients"] = [project(p.grad()) for _, p in params if p.grad_req != "null"]
    found["states"] = [project(p.data()) for key, p in params if "running" in key]
    if hybrid is None and isinstance(net, mx.gluon.HybridBlock):
        net.hybridize()
        net(x)
        found["graph"] = graph(net)
    return found
