# SPDX-License-Identifier: Apache-2.0
"""Graphs in mixed precision, for hybridgpu here and for MXNet in its own Python.

python mixed.py LIBRARY FILE [DTYPE]    # with DTYPE after amp.init(DTYPE), else converted graphs and the lists
"""

from __future__ import annotations

import importlib
import itertools
import json
import sys


def lstm(mx):
    net = mx.gluon.nn.HybridSequential(prefix="lstm_")
    with net.name_scope():
        net.add(mx.gluon.rnn.LSTM(5, num_layers=2, bidirectional=True), mx.gluon.nn.Dense(2))
    return net


def convolutional(mx):
    nn = mx.gluon.nn
    net = nn.HybridSequential(prefix="conv_")
    with net.name_scope():
        net.add(nn.Conv2D(8, 3), nn.BatchNorm(), nn.Activation("relu"), nn.MaxPool2D(), nn.Flatten())
        net.add(nn.Dense(16, activation="softrelu"), nn.Dropout(0.5), nn.LayerNorm(), nn.Dense(10))
    return net


def branches(mx):
    class Branches(mx.gluon.HybridBlock):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            nn = mx.gluon.nn
            with self.name_scope():
                self.a, self.b, self.c = nn.Conv2D(4, 3, padding=1), nn.Conv2D(4, 1), nn.Dense(3)

        def hybrid_forward(self, F, x):
            a, b = self.a(x), self.b(x)
            joined = F.stack(F.relu(a + b) * 0.5, F.softmax(b, axis=1), x, axis=1)
            scaled = F.broadcast_mul(joined, F.exp(a).mean(axis=1, keepdims=True))
            left, right = F.split(scaled, num_outputs=2, axis=2)
            v = F.Activation(left, act_type="softrelu") + F.LeakyReLU(right, act_type="elu")
            return self.c(v), F.sum(v - 1), F.where(v > 0, v, v * 2)

    return Branches(prefix="branches_")


def symbols(mx):
    """One weight read in two types, losses, several results, variables with a type."""
    sym = mx.sym
    weight = sym.var("w", dtype="float32")
    dense = sym.FullyConnected(sym.var("x"), weight, num_hidden=4, name="fc")
    act = sym.Activation(dense, act_type="softrelu", name="act")
    loss = sym.SoftmaxOutput(sym.FullyConnected(act, num_hidden=3, name="fc2"), name="softmax")
    parts = sym.split(dense, num_outputs=2, axis=1, name="parts")
    rows = sym.Embedding(sym.var("y"), input_dim=5, output_dim=3, name="rows")
    image = sym.Convolution(sym.var("image"), kernel=(1, 1), num_filter=2, name="conv")
    normal = sym.BatchNorm(image, name="norm")[0]
    return sym.Group([loss, sym.sum(sym.sin(weight)), parts[0] + parts[1], rows, normal])


def symbol_of(mx, make):
    if make is symbols:
        return symbols(mx)
    result = make(mx)(mx.sym.var("data"))
    return mx.sym.Group(list(result)) if isinstance(result, (list, tuple)) else result


MAKERS = (convolutional, branches, lstm, symbols)
#: arguments of convert_symbol
OPTIONS = [
    {},
    {"data_names": ["data", "x", "y", "image", "softmax_label"]},
    {"target_dtype_ops": ["Convolution"]},
    {"excluded_sym_names": ["fc", "branches_conv0_fwd"]},
    {"target_dtype_ops": ["Deconvolution"], "fp32_ops": ["FullyConnected", "exp", "SoftmaxOutput"]},
    {"fp32_ops": ["sin", "SoftmaxOutput"], "conditional_fp32_ops": [("Activation", "act_type", ["relu"])]},
]


def describe(mx, amp, dtype):
    """Name -> the text of a graph."""
    found = {}
    if dtype:
        amp.init(dtype)
        for make in MAKERS:
            if (make, dtype) != (lstm, "bfloat16"):  # which MXNet cannot trace: its states have no inputs
                found[f"{make.__name__} {dtype}"] = symbol_of(mx, make).tojson(remove_amp_cast=False)
        return found
    for make, narrow, cast, options in itertools.product(MAKERS, ("float16", "bfloat16"), (False, True), OPTIONS):
        given = symbol_of(mx, make)
        if "data_names" in options:
            options = {"data_names": [n for n in options["data_names"] if n in given.list_inputs()]}
        name = f"{make.__name__} {narrow} {cast} {OPTIONS.index(options) if options in OPTIONS else 'named'}"
        symbol = amp.convert_symbol(given, narrow, cast_optional_params=cast, **options)
        found[name] = symbol.tojson(remove_amp_cast=False)
    return found


def lists(amp):
    """Name of a list -> its operators, by type."""
    functions = ("lp16_ops", "fp32_ops", "conditional_fp32_ops", "widest_type_cast", "loss_output_functions")
    types = {"float16": "float16", "bfloat16": amp.bfloat16}
    return {f"{f} {n}": getattr(amp, f"list_{f}")(t) for f in functions for n, t in types.items()}


if __name__ == "__main__":
    library = importlib.import_module(sys.argv[1])
    module = importlib.import_module(sys.argv[1] + ".contrib.amp").amp
    dtype = sys.argv[3] if len(sys.argv) > 3 else ""
    found = describe(library, module, dtype)
    if not dtype:
        found["lists"] = lists(module)
    with open(sys.argv[2], "w") as file:
        json.dump(found, file)
