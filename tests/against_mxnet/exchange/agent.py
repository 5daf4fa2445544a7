# SPDX-License-Identifier: Apache-2.0
"""Makes files of the nets, and uses files that somebody made; with hybridgpu here, with MXNet in its own Python.

python agent.py make FOLDER           # a subfolder a net: files, inputs and results
python agent.py use FOLDER RESULTS    # imports them, and writes results and the files once more
python agent.py train FOLDER OPTIMIZERS
"""

from __future__ import annotations

import ast
import json
import os
import sys
import traceback

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from against_mxnet.exchange import layers, nets, np_nets
from against_mxnet.exchange.nets import array, draw, files, fill

NETS = {**nets.NETS, **layers.NETS, **np_nets.NETS}


def flat(value):
    """The arrays of a result in order."""
    return [a for v in value for a in flat(v)] if isinstance(value, (list, tuple)) else [value]


def run(mx, net, arrays, train):
    """Name -> numbers: outputs, and gradients of inputs and parameters."""
    found = {}
    inputs = [array(mx, a, a.dtype) for a in arrays]
    for x, a in zip(inputs, arrays):
        if not (a == a.round()).all():  # MXNet differentiates no indices
            x.attach_grad()
    for p in net.collect_params().values():
        if p.grad_req != "null":
            p.grad()[slice(None) if p.shape else ()] = 0  # MXNet's zero_grad takes no arrays of np
    with mx.autograd.record(train_mode=train):
        outputs = flat(net(*inputs))
    heads = [
        (o, array(mx, np.random.RandomState(k).normal(size=o.shape), o.dtype))
        for k, o in enumerate(outputs)
        if np.dtype(o.dtype).kind == "f"
    ]
    mx.autograd.backward(*map(list, zip(*heads)), train_mode=train)
    for k, o in enumerate(outputs):
        found[f"output{k}"] = o.asnumpy()
    for k, x in enumerate(inputs):
        if x.grad is not None:
            found[f"input{k} gradient"] = x.grad.asnumpy()
    for name, p in net.collect_params().items():
        if p.grad_req != "null":
            found[name + " gradient"] = p.grad().asnumpy()
        elif "running" in name:
            found[name] = p.data().asnumpy()
    return found


def results(mx, net, case, arrays):
    """Predictions; then one step with gradients, in training mode unless that is random."""
    predicted = flat(net(*[array(mx, a, a.dtype) for a in arrays]))
    found = {f"predict output{k}": o.asnumpy() for k, o in enumerate(predicted)}
    found.update(("step " + k, v) for k, v in run(mx, net, arrays, case.train).items())
    return found


def make(mx, name, folder):
    """Files of a net in ``folder``, with what it computes."""
    case = NETS[name]
    net = case.make(mx, name)
    net.initialize()
    net.hybridize()
    arrays = draw(case, name)
    inputs = [array(mx, a, a.dtype) for a in arrays]
    net(*inputs)
    fill(mx, net)
    mx.nd.waitall()
    net.export(os.path.join(folder, "net"), epoch=0)
    net.save_parameters(os.path.join(folder, "net.params"))
    symbol = mx.sym.load(os.path.join(folder, "net-symbol.json"))
    symbol.save(os.path.join(folder, "again-symbol.json"))
    files(mx).save(os.path.join(folder, "list.params"), [p.data() for p in net.collect_params().values()] + inputs)
    known = set(net.collect_params())
    names = [n for n in symbol.list_inputs() if n not in known]
    with open(os.path.join(folder, "inputs.json"), "w") as f:
        json.dump(names, f)
    np.savez(os.path.join(folder, "results.npz"), **results(mx, net, case, arrays))


