# SPDX-License-Identifier: Apache-2.0
"""Derivatives of gradients, where what they depend on is written between the two.

MXNet differentiates a gradient operator by operator: each takes its arguments as they are when the second backward pass runs,
and results as they were. It refuses to differentiate twice what is hybridized, so that its numbers are eager ones.
"""

from against_mxnet.recorded.record import draw, project


def net(mx, body, flags):
    class Net(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__(prefix="")
            with self.name_scope():
                self.a = self.params.get("a", shape=(2, 3))
                self.b = self.params.get("b", shape=(2, 3))

        def hybrid_forward(self, F, x, a, b):
            return body(F, x, a, b)

    made = Net()
    made.initialize()
    if flags is not None:
        made.hybridize(**flags)
    return made


#: MXNet differentiates few operators twice: no products of two arrays, and a FullyConnected rightly where it comes last;
#: the factor 2x of a square it finds by dividing its gradient by the one that came, so that a new x does not show
NETS = {
    "sum": lambda F, x, a, b: F.sin(F.elemwise_add(F.exp(x), F.elemwise_add(F.sin(a), b))),
    "chain": lambda F, x, a, b: F.exp(F.sin(F.elemwise_add(F.tanh(x), F.elemwise_add(F.log(a), F.cos(b))))),
    "logarithm": lambda F, x, a, b: F.log(F.square(F.elemwise_add(F.sigmoid(x), F.elemwise_add(a, F.exp(b))))),
    "products": lambda F, x, a, b: F.elemwise_add(
        F.FullyConnected(F.sin(x), F.exp(a), num_hidden=2, no_bias=True),
        F.FullyConnected(x, F.tanh(b), num_hidden=2, no_bias=True),
    ),
}


def _parameters(run):
    run.net.a.set_data(run.array((2, 3), 20))
    run.net.b.set_data(run.array((2, 3), 21))


def _parameters_in_place(run):
    run.net.a.data()[:] *= 1.5
    run.net.b.data()[1] = 0.25


def _step(run):
    run.trainer.step(1)


def _input(run):
    run.x[:] = run.array((2, 3), 22)


def _all(run):
    _input(run)
    _parameters_in_place(run)
    _step(run)


WRITES = {
    "nothing": lambda run: None,
    "parameters": _parameters,
    "parameters in place": _parameters_in_place,
    "step": _step,
    "input": _input,
    "all": _all,
}
TIMES = ("before", "between")
CASES = [
    f"{net}: {write} {time}"
    for net in NETS
    for write in WRITES
    for time in TIMES
    if (write, time) != ("nothing", "before")
]


class Run:
    def __init__(self, mx, name, flags):
        self.mx, self.net = mx, net(mx, NETS[name], flags)
        for k, p in enumerate((self.net.a, self.net.b)):
            p.set_data(self.array((2, 3), k))
        self.trainer = mx.gluon.Trainer(self.net.collect_params(), "sgd", {"learning_rate": 0.1})
        self.x = self.array((2, 3), 2)
        self.x.attach_grad()
        for _ in range(2):  # later calls are prepared
            with mx.autograd.record():
                y = self.net(self.x)
            y.backward()

    def array(self, shape, seed):
        return self.mx.nd.array(draw(shape, seed, 0.5))

    def numbers(self):
        return [float(f"{project(g):.7g}") for g in (self.x.grad, self.net.a.grad(), self.net.b.grad())]


def follow(mx, case, flags):
    """The gradients of a loss of gradients."""
    name, _, rest = case.partition(": ")
    write, _, time = rest.rpartition(" ")
    run = Run(mx, name, flags)
    with mx.autograd.record():
        y = run.net(run.x)
    if time == "before":
        WRITES[write](run)
    with mx.autograd.record():
        wanted = [run.x, run.net.a.data()]
        found = mx.autograd.grad(y, wanted, create_graph=True, retain_graph=True)
        loss = (found[0] * found[0]).sum() + found[1].sum()
    if time == "between":
        WRITES[write](run)
    loss.backward()
    return run.numbers()


def measure(mx, case):
    return follow(mx, case, None)
