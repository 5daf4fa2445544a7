# SPDX-License-Identifier: Apache-2.0
"""Records what the real MXNet answers to the calls of ``numpy_calls``.

    python record_numpy_calls.py [topic ...]    # writes numpy_calls.json beside this file; runs in a Python that has MXNet

``calls`` and ``gradients`` are by topic: expression -> answer. An answer is [type, shape, values] of an array, a list of
answers, the text of something else, or {"error": class, "text": last line}; of a gradient a list, one an array in the
order in which the expression makes them. Values are compressed bytes as base64. ``graphs`` has for each topic the nodes
that calls make of Symbols, [operator, attributes] each, calls that make the same ones as another left out.
"""

import base64
import json
import os
import sys
import warnings
import zlib

from numpy_calls import CALLS, GRADIENTS, values

HERE = os.path.dirname(os.path.abspath(__file__))


def packed(x):
    return [str(x.dtype), list(x.shape), base64.b64encode(zlib.compress(x.tobytes(), 9)).decode()]


def answer(run, mx):
    try:
        found = run()
        mx.nd.waitall()
        return shown(found, mx)
    except Exception as e:
        return {"error": type(e).__name__, "text": str(e).strip().split("\n")[-1].replace("MXNetError: ", "")[:160]}


def shown(found, mx):
    if isinstance(found, mx.nd.NDArray):
        return packed(found.asnumpy())
    if isinstance(found, (list, tuple)):
        return [shown(f, mx) for f in found]
    return repr(found)


def runner():
    """(expression, whether its gradients are wanted) -> answer."""
    warnings.simplefilter("ignore")
    import mxnet as mx
    import numpy as onp

    mx.npx.set_np()
    made = []

    def a(kind, shape, low=-3, high=3):
        x = values(onp, kind, shape, low, high)
        made.append(mx.np.array(x, dtype=x.dtype))
        return made[-1]

    scope = {"np": mx.np, "npx": mx.npx, "a": a, "inf": float("inf"), "nan": float("nan")}

    def gradients(call):
        def with_gradient(*args):
            x = a(*args)
            if args[0] != "b1":
                x.attach_grad()
            return x

        made.clear()
        with mx.autograd.record():
            y = eval(call, {**scope, "a": with_gradient})
        heads = list(y) if isinstance(y, (list, tuple)) else [y]
        weights = [mx.np.array(values(onp, "f4", h.shape), dtype=h.dtype) for h in heads]
        mx.autograd.backward(heads, weights)
        return [x.grad if x.grad is not None else 0 for x in made]

    def run(call, slopes):
        return answer((lambda: gradients(call)) if slopes else (lambda: eval(call, dict(scope))), mx)

    return run


def graphs(calls):
    """Expression -> nodes that it makes of Symbols, the first expression for each function and list of nodes."""
    import mxnet as mx

    mx.npx.set_np()
    scope = {"np": mx.sym.np, "npx": mx.sym.npx, "a": lambda *args: mx.sym.var("x").as_np_ndarray()}
    found = {}
    for call in calls:
        try:
            made = eval(call, dict(scope))
            made = made[0] if isinstance(made, (list, tuple)) else made
            nodes = json.loads(made.tojson())["nodes"]
        except Exception:  # of any kind: such calls make no graph, and what arrays raise over them is recorded
            continue
        shown = [[n["op"], n.get("attrs", {})] for n in nodes if n["op"] != "null"]
        for _, attributes in shown:
            attributes.pop("ctx", None)
        found.setdefault((call.partition("(")[0], json.dumps(shown)), (call, shown))
    return dict(found.values())


def answers(calls, slopes):
    """Answers to calls, from a process of its own: MXNet crashes over some, which are answered with None."""
    found = []
    while len(found) < len(calls):
        receive, send = os.pipe()
        process = os.fork()
        if not process:
            run = runner()
            with os.fdopen(send, "w") as out:
                for call in calls[len(found) :]:
                    out.write(json.dumps(run(call, slopes)) + "\n")
                    out.flush()
            os._exit(0)
        os.close(send)
        with os.fdopen(receive) as lines:
            found += [json.loads(line) for line in lines]
        os.waitpid(process, 0)
        if len(found) < len(calls):
            found.append(None)
    return {c: f for c, f in zip(calls, found) if f is not None}


def in_child(function, *args):
    """What a function returns in a process of its own: MXNet is not imported before others are forked."""
    receive, send = os.pipe()
    if not os.fork():
        with os.fdopen(send, "w") as out:
            json.dump(function(*args), out)
        os._exit(0)
    os.close(send)
    with os.fdopen(receive) as found:
        return json.load(found)


def main():
    path = os.path.join(HERE, "numpy_calls.json")
    recorded = json.load(open(path)) if os.path.exists(path) else {"calls": {}, "gradients": {}}
    for topic in sys.argv[1:] or CALLS:
        recorded["calls"][topic] = answers(list(dict.fromkeys(CALLS[topic]())), False)
        slopes = list(dict.fromkeys(GRADIENTS[topic]())) if topic in GRADIENTS else []
        recorded["gradients"][topic] = answers(slopes, True)
        recorded.setdefault("graphs", {})[topic] = in_child(graphs, list(recorded["calls"][topic]))
    with open(path, "w") as f:
        f.write("{")
        for k, part in enumerate(("calls", "gradients", "graphs")):
            f.write(("," if k else "") + f'\n"{part}": {{')
            for j, (topic, rows) in enumerate(recorded[part].items()):
                lines = ",\n".join(f"{json.dumps(c)}: {json.dumps(v)}" for c, v in rows.items())
                f.write(("," if j else "") + f'\n"{topic}": {{\n{lines}\n}}')
            f.write("\n}")
        f.write("\n}\n")


if __name__ == "__main__":
    main()