def use(mx, name, folder, out):
    """Import a net's files from ``folder``; write its results, and the files again, to ``out``."""
    case = NETS[name]
    arrays = draw(case, name)
    with open(os.path.join(folder, "inputs.json")) as f:
        names = json.load(f)
    graph, params = os.path.join(folder, "net-symbol.json"), os.path.join(folder, "net-0000.params")
    net = mx.gluon.SymbolBlock.imports(graph, names, params)
    files(mx).save(os.path.join(out, "net-0000.params"), files(mx).load(params))
    files(mx).save(os.path.join(out, "net.params"), files(mx).load(os.path.join(folder, "net.params")))
    files(mx).save(os.path.join(out, "list.params"), files(mx).load(os.path.join(folder, "list.params")))
    mx.sym.load(graph).save(os.path.join(out, "net-symbol.json"))
    mx.sym.load(os.path.join(folder, "again-symbol.json")).save(os.path.join(out, "again-symbol.json"))
    with open(os.path.join(out, "inputs.json"), "w") as f:
        json.dump(names, f)
    found = {"imports " + k: v for k, v in results(mx, net, case, arrays).items()}

    symbol, saved = mx.sym.load(graph), files(mx).load(params) or {}
    arguments = {k[4:]: v for k, v in saved.items() if k.startswith("arg:")}
    states = {k[4:]: v for k, v in saved.items() if k.startswith("aux:")}
    arguments.update(zip(names, (array(mx, a, a.dtype) for a in arrays)))
    bound = symbol.bind(mx.cpu(), arguments, aux_states=states)
    for k, o in enumerate(bound.forward(is_train=False)):
        found[f"bind output{k}"] = o.asnumpy()
    # the structure of "symbols" is its graph; where no name has a dot, MXNet takes arrays of np for arrays of nd
    if name != "symbols" and not (mx.util.is_np_array() and not any("." in n for n in again_names(mx, folder))):
        again = case.make(mx, name)
        again.load_parameters(os.path.join(folder, "net.params"))
        found.update(("structure " + k, v) for k, v in results(mx, again, case, arrays).items())
    np.savez(os.path.join(out, "results.npz"), **found)


def again_names(mx, folder):
    """The names in a file of parameters."""
    saved = files(mx).load(os.path.join(folder, "net.params"))
    return list(saved) if isinstance(saved, dict) else []


def train(mx, folder, name, options, resume):
    """Weights after four steps of an optimizer, the states saved after two; ``resume``: only the last two."""
    params = os.path.join(str(folder), name + ".params")
    states = os.path.join(str(folder), name + ".states")
    net = mx.gluon.nn.Dense(3, in_units=4, prefix="dense_")
    net.initialize()
    fill(mx, net)
    if resume:
        net.load_parameters(params)
    trainer = mx.gluon.Trainer(net.collect_params(), name, options)
    if resume:
        trainer.load_states(states)
    for step in range(2 if resume else 0, 4):
        if step == 2 and not resume:
            net.save_parameters(params)
            trainer.save_states(states)
        x = mx.nd.array(np.random.RandomState(step).normal(size=(5, 4)))
        with mx.autograd.record():
            loss = (net(x) ** 2).sum()
        loss.backward()
        trainer.step(5)
    return {k: p.data().asnumpy() for k, p in net.collect_params().items()}


def work(mx, mode, folder, out=None, names=None):
    """All nets; errors go into files of their own, so that one net does not hide the others."""
    for name in NETS if names is None else names:
        there = os.path.join(folder, name)
        target = there if mode == "make" else os.path.join(out, name)
        if mode == "use" and not os.path.exists(os.path.join(there, "net-symbol.json")):
            continue
        os.makedirs(target, exist_ok=True)
        with mx.name.NameManager():  # automatic names from 0 on
            if name.startswith("np "):
                mx.npx.set_np()
            try:
                if mode == "make":
                    make(mx, name, there)
                else:
                    use(mx, name, there, target)
            except Exception:  # whatever a library raises over a net is what is told of it
                with open(os.path.join(target, "error.txt"), "w") as f:
                    f.write(traceback.format_exc())
            finally:
                mx.npx.reset_np()


if __name__ == "__main__":
    import mxnet

    if sys.argv[1] == "train":
        for kind, options in ast.literal_eval(sys.argv[3]):
            np.savez(os.path.join(sys.argv[2], kind + ".npz"), **train(mxnet, sys.argv[2], kind, options, False))
    else:
        work(mxnet, *sys.argv[1:])
