# SPDX-License-Identifier: Apache-2.0
"""When operators change their states: running averages after each step of small programs.

A case is a net, the parameters that are frozen, and steps; after each step the states are measured. MXNet runs them
eagerly and hybridized (with static memory, too, which makes no difference there), and others as executors.
"""

import re

from against_mxnet.recorded.record import draw, project, same

SHAPE = (4, 3)
WAYS = {"eager": None, "hybridized": {}, "static": {"static_alloc": True, "static_shape": True}}


def dense(nn):
    return nn.Dense(3, in_units=3, weight_initializer="ones", bias_initializer="ones")


def batch(**attributes):
    return lambda nn: nn.BatchNorm(in_channels=3, **attributes)


def sync(nn):
    from importlib import import_module

    return import_module(nn.__name__.replace("gluon.nn", "gluon.contrib.nn")).SyncBatchNorm(
        in_channels=3, num_devices=1
    )


CHAIN = (dense, batch(), dense)
#: name -> (layers, what they compute)
NETS = {
    "chain": (CHAIN, lambda F, f, g, h, x: h(g(f(x)))),
    "alone": ((batch(),), lambda F, f, x: f(x)),
    "stack": ((batch(), dense, batch(), dense, batch()), lambda F, a, b, c, d, e, x: e(d(c(b(a(x))))) ** 2),
    "first": ((batch(scale=False, center=False), dense, batch()), lambda F, f, g, h, x: h(g(f(x))) ** 2),
    "fixed": ((dense, batch(scale=False), dense), lambda F, f, g, h, x: h(g(f(x)))),
    "global": ((dense, batch(use_global_stats=True, scale=False), dense), lambda F, f, g, h, x: h(g(f(x)))),
    "shared": (CHAIN, lambda F, f, g, h, x: h(g(f(x)) + g(x * 3))),
    "heads": ((dense, batch(), dense, batch()), lambda F, a, b, c, d, x: [a(x), b(c(x)), F.sum(d(x))]),
    "blocked above": (CHAIN, lambda F, f, g, h, x: h(F.BlockGrad(g(f(x))))),
    "blocked below": (CHAIN, lambda F, f, g, h, x: h(g(F.BlockGrad(f(x))))),
    "rounded above": (CHAIN, lambda F, f, g, h, x: F.round(h(g(f(x))))),
    "rounded below": (CHAIN, lambda F, f, g, h, x: h(g(F.round(f(x))))),
    "condition below": (CHAIN, lambda F, f, g, h, x: h(g(F.where(f(x), x, x)))),
    "shape below": (CHAIN, lambda F, f, g, h, x: h(g(F.reshape_like(x, f(x))))),
    "synchronized": ((dense, sync, dense), lambda F, f, g, h, x: h(g(f(x)))),
}
WHOLE = "predict,train,record,backward keep,backward keep,backward,record,backward"
#: name -> (net, regular expression of frozen parameters, steps)
PROGRAMS = {
    "chain": ("chain", "", WHOLE),
    "chain in predict mode": (
        "chain",
        "",
        "record predict,backward predict,record,backward predict,record predict,backward",
    ),
    "chain, zero head gradient": ("chain", "", "record,backward zero"),
    "chain below the head": (
        "chain",
        "[01]_",
        "record,backward,record x,backward,record,backward,record x,grad 2_weight",
    ),
    "chain, gradient of the data": ("chain", "[01]_", "record x,grad x,record x,grad 2_bias"),
    "chain, only gamma": ("chain", "0_|1_beta|2_", "record,backward keep,backward"),
    "chain, only beta": ("chain", "0_|1_gamma|2_", "record,backward keep,backward"),
    "chain, frozen layer": ("chain", "1_", "record,backward"),
    "chain, partial gradients": ("chain", "", "record,grad 2_weight,record,grad 0_bias,record,grad 1_beta"),
    "alone": ("alone", "", WHOLE),
    "alone, frozen": ("alone", ".", "predict,record x,backward"),
    "stack, middle frozen": ("stack", "[12]_", "record,backward"),
    "stack, lower half frozen": ("stack", "[012]_", "record,backward,record x,backward"),
    "stack, one dense layer": ("stack", "[0234]_", "record,backward"),
    "stack, one beta": ("stack", "0_gamma|[1234]_", "record,backward"),
    "first": ("first", "", "predict,train,record,backward,record x,backward"),
    "fixed": ("fixed", "", WHOLE),
    "fixed, frozen": ("fixed", "[01]_", "predict,train,record,backward"),
    "fixed, in predict mode": ("fixed", "", "record predict"),
    "global": ("global", "", "predict,train,record,backward"),
    "shared": ("shared", "", "record,backward keep,backward"),
    "shared, frozen": ("shared", "1_", "record,backward"),
    "heads": (
        "heads",
        "",
        "record 0,backward,record 1,backward,record 2,backward,record,grad 0_weight,record,grad 2_weight",
    ),
    **{
        name: (name, frozen, "record,backward")
        for name, frozen in {
            "blocked above": "",
            "blocked below": "1_",
            "rounded above": "",
            "rounded below": "1_",
            "condition below": "1_",
            "shape below": "1_",
        }.items()
    },
    "synchronized": ("synchronized", "", WHOLE),
    "synchronized, frozen": ("synchronized", "[01]_", "record,backward"),
}
#: gradients wanted of an executor's arguments
EXECUTORS = {
    "executor": "data f_weight f_bias n_gamma n_beta h_weight h_bias",
    "executor, nothing": "",
    "executor, head": "h_weight",
    "executor, gamma": "n_gamma",
    "executor, beta": "n_beta",
    "executor, data": "data",
    "executor, below": "f_bias",
}
#: nets that compute a block's results again in the backward pass: how often the block stands above that
RECOMPUTED = {"recomputed": 1, "recomputed, below two": 2}
CASES = [*PROGRAMS, *EXECUTORS, "sparseness", *RECOMPUTED]


