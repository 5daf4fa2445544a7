# SPDX-License-Identifier: Apache-2.0
"""Gradients of nets whose parameters, inputs or results are written between the call and the backward pass.

A case is a net and a way to write; what is measured are the gradients of the input and of all parameters, running
averages, and parameters after a further step. MXNet's backward pass takes parameters as they are when it runs, and what
operators have computed as it was; eager and hybridized nets agree there, which is checked.
"""

import os
import re
import tempfile

from against_mxnet.recorded.record import draw, project


def chain(nn, *layers):
    net = nn.HybridSequential(prefix="")
    with net.name_scope():
        net.add(*layers)
    return net


def custom(mx, shapes, body, children=()):
    class Net(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__(prefix="")
            with self.name_scope():
                for k, shape in enumerate(shapes):
                    setattr(self, f"p{k}", self.params.get(f"p{k}", shape=shape))
                for k, make in enumerate(children):
                    setattr(self, f"c{k}", make(mx.gluon.nn))

        def hybrid_forward(self, F, x, **params):
            return body(
                F, x, *[getattr(self, f"c{k}") for k in range(len(children))], *[v for _, v in sorted(params.items())]
            )

    return Net()


#: name -> (shape of the input, net, whether the call is in training mode)
NETS = {
    "dense": (
        (4, 3),
        lambda mx, nn: chain(
            nn, nn.Dense(5, in_units=3, activation="relu"), nn.BatchNorm(in_channels=5), nn.Dense(2, in_units=5)
        ),
        True,
    ),
    "dense, in predict mode": (
        (4, 3),
        lambda mx, nn: chain(
            nn, nn.Dense(5, in_units=3, activation="tanh"), nn.BatchNorm(in_channels=5), nn.Dense(2, in_units=5)
        ),
        False,
    ),
    "convolution": (
        (2, 2, 5, 5),
        lambda mx, nn: chain(
            nn,
            nn.Conv2D(3, 3, in_channels=2),
            nn.BatchNorm(in_channels=3),
            nn.Activation("softrelu"),
            nn.MaxPool2D(2, 1),
            nn.Dense(2, in_units=12),
        ),
        True,
    ),
    "instances": (  # whose result is arranged anew, by two operators
        (2, 3, 2, 3),
        lambda mx, nn: chain(nn, nn.InstanceNorm(scale=True, in_channels=3), nn.Dense(2, in_units=18)),
        True,
    ),
    "normalised": (
        (4, 3),
        lambda mx, nn: chain(nn, nn.Dense(5, in_units=3), nn.LayerNorm(in_channels=5), nn.GELU()),
        True,
    ),
    "elements": (
        (4, 3),
        lambda mx, nn: custom(
            mx,
            [(3,), (1, 3), (3,)],
            lambda F, x, a, b, c: (
                F.broadcast_mul(F.exp(F.broadcast_mul(x, F.tanh(a))) ** 2, b * b) + F.broadcast_add(x, F.softmax(c))
            ),
        ),
        True,
    ),
    "shared": (
        (4, 3),
        lambda mx, nn: custom(
            mx,
            [(3,)],
            lambda F, x, f, n, a: F.broadcast_mul(F.sigmoid(f(n(f(x) * 2))), F.sin(a)),
            [lambda nn: nn.Dense(3, in_units=3, activation="sigmoid"), lambda nn: nn.BatchNorm(in_channels=3)],
        ),
        True,
    ),
    "recurrent": ((3, 2, 3), lambda mx, nn: mx.gluon.rnn.LSTM(4, input_size=3, prefix=""), True),
}


class Run:
    """A net, data and Trainers of their own."""

    def __init__(self, mx, name, flags, ctx):
        self.mx, self.ctx = mx, ctx or mx.cpu()
        shape, make, self.training = NETS[name]
        self.shape, self.net = shape, make(mx, mx.gluon.nn)
        self.net.initialize(ctx=self.ctx)
        self.params = list(self.net.collect_params().values())
        for k, p in enumerate(self.params):
            p.set_data(self.values(k))
        self.after = mx.gluon.nn.HybridLambda(lambda F, y: F.sigmoid(F.exp(y) / 3) * y)
        if flags is not None:
            self.net.hybridize(**flags)
            self.after.hybridize(**flags)
        self.x = self.data(1)
        self.x.attach_grad()
        learned = self.net.collect_params(".*(?<!running_mean)(?<!running_var)$")
        self.trainer = mx.gluon.Trainer(learned, "sgd", {"learning_rate": 0.5, "momentum": 0.9, "wd": 0.01})
        self.adam = mx.gluon.Trainer(self.net.collect_params(), "adam", {"learning_rate": 0.1, "epsilon": 0.01})
        self.store = mx.gluon.Trainer(
            self.net.collect_params(),
            "sgd",
            {"learning_rate": 0.5},
            kvstore=mx.kv.create("local"),
            update_on_kvstore=True,
        )
        for _ in range(2):  # later calls are prepared
            self.backward(self.record(self.data(0)))
            self.trainer.step(4)
        self.backward(self.record(self.data(0)))

    def data(self, seed):
        return self.mx.nd.array(draw(self.shape, seed), ctx=self.ctx)

    def values(self, k, seed=10):
        p = self.params[k]
        low = 0.5 if "var" in p.name else -1
        return self.mx.nd.array(draw(p.shape, seed + k, low), ctx=self.ctx)

    def record(self, x):
        with self.mx.autograd.record(train_mode=self.training):
            self.y = y = self.net(x)
            return (y * y).mean()

    def backward(self, loss, keep=False):
        loss.backward(retain_graph=keep, train_mode=self.training)

    def arrays(self):
        return [p.data() for p in self.params]

    def numbers(self):
        self.mx.nd.waitall()
        found = [number(self.x.grad)]
        for p in self.params:
            found += [number(p.data())] if p.grad_req == "null" else [number(p.grad()), number(p.data())]
        return found


def number(array):
    return float(f"{project(array):.7g}")


def _set_all(run):
    for k, p in enumerate(run.params):
        p.set_data(run.values(k, 30))


def _set_one(run):
    run.params[0].set_data(run.values(0, 30))


def _set_back(run):
    before = [a.copy() for a in run.arrays()]
    _set_all(run)
    for p, a in zip(run.params, before):
        p.set_data(a)


def _load(run):
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "net.params")
        run.net.save_parameters(file)
        run.trainer.step(4)
        _set_one(run)
        run.net.load_parameters(file, ctx=run.ctx)


