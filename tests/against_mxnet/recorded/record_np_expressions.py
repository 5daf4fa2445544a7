# SPDX-License-Identifier: Apache-2.0
"""Records what calls of np and npx give in the real MXNet: the rows of ``np_expressions/*.txt``, which tests/np/test_expressions.py runs here.

    python record_np_expressions.py [TOPIC …]   # writes np_expressions/TOPIC.json; runs in a Python that has MXNet

A row is an expression over ``np``, ``npx``, ``nd``, ``mx``, ``onp`` (NumPy) and the functions below. In front of it may stand

    ?   the values are random: kinds, types and shapes count
    ~   an error is one of this class, its words are not compared
"""

import glob
import json
import os
import sys

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "np_expressions")


def rows(topic):
    """(mark, expression) of a topic."""
    with open(os.path.join(HERE, topic + ".txt")) as f:
        lines = [line.rstrip("\n") for line in f]
    return [
        (x[0] if x[:2] in ("? ", "~ ") else "", x[2:] if x[:2] in ("? ", "~ ") else x)
        for x in lines
        if x and x[0] != "#"
    ]


def names(mx):
    """What expressions may use."""
    import numpy

    def grad(f, *arrays):
        """Gradients of a sum of results, each with a weight of its own."""
        arrays = [a if isinstance(a, mx.nd.NDArray) else mx.np.array(a) for a in arrays]
        for a in arrays:
            a.attach_grad()
        with mx.autograd.record():
            y = f(*arrays)
            total = 0
            for k, v in enumerate(y if isinstance(y, (list, tuple)) else [y]):
                weights = mx.np.array(numpy.cos(numpy.arange(v.size)).reshape(v.shape) + k, dtype=v.dtype)
                total = total + (v * weights).sum()
        total.backward()
        return [a.grad for a in arrays]

    def recorded(f, *arrays):
        """A call while gradients are recorded."""
        for a in arrays:
            a.attach_grad()
        with mx.autograd.record():
            return f(*arrays)

    def seq(*shape, dtype="float32"):
        """Different numbers of both signs."""
        n = int(numpy.prod(shape))
        return mx.np.array((numpy.sin(numpy.arange(n) * 2.0) * 3).reshape(shape), dtype=dtype)

    def spd(*shape, dtype="float32"):
        """Symmetric positive definite matrices."""
        a = numpy.sin(numpy.arange(int(numpy.prod(shape))) ** 1.5).reshape(shape)
        return mx.np.array(a @ numpy.swapaxes(a, -1, -2) + 2 * numpy.eye(shape[-1]), dtype=dtype)

    found = {"mx": mx, "np": mx.np, "npx": mx.npx, "nd": mx.nd, "onp": numpy}

    def put(key, value):
        """``seq(2,3)`` with a part replaced."""
        x = seq(2, 3)
        x[key] = value
        return x

    return {**found, "put": put, "grad": grad, "recorded": recorded, "seq": seq, "spd": spd}


def described(mx, value):
    """A result as JSON holds it."""
    if isinstance(value, (list, tuple)):
        return [described(mx, v) for v in value]
    if isinstance(value, mx.nd.NDArray):
        a = value.asnumpy()
        kind = "np" if isinstance(value, mx.np.ndarray) else "nd"
        return {
            "array": kind,
            "dtype": str(a.dtype),
            "shape": list(a.shape),
            "values": [text(v) for v in a.ravel().tolist()],
        }
    return {"type": type(value).__name__, "value": text(value) if isinstance(value, (bool, int, float)) else str(value)}


def text(v):
    """A number; those that JSON does not have as text."""
    if isinstance(v, complex):
        return [text(v.real), text(v.imag)]
    if isinstance(v, float):
        return v if v - v == 0 else str(v)
    return v


def answer(mx, expression):
    """What an expression gives: a result or an error."""
    try:
        return described(mx, eval(expression, names(mx)))
    except Exception as e:
        lines = [x for x in str(e).splitlines() if x.strip() and x[:2] != "  " and not x.startswith("Traceback")]
        first = lines[0] if lines else ""
        return {"error": type(e).__name__, "text": first.split(type(e).__name__ + ": ", 1)[-1]}


def apart(mx, expression):
    """``answer`` of a process of its own: an error inside MXNet can spoil the next call, or end the process."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        mx.npx.set_np()
        with os.fdopen(writer, "w") as f:
            json.dump(answer(mx, expression), f)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as f:
        said = f.read()
    os.waitpid(child, 0)
    return json.loads(said) if said else {"error": "crash", "text": ""}


def main(topics):
    import mxnet as mx

    for topic in topics or sorted(os.path.basename(f)[:-4] for f in glob.glob(os.path.join(HERE, "*.txt"))):
        found = [[e, apart(mx, e)] for _, e in rows(topic)]
        with open(os.path.join(HERE, topic + ".json"), "w") as f:
            f.write("[\n" + ",\n".join(json.dumps(x) for x in found) + "\n]\n")


if __name__ == "__main__":
    main(sys.argv[1:])