def build(mx, name):
    """The net with parameters that do not depend on the library."""
    layers, body = NETS[name]

    class Net(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__(prefix="")
            with self.name_scope():
                self.names = []
                for k, make in enumerate(layers):
                    setattr(self, f"l{k}", make(mx.gluon.nn))
                    self.names.append(f"l{k}")

        def hybrid_forward(self, F, x):
            return body(F, *[getattr(self, n) for n in self.names], x)

    return Net()


def number(array):
    return float(f"{project(array):.7g}")


def norms(net):
    return [getattr(net, n) for n in net.names if hasattr(getattr(net, n), "running_mean")]


def follow(mx, name, flags, ctx=None):
    """[step, states of every layer] after each step of a program."""
    kind, frozen, steps = PROGRAMS[name]
    ctx = ctx or mx.cpu()
    net = build(mx, kind)
    net.initialize(ctx=ctx)
    named = {}
    for k, layer in enumerate(net.names):
        for p in getattr(net, layer).collect_params().values():
            own = re.sub(".*_(?=weight|bias|gamma|beta|running)", "", p.name)
            named[f"{k}_{own}"] = p
    for key, p in named.items():
        if key.endswith("gamma"):
            p.set_data(mx.nd.array([2.0] * 3))
        if frozen and re.match(frozen, key):
            p.grad_req = "null"
    if flags is not None:
        net.hybridize(**flags)

    def states():
        mx.nd.waitall()
        return [number(p.data()) for b in norms(net) for p in (b.running_mean, b.running_var, b.gamma)]

    found = []
    for step in steps.split(","):
        word, _, rest = step.partition(" ")
        if word in ("predict", "train", "record"):
            data = mx.nd.array(draw(SHAPE, 5, -1, 3), ctx=ctx)
            for b in norms(net):  # what a fixed gamma becomes
                if word != "predict":
                    b.gamma.set_data(mx.nd.array([2.0] * 3))
        if word == "predict":
            net(data)
        elif word == "train":
            with mx.autograd.train_mode():
                net(data)
        elif word == "record":
            if rest == "x":
                data.attach_grad()
            with mx.autograd.record(train_mode=rest != "predict"):
                y = net(data)
                if isinstance(y, (list, tuple)):
                    y = sum(v.sum() for v in y) if rest not in ("0", "1", "2") else y[int(rest)].sum()
                else:
                    y = y.sum()
        elif word == "grad":
            mx.autograd.grad(y, [data if rest == "x" else named[rest].data()])
        elif rest == "zero":
            y.backward(mx.nd.zeros(y.shape, ctx=ctx))
        else:
            y.backward(retain_graph=rest == "keep", train_mode=rest != "predict")
        found.append([step, states()])
    return found


def bound(mx, name):
    """[step, states] of an executor."""
    sym = mx.sym
    wanted = EXECUTORS[name].split()
    h = sym.FullyConnected(sym.var("data"), num_hidden=3, name="f")
    h = sym.BatchNorm(h, name="n", fix_gamma=False, momentum=0.9)
    h = sym.FullyConnected(h, num_hidden=2, name="h")
    requests = {n: "write" if n in wanted else "null" for n in h.list_arguments()}
    executor = h.simple_bind(mx.cpu(), data=SHAPE, grad_req=requests)
    for k, (_, a) in enumerate(sorted(executor.arg_dict.items())):
        a[:] = mx.nd.array(draw(a.shape, k))
    executor.aux_dict["n_moving_mean"][:] = 0
    executor.aux_dict["n_moving_var"][:] = 1
    head = mx.nd.array(draw((4, 2), 9))
    found = []

    def states(step):
        mx.nd.waitall()
        found.append([step, [number(a) for _, a in sorted(executor.aux_dict.items())]])

    executor.forward(is_train=False)
    states("predict")
    executor.forward(is_train=True)
    states("train")
    for _ in range(2):
        executor.backward(head)
        states("backward")
    executor.forward(is_train=True)
    executor.backward(head, is_train=False)
    states("backward predict")
    return found


def sparseness(mx):
    """[step, state] of the operator whose average changes in every backward pass."""
    y = mx.sym.IdentityAttachKLSparseReg(mx.sym.var("data"), name="kl")
    executor = y.simple_bind(mx.cpu(), data=SHAPE, grad_req="write")
    executor.arg_dict["data"][:] = mx.nd.array(draw(SHAPE, 3, 0.1, 0.9))
    executor.aux_arrays[0][:] = 0.5
    found = []
    for step in ("predict", "train", "backward", "backward"):
        if step == "backward":
            executor.backward(mx.nd.ones(SHAPE))
        else:
            executor.forward(is_train=step == "train")
        mx.nd.waitall()
        found.append([step, number(executor.aux_arrays[0])])
    return found


def recomputed(mx, name, flags, ctx=None):
    """[step, states] of a block under itself, whose lower call is recorded in the backward pass (gradient checkpointing)."""
    nd, autograd = mx.nd, mx.autograd
    block = mx.gluon.nn.HybridSequential(prefix="")
    with block.name_scope():
        block.add(mx.gluon.nn.Dense(3, in_units=3), mx.gluon.nn.BatchNorm(in_channels=3, momentum=0.5))
    block.initialize(ctx=ctx)
    params = block.collect_params()
    for k, (_, p) in enumerate(sorted(params.items())):
        p.set_data(nd.array(draw(p.shape, k, 0.5, 1.5)))
    if flags is not None:
        block.hybridize(**flags)

    class Checkpoint(autograd.Function):
        def forward(self, x):
            self.save_for_backward(x)
            with autograd.pause():
                return block(x)

        def backward(self, dy):
            z = self.saved_tensors[0].copy()
            z.attach_grad()
            with autograd.record():
                y = block(z)
            y.backward(dy)
            return z.grad

    found = []
    for step in range(4):  # later calls are prepared
        x = nd.array(draw((4, 3), 20 + step, -1, 3), ctx=ctx)
        x.attach_grad()
        with autograd.record():
            y = Checkpoint()(x)
            for _ in range(RECOMPUTED[name]):
                y = block(y)
            loss = (y * y * y).sum()
        loss.backward()
        mx.nd.waitall()
        found.append([step, number(x.grad), [number(p.data()) for n, p in sorted(params.items()) if "running" in n]])
    return found


def measure(mx, name):
    if name in RECOMPUTED:
        found = [recomputed(mx, name, flags) for flags in WAYS.values()]
        assert all(same(f, found[0]) for f in found), name
        return found[0]
    if name in PROGRAMS:
        found = {way: follow(mx, name, flags) for way, flags in WAYS.items()}
        assert found.pop("static") == found["hybridized"]
        return found
    return sparseness(mx) if name == "sparseness" else bound(mx, name)