def _slices(run):
    for k, a in enumerate(run.arrays()):
        a[:] = run.values(k, 30)


def _elements(run):
    for a in run.arrays():
        a[0] = 0.25


def _in_place(run):
    for a in run.arrays():
        a *= 0.5


def _out(run):
    for a in run.arrays():
        run.mx.nd.square(a, out=a)


def _copies(run):
    for k, a in enumerate(run.arrays()):
        run.values(k, 30).copyto(a)


def _views(run):
    for a in run.arrays():
        a.reshape((-1,))[0:1] *= 0.5
        a[0:1][:] = 0.25


def _step(run):
    """With the gradients of the loss before."""
    run.trainer.step(4)


def _adam(run):
    run.adam.step(4)


def _store(run):
    run.store.step(4)


def _retained(run):
    """Of the same loss."""
    run.backward(run.loss, keep=True)
    run.trainer.step(4)


def _twice(run):
    """Two passes, between which there is another write."""
    _retained(run)
    run.backward(run.loss, keep=True)
    _set_one(run)


def _statistics(run):
    for k, p in enumerate(run.params):
        if re.search("running", p.name):
            p.set_data(run.values(k, 30))


def _nested(run):
    """The result goes through the net once more."""
    with run.mx.autograd.record(train_mode=run.training):
        z = run.net(run.x * run.loss)
        run.loss = (z * run.loss).mean()
    _in_place(run)


def _input(run):
    run.x[:] = run.data(5)


def _input_in_part(run):
    run.x[0:1] *= 0.5
    run.x.reshape((-1,))[1:3] = 2
    run.x[1][:] = 0.25


def _input_and_parameters(run):
    _input(run)
    _set_all(run)
    run.x *= 0.5
    _in_place(run)


def _input_twice(run):
    """Written after each of two passes."""
    run.backward(run.loss, keep=True)
    _input(run)
    run.backward(run.loss, keep=True)
    run.x *= 0.5


def _constant_input(run):
    """An array of which no gradient is wanted is read into anew, as by a loop over batches."""
    batch = run.data(3)
    run.loss = run.record(batch)
    batch[:] = run.data(4)


def _result(run):
    """The result goes through another net, and is written."""
    with run.mx.autograd.record(train_mode=run.training):
        run.loss = run.after(run.y).mean()
    run.y *= 0.5


def _two_results(run):
    with run.mx.autograd.record(train_mode=run.training):
        z = run.after(run.y)
        run.loss = (z * run.loss).mean()
    z[:] = 0.25
    run.y[0] = 0.75


_INPUTS = {
    "input": _input,
    "input, in part": _input_in_part,
    "input and parameters": _input_and_parameters,
    "input, two passes": _input_twice,
    "input without a gradient": _constant_input,
}
_RESULTS = {"result": _result, "results": _two_results}
WRITES = {
    "set all": _set_all,
    "set one": _set_one,
    "set back": _set_back,
    "load": _load,
    "slices": _slices,
    "elements": _elements,
    "in place": _in_place,
    "out": _out,
    "copies": _copies,
    "views": _views,
    "step": _step,
    "adam": _adam,
    "store": _store,
    "step for the same loss": _retained,
    "two passes": _twice,
    "statistics": _statistics,
    "two calls": _nested,
    **_INPUTS,
    **_RESULTS,
}
#: what these keep for their backward passes besides arguments and results is not what ours keep: theirs shows no write
KEEPING = {"instances": _INPUTS, "recurrent": {*_INPUTS, *_RESULTS}}
CASES = [f"{net}: {write}" for net in NETS for write in WRITES if write not in KEEPING.get(net, ())]


def follow(mx, case, flags, ctx=None):
    """What is measured of a case."""
    name, _, write = case.partition(": ")
    run = Run(mx, name, flags, ctx)
    run.loss = run.record(run.x)
    WRITES[write](run)
    run.backward(run.loss)
    found = run.numbers()
    run.trainer.step(4)
    return found + run.numbers()


def measure(mx, case):
    from against_mxnet.recorded.record import same

    found = follow(mx, case, None)
    if mx.__name__ == "mxnet":
        for flags in ({}, {"static_alloc": True, "static_shape": True}):
            assert same(follow(mx, case, flags), found), case
    return found
