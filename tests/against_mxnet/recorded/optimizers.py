# SPDX-License-Identifier: Apache-2.0
"""Optimizers: four steps of three weights, two one by one and two as a list."""

import warnings

import numpy as np
from against_mxnet.recorded.record import draw, project

HALF = {"multi_precision": True}
#: name -> (registered name, arguments)
CASES = {
    " ".join([kind, *map("{0[0]}={0[1]}".format, arguments.items())]): (kind, arguments)
    for kind, arguments in [
        ("sgd", {}),
        ("sgd", {"momentum": 0.9}),
        ("sgd", {"momentum": 0.9, "wd": 0.1, "clip_gradient": 0.3}),
        ("sgd", HALF),
        ("sgd", {"momentum": 0.9, **HALF}),
        ("ccsgd", {"momentum": 0.5}),
        ("nag", {}),
        ("nag", {"momentum": 0.9, "clip_gradient": 0.3}),
        ("nag", HALF),
        ("nag", {"momentum": 0.9, **HALF}),
        ("nag", {"wd": 0.1}),
        ("nag", {"momentum": 0.9, "wd": 0.1}),
        ("nag", {"momentum": 0.9, "wd": 0.1, "clip_gradient": 0.3}),
        ("nag", {"momentum": 0.9, "wd": 0.1, **HALF}),
        ("nag", {"momentum": 0.9, "wd": 0.1, "clip_gradient": 0.3, **HALF}),
        ("sgd", {"momentum": 0.9, "wd": 0.1, "clip_gradient": 0.3, **HALF}),
        ("sgd", {"momentum": 0.9, "wd": 0.1, "lazy_update": True}),
        ("signum", {"wd": 0.1, "wd_lh": 0.1, "momentum": 0.5, "clip_gradient": 0.3}),
        ("signum", {"wd": 0.1, **HALF}),
        ("lars", {"momentum": 0.9, "wd": 0.1, "clip_gradient": 0.3, **HALF}),
        ("lbsgd", {"momentum": 0.9, "wd": 0.1, "clip_gradient": 0.3, **HALF}),
        ("dcasgd", {"wd": 0.1, "clip_gradient": 0.3, **HALF}),
        ("adam", {"wd": 0.1, "clip_gradient": 0.2, **HALF}),
        ("adagrad", {"wd": 0.1, **HALF}),
        ("rmsprop", {"wd": 0.1, "clip_gradient": 0.2, **HALF}),
        ("rmsprop", {"centered": True, "wd": 0.1, "clip_gradient": 0.2}),
        ("rmsprop", {"centered": True, "wd": 0.1, **HALF}),
        ("adadelta", {"wd": 0.1, "clip_gradient": 0.3, **HALF}),
        ("ftrl", {"wd": 0.1, "clip_gradient": 0.3, **HALF}),
        ("ftml", {"wd": 0.1, "learning_rate": 0.1, "clip_gradient": 0.3, **HALF}),
        ("adamax", {"wd": 0.1, **HALF}),
        ("nadam", {"wd": 0.1, "clip_gradient": 0.3, **HALF}),
        ("lamb", {"wd": 0.1, "clip_gradient": 0.3, **HALF}),
        ("signum", {"wd": 0.1}),
        ("signum", {"momentum": 0}),
        ("signum", {"wd_lh": 0.1}),
        ("lars", {}),
        ("lars", {"momentum": 0.9, "wd": 0.1}),
        ("lars", {"momentum": 0.9, **HALF}),
        ("lbsgd", {"momentum": 0.9, "wd": 0.1}),
        ("lbsgd", {"batch_scale": 2, "warmup_epochs": 1, "updates_per_epoch": 3}),
        ("lbsgd", {"warmup_strategy": "lars"}),
        ("dcasgd", {"wd": 0.1}),
        ("adam", {"wd": 0.1}),
        ("adam", {"clip_gradient": 0.2}),
        ("adam", HALF),
        ("adagrad", {"wd": 0.1, "clip_gradient": 0.3}),
        ("groupadagrad", {}),
        ("rmsprop", {"wd": 0.1}),
        ("rmsprop", {"centered": True, "clip_weights": 0.5}),
        ("adadelta", {"wd": 0.1}),
        ("ftrl", {"wd": 0.1}),
        ("ftml", {"wd": 0.1, "learning_rate": 0.1}),
        ("adamax", {"wd": 0.1, "clip_gradient": 0.3}),
        ("nadam", {"wd": 0.1}),
        ("lamb", {"wd": 0.1}),
        ("lamb", {"bias_correction": False, "lower_bound": 0.5, "upper_bound": 2}),
        ("lamb", HALF),
        ("test", {}),
    ]
}
NAMES = {0: "a_weight", 1: "a_bias", 2: "b_gamma"}


def structure(state):
    """Kinds, shapes and types of a state."""
    if isinstance(state, (tuple, list)):
        return [structure(s) for s in state]
    return None if state is None else [list(state.shape), np.dtype(state.dtype).name]


def values(state):
    """Projections of the arrays of a state."""
    if isinstance(state, (tuple, list)):
        return [values(s) for s in state]
    return None if state is None else project(state)


def measure(mx, name):
    """The weights after each step, the states at the end, their structure, the rate and number of updates."""
    kind, arguments = CASES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        optimizer = mx.optimizer.create(kind, rescale_grad=0.5, param_idx2name=NAMES, **arguments)
    updater = mx.optimizer.get_updater(optimizer)
    dtype = "float16" if optimizer.multi_precision else "float32"
    weights = [mx.nd.array(draw((3, 4), k), dtype=dtype) for k in range(3)]
    steps = []
    for t in range(4):
        grads = [mx.nd.array(draw((3, 4), 10 * t + k + 5), dtype=dtype) for k in range(3)]
        if t < 2:
            for k in range(3):
                updater(k, grads[k], weights[k])
        else:
            updater([0, 1, 2], grads, weights)
        steps.append([project(w) for w in weights])
    return {
        "steps": steps,
        "state": structure(updater.states[0]),
        "states": [values(updater.states[k]) for k in range(3)],
        "aggregate": optimizer.aggregate_num,
        "rate": float(optimizer.learning_rate),
        "updates": optimizer.num_update,
    }
