# SPDX-License-Identifier: Apache-2.0
"""Measures writes between call and backward pass, layers, losses, optimizers, metrics,
derivatives of gradients, states, training, tutorials and updates with MXNet or hybridgpu.

    python record.py mxnet [NAME …]     # writes the families, or those named, into numbers.json beside this file
    python record.py hybridgpu [NAME …] # prints them

The modules beside this one hold the cases; each has ``CASES`` and ``measure(mx, name)``, which gives
what the test compares: texts exactly, numbers nearly. Arrays are projected on a fixed vector.
The files run under Python 3.8, as MXNet needs.
"""

import importlib
import json
import os
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
FAMILIES = (
    "between",
    "internals",
    "layers",
    "losses",
    "metrics",
    "optimizers",
    "second_order",
    "states",
    "training",
    "tutorials",
    "updates",
)
#: those that are measured in np mode, too
IN_NP_MODE = ("layers", "losses", "training")
EVERY = (*FAMILIES, *(f"{name} np" for name in IN_NP_MODE))


def draw(shape, seed, low=-1, high=1):
    """The same float32 numbers under every version of NumPy."""
    return np.random.RandomState(seed).uniform(low, high, shape).astype("float32")


def project(array):
    """One number that depends on every element and its place."""
    a = (array.asnumpy() if hasattr(array, "asnumpy") else np.asarray(array)).astype("float64").ravel()
    return float(a @ np.cos(np.arange(a.size) * 0.7 + 0.2))


def array(mx, values):
    """An array of nd, or of np in np mode, in float32."""
    return mx.np.array(values, dtype="float32") if mx.util.is_np_array() else mx.nd.array(values)


def in_np_mode(mx, module, case, **options):
    """What ``measure`` gives in np mode; where that raises, the class of the error."""
    mx.npx.set_np()
    try:
        return module.measure(mx, case, **options)
    except Exception as e:
        return {"raises": type(e).__name__}
    finally:
        mx.npx.reset_np()


def family(name):
    sys.path.insert(0, os.path.dirname(os.path.dirname(HERE)))
    return importlib.import_module("against_mxnet.recorded." + name)


def recorded(name):
    """What MXNet gave: case -> measurement; ``name`` may end in ' np'."""
    with open(os.path.join(HERE, "numbers.json")) as f:
        return json.load(f)[name]


def same(ours, theirs, rtol=1e-4, atol=2e-5):
    """True if two measurements agree: texts and structure exactly, numbers nearly."""
    if isinstance(theirs, dict):
        return set(ours) == set(theirs) and all(same(ours[k], theirs[k], rtol, atol) for k in theirs)
    if isinstance(theirs, list):
        return len(ours) == len(theirs) and all(same(a, b, rtol, atol) for a, b in zip(ours, theirs))
    if isinstance(theirs, float):
        return bool(np.isclose(ours, theirs, rtol, atol, equal_nan=True))
    return ours == theirs


def main():
    mx = importlib.import_module(sys.argv[1])
    found = {}
    if sys.argv[1] == "mxnet" and sys.argv[2:]:
        found = {name: recorded(name) for name in EVERY if name not in sys.argv[2:]}
    for name in sys.argv[2:] or EVERY:
        module = family(name.partition(" ")[0])
        if name.endswith(" np"):
            found[name] = {case: in_np_mode(mx, module, case) for case in module.CASES}
        else:
            found[name] = {case: module.measure(mx, case) for case in module.CASES}
    file = os.path.join(HERE, "numbers.json")
    found = {name: found[name] for name in EVERY if name in found}
    text = json.dumps(found, indent=None, separators=(",", ":")).replace('},"', '},\n"')
    if sys.argv[1] == "mxnet":
        with open(file, "w") as f:
            f.write(text + "\n")
    else:
        print(text)


if __name__ == "__main__":
    main()
