# SPDX-License-Identifier: Apache-2.0
"""Scripts of random Gluon programs: one text for hybridgpu and MXNet, run eagerly or hybridized.

A program is drawn as numbers (``generate.py``); this module writes them as Python that a person can run. A layer that does
not fit the shape in front of it is left out, so that every draw is a program and Hypothesis can shrink it freely.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

__all__ = ["ACTIONS", "LAYERS", "Action", "Layer", "Program", "Way", "in_float64", "render"]

Shape = tuple[int, ...]  #: of one sample, without the batch


@dataclass(frozen=True)
class Layer:
    """A layer as drawn: its kind, a number that its options are chosen by, and layers inside."""

    kind: str
    number: int
    inside: tuple[Layer, ...] = ()


@dataclass(frozen=True)
class Action:
    """Something that the program does with its net."""

    kind: str
    number: int


@dataclass(frozen=True)
class Program:
    """A net, its trainers, and what is done with them in turn."""

    source: int  #: kind of input and element type
    layers: tuple[Layer, ...]
    trainers: tuple[int, ...]
    actions: tuple[Action, ...]


@dataclass(frozen=True)
class Way:
    """How a script is run: by which package, whether blocks are hybridized, and with which flags."""

    name: str
    module: str = "hybridgpu"
    hybridize: bool = False
    flags: str = ""
    context: str = "cpu"


class Choice:
    """Options chosen by the digits of a number: small numbers choose the first ones, so they shrink to those."""

    def __init__(self, number: int) -> None:
        self._number = number

    def of(self, *options):
        self._number, digit = divmod(self._number, len(options))
        return options[digit]


_HEADER = '''\
import contextlib, copy, os, pickle, tempfile, warnings, zlib
import numpy as np
import {module} as mx
from {module} import autograd, gluon, nd
from {module}.gluon import nn, rnn

CTX = mx.{context}()
observed = []


def numbers(key, shape):
    return np.random.RandomState(zlib.crc32(key.encode())).uniform(-1, 1, shape)


def data(key, shape, dtype, below=None):
    a = numbers(key, shape)
    return nd.array(a if below is None else np.floor((a + 1) * below / 2), dtype=dtype, ctx=CTX)


class Named(mx.init.Initializer):
    """Values that follow from a parameter's name, so that every way starts with the same."""

    def __init__(self, key="init"):
        super().__init__(key=key)
        self.key = key

    def __call__(self, desc, arr):
        a = numbers(self.key + str(desc), arr.shape)
        scale = 1 if arr.ndim < 2 else (3 / np.prod(arr.shape[1:])) ** 0.5
        arr[:] = a * a + 0.5 if str(desc).endswith(("var", "gamma")) else a * scale


def observe(label, value):
    if isinstance(value, (list, tuple)):
        for i, v in enumerate(value):
            observe("%s[%d]" % (label, i), v)
    elif isinstance(value, dict):
        for k in sorted(value):
            observe("%s[%s]" % (label, k), value[k])
    elif value is not None:
        observed.append((label, value.asnumpy() if hasattr(value, "asnumpy") else np.asarray(value)))


def observe_state(label, net, *trainers):
    for name, p in net.collect_params().items():
        if p._data is None:
            observe(label + ": uninitialized " + name, 1)
            continue
        observe(label + ": " + name, p.data())
        if p.grad_req != "null":
            observe(label + ": gradient of " + name, p.grad())
    for i, trainer in enumerate(trainers):
        observe(label + ": states of trainer %d" % i, trainer_states(trainer))


def trainer_states(trainer):
    return pickle.loads(trainer._updaters[0].get_states(dump_optimizer=False))


def copied(block):
{copied}


def hybridize(block, active=True, **flags):
{hybridize}


def exported(net, x):
    """What a net gives that is exported and imported, or, where it is not hybridized, the net itself."""
{exported}


'''

_HYBRIDIZE = {
    False: "    pass  # this way runs every operator when its line is reached",
    True: "    block.hybridize(active, **dict(flags{flags}))",
}
_EXPORTED = {
    False: "    return net(x)",
    True: """\
    if not net._active:
        return net(x)
    net(x)
    with tempfile.TemporaryDirectory() as folder:
        net.export(os.path.join(folder, "net"))
        files = [os.path.join(folder, name) for name in ("net-symbol.json", "net-0000.params")]
        return gluon.SymbolBlock.imports(files[0], ["data"], files[1], ctx=CTX)(x)""",
}

_COPIED = {
    "hybridgpu": """\
    return pickle.loads(pickle.dumps(block)) if {picklable} else copy.deepcopy(block)""",
    "mxnet": """\
    # cannot be pickled, and copies have no gradients until grad_req changes
    block = copy.deepcopy(block)
    for p in block.collect_params().values():
        req, p.grad_req = p.grad_req, "null"
        p.grad_req = req
    return block""",
}

#: blocks of the user's own, by name: written into a script that needs them
_CLASSES = {
    "Residual": """\
class Residual(gluon.HybridBlock):
    def __init__(self, body, **kwargs):
        super().__init__(**kwargs)
        self.body = body

    def hybrid_forward(self, F, x):
        return x + self.body(x)
""",
    "Branches": """\
class Branches(gluon.HybridBlock):
    def __init__(self, left, right, **kwargs):
        super().__init__(**kwargs)
        self.left = left
        self.right = right

    def hybrid_forward(self, F, x):
        return F.concat(self.left(x), self.right(x), dim=1)
""",
    "Gated": """\
class Gated(gluon.HybridBlock):
    def __init__(self, body, **kwargs):
        super().__init__(**kwargs)
        self.body = body

    def hybrid_forward(self, F, x):
        y = self.body(x)
        return y * F.sigmoid(y)
""",
    "Scaled": """\
class Scaled(gluon.HybridBlock):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.scale = self.params.get("scale", shape=(1,))
        self.offset = self.params.get_constant("offset", [0.25])

    def hybrid_forward(self, F, x, scale, offset):
        return F.broadcast_add(F.broadcast_mul(x, scale), offset)
""",
    "Twice": """\
class Twice(gluon.HybridBlock):
    def __init__(self, body, **kwargs):
        super().__init__(**kwargs)
        self.body = body

    def hybrid_forward(self, F, x):
        return self.body(self.body(x)) - x
""",
    "Pair": """\
class Pair(gluon.HybridBlock):
    def __init__(self, body, **kwargs):
        super().__init__(**kwargs)
        self.body = body

    def hybrid_forward(self, F, x):
        return [self.body(x), F.mean(x, axis=0, exclude=True)]
""",
    "Merged": """\
class Merged(gluon.HybridBlock):
    def __init__(self, pair, **kwargs):
        super().__init__(**kwargs)
        self.pair = pair

    def hybrid_forward(self, F, x):
        y, mean = self.pair(x)
        return F.Flatten(y) if mean is None else F.broadcast_mul(F.Flatten(y), F.expand_dims(mean, axis=1))
""",
    "Half": """\
class Half(gluon.HybridBlock):
    def __init__(self, used, unused, **kwargs):
        super().__init__(**kwargs)
        self.used = used
        self.unused = unused

    def hybrid_forward(self, F, x):
        return self.used(x) + F.BlockGrad(self.unused(x))
""",
    "Scan": """\
class Scan(gluon.HybridBlock):
    def __init__(self, body, **kwargs):
        super().__init__(**kwargs)
        self.body = body

    def hybrid_forward(self, F, x):
        steps, _ = F.contrib.foreach(lambda step, s: (self.body(step) + s, s * 0.5), x, F.zeros_like(F.slice_axis(x, axis=0, begin=0, end=1).reshape((-3, -2))))
        return steps
""",
    "Plain": """\
class Plain(gluon.Block):
    def __init__(self, first, second, **kwargs):
        super().__init__(**kwargs)
        self.first = first
        self.second = second

    def forward(self, x):
        y = self.first(x)
        return self.second(y * 2 if y.shape[0] > 2 else y)
""",
}


@dataclass
class Writer:
    """The script as it grows: lines of the net and of what is done, and what later lines may refer to."""

    lines: list[str] = field(default_factory=list)
    classes: list[str] = field(default_factory=list)
    blocks: list[str] = field(default_factory=list)  #: variables of blocks with parameters
    shareable: list[tuple[str, Shape, Shape]] = field(default_factory=list)  #: block, shapes that it takes and gives
    count: int = 0
    hybrid: bool = True  #: whether the whole net is a HybridBlock

    def name(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def block(self, stem: str, call: str, params: bool = True) -> str:
        """Add ``name = call`` with a prefix of its own; returns the name."""
        name = self.name(stem)
        comma = ", " if not call.endswith("(") else ""
        self.lines.append(f'{name} = {call}{comma}prefix="{name}_")')
        if params:
            self.blocks.append(name)
        return name

    def use(self, *classes: str) -> None:
        self.classes.extend(c for c in classes if c not in self.classes)


# --- layers -----------------------------------------------------------------------------------------------------------
# Each takes the writer, the layer as drawn and the shape in front of it; gives the block's name and the shape behind it,
# or None where the layer does not fit.


def _dense(w: Writer, layer: Layer, shape: Shape):
    c = Choice(layer.number)
    units = c.of(4, 3, 8)
    flatten = c.of(True, False)
    options = [str(units)]
    activation = c.of(None, "relu", "tanh", "sigmoid", "softrelu")
    if activation:
        options.append(f'activation="{activation}"')
    if c.of(False, True):
        options.append("use_bias=False")
    if not flatten:
        options.append("flatten=False")
    name = w.block("dense", f"nn.Dense({', '.join(options)}")
    after = (units,) if flatten else (*shape[:-1], units)
    w.shareable.append((name, shape, after))
    return name, after


def _batch_norm(w: Writer, layer: Layer, shape: Shape):
    c = Choice(layer.number)
    options = []
    if c.of(False, True):
        options.append("momentum=0.5")
    if c.of(False, True, False):
        options.append("scale=False")
    if c.of(False, True, False):
        options.append("center=False")
    if c.of(False, False, False, True):
        options.append("use_global_stats=True")
    if c.of(False, True, False):
        options.append("epsilon=0.01")
    name = w.block("norm", f"nn.BatchNorm({', '.join(options)}")
    w.shareable.append((name, shape, shape))
    return name, shape


def _layer_norm(w: Writer, layer: Layer, shape: Shape):
    c = Choice(layer.number)
    options = ["scale=False"] if c.of(False, True, False) else []
    return w.block("norm", f"nn.LayerNorm({', '.join(options)}"), shape


def _instance_norm(w: Writer, layer: Layer, shape: Shape):
    if len(shape) < 2:
        return None
    return w.block("norm", f"nn.InstanceNorm({Choice(layer.number).of('', 'scale=True')}"), shape


def _group_norm(w: Writer, layer: Layer, shape: Shape):
    groups = Choice(layer.number).of(1, 2)
    if len(shape) < 2 or shape[0] % groups:
        return None
    return w.block("norm", f"nn.GroupNorm({groups}"), shape


def _activation(w: Writer, layer: Layer, shape: Shape):
    c = Choice(layer.number)
    call = c.of(
        'nn.Activation("relu"', 'nn.Activation("tanh"', 'nn.Activation("sigmoid"', 'nn.Activation("softsign"',
        "nn.LeakyReLU(0.1", "nn.ELU(0.5", "nn.Swish(", "nn.GELU(",
        'nn.HybridLambda("tanh"', "nn.HybridLambda(lambda F, x: F.clip(x, -0.5, 0.5) * 2",
        "nn.HybridLambda(lambda F, x: F.square(x) - F.abs(x)",
    )  # fmt: skip
    return w.block("act", call, params=False), shape


def _prelu(w: Writer, layer: Layer, shape: Shape):
    return w.block("act", "nn.PReLU("), shape


def _conv(w: Writer, layer: Layer, shape: Shape):
    if len(shape) != 3:
        return None
    c = Choice(layer.number)
    channels, kernel, pad, stride = c.of(4, 2, 3), c.of(3, 1, 2), c.of(1, 0), c.of(1, 2)
    height, width = ((n + 2 * pad - kernel) // stride + 1 for n in shape[1:])
    if min(shape[1:]) + 2 * pad < kernel or min(height, width) < 1:
        return None
    options = [str(channels), str(kernel)]
    if stride != 1:
        options.append(f"strides={stride}")
    if pad:
        options.append(f"padding={pad}")
    if c.of(False, True):
        options.append("use_bias=False")
    if c.of(False, True):
        options.append('activation="relu"')
    name = w.block("conv", f"nn.Conv2D({', '.join(options)}")
    after = (channels, height, width)
    w.shareable.append((name, shape, after))
    return name, after


def _conv_transpose(w: Writer, layer: Layer, shape: Shape):
    if len(shape) != 3 or shape[1] > 6:
        return None
    c = Choice(layer.number)
    channels, stride = c.of(2, 3), c.of(1, 2)
    after = (channels, (shape[1] - 1) * stride + 3, (shape[2] - 1) * stride + 3)
    return w.block("conv", f"nn.Conv2DTranspose({channels}, 3, strides={stride}"), after


def _pool(w: Writer, layer: Layer, shape: Shape):
    if len(shape) != 3 or min(shape[1:]) < 3:
        return None
    c = Choice(layer.number)
    kind = c.of("Max", "Avg")
    if c.of(False, False, True):
        return w.block("pool", f"nn.Global{kind}Pool2D(", params=False), (shape[0], 1, 1)
    size, stride, pad = c.of(2, 3), c.of(2, 1), c.of(0, 1)
    after = (shape[0], *((n + 2 * pad - size) // stride + 1 for n in shape[1:]))
    return w.block("pool", f"nn.{kind}Pool2D({size}, {stride}, {pad}", params=False), after


def _flatten(w: Writer, layer: Layer, shape: Shape):
    size = 1
    for n in shape:
        size *= n
    return w.block("flat", "nn.Flatten(", params=False), (size,)


def _recurrent(w: Writer, layer: Layer, shape: Shape):
    if len(shape) != 2:
        return None
    c = Choice(layer.number)
    kind, hidden, both = c.of("LSTM", "GRU", "RNN"), c.of(3, 4), c.of(False, True)
    call = f'rnn.{kind}({hidden}, layout="NTC"' + (", bidirectional=True" if both else "")
    if c.of(False, False, True):
        call += ", num_layers=2"
    return w.block("rnn", call), (shape[0], hidden * (1 + both))


def _shared(w: Writer, layer: Layer, shape: Shape):
    """A block that stands elsewhere already, once more."""
    fitting = [(name, after) for name, before, after in w.shareable if before == shape]
    return Choice(layer.number).of(*fitting) if fitting else None


def _shared_params(w: Writer, layer: Layer, shape: Shape):
    """Another Dense with the parameters of one that stands elsewhere already."""
    fitting = [(name, after) for name, before, after in w.shareable if before == shape and name.startswith("dense")]
    if not fitting:
        return None
    name, after = Choice(layer.number).of(*fitting)
    line = next(line for line in w.lines if line.startswith(f"{name} = "))
    call = line.removeprefix(f"{name} = ").removesuffix(f'prefix="{name}_")')
    return w.block("dense", f"{call}params={name}.params", params=False), after


def _build(w: Writer, layer: Layer, shape: Shape):
    """The layer's block and the shape behind it; None, and nothing written, where it does not fit."""
    before = len(w.lines), len(w.blocks), len(w.shareable)
    built = LAYERS[layer.kind](w, layer, shape)
    if built is None:
        del w.lines[before[0] :], w.blocks[before[1] :], w.shareable[before[2] :]
    return built


def _sequence(w: Writer, layers: Sequence[Layer], shape: Shape, plain: bool = False):
    """Blocks in a HybridSequential; None where none of them fits."""
    names = []
    for layer in layers:
        built = _build(w, layer, shape)
        if built is not None:
            name, shape = built
            names.append(name)
    if not names:
        return None
    name = w.block("seq", f"nn.{'' if plain else 'Hybrid'}Sequential(")
    w.lines.append(f"{name}.add({', '.join(names)})")
    return name, shape


def _nested(w: Writer, layer: Layer, shape: Shape):
    return _sequence(w, layer.inside, shape)


def _square(w: Writer, layer: Layer, shape: Shape):
    """Layers inside, then a Dense that gives the shape in front of them; None where that cannot be."""
    built = _sequence(w, layer.inside, shape)
    if built is not None and built[1] != shape and built[1][:-1] == shape[:-1]:
        w.lines.append(f'{built[0]}.add(nn.Dense({shape[-1]}, flatten=False, prefix="{built[0]}_last_"))')
        return built[0]
    return built[0] if built is not None and built[1] == shape else None


def _around(kind: str) -> Callable:
    def write(w: Writer, layer: Layer, shape: Shape):
        inner = _square(w, layer, shape)
        if inner is None:
            return None
        w.use(kind)
        name = w.block(kind.lower(), f"{kind}({inner}")
        return name, shape

    return write


def _gated(w: Writer, layer: Layer, shape: Shape):
    built = _sequence(w, layer.inside, shape)
    if built is None:
        return None
    w.use("Gated")
    return w.block("gated", f"Gated({built[0]}"), built[1]


def _branches(w: Writer, layer: Layer, shape: Shape):
    left = _sequence(w, layer.inside[::2], shape)
    right = _sequence(w, layer.inside[1::2], shape)
    if left is None or right is None or len(left[1]) != len(right[1]) or left[1][1:] != right[1][1:]:
        return None
    w.use("Branches")
    name = w.block("branches", f"Branches({left[0]}, {right[0]}")
    return name, (left[1][0] + right[1][0], *left[1][1:])


def _scaled(w: Writer, layer: Layer, shape: Shape):
    w.use("Scaled")
    return w.block("scaled", "Scaled("), shape


def _pair(w: Writer, layer: Layer, shape: Shape):
    built = _sequence(w, layer.inside, shape)
    if built is None:
        return None
    w.use("Pair", "Merged")
    size = 1
    for n in built[1]:
        size *= n
    pair = w.block("pair", f"Pair({built[0]}")
    return w.block("merged", f"Merged({pair}"), (size,)


def _half(w: Writer, layer: Layer, shape: Shape):
    used = _sequence(w, layer.inside[::2], shape)
    unused = _sequence(w, layer.inside[1::2], shape)
    if used is None or unused is None or used[1] != unused[1]:
        return None
    w.use("Half")
    return w.block("half", f"Half({used[0]}, {unused[0]}"), used[1]


LAYERS: dict[str, Callable] = {
    "dense": _dense,
    "batch norm": _batch_norm,
    "activation": _activation,
    "conv": _conv,
    "pool": _pool,
    "layer norm": _layer_norm,
    "instance norm": _instance_norm,
    "group norm": _group_norm,
    "prelu": _prelu,
    "conv transpose": _conv_transpose,
    "flatten": _flatten,
    "recurrent": _recurrent,
    "shared": _shared,
    "shared params": _shared_params,
    "nested": _nested,
    "residual": _around("Residual"),
    "twice": _around("Twice"),
    "gated": _gated,
    "branches": _branches,
    "scaled": _scaled,
    "pair": _pair,
    "half": _half,
}


# --- actions ----------------------------------------------------------------------------------------------------------


@dataclass
class Session:
    """What the lines of actions refer to."""

    w: Writer
    shape: Shape  #: of a sample
    below: int | None  #: tokens are integers below this
    after: Shape  #: of an output's sample
    trainers: int
    line: Callable[[str], None]
    count: int = 0

    def key(self) -> str:
        self.count += 1
        return f"{self.count}"

    def batch(self, c: Choice) -> int:
        return c.of(3, 2, 3, 3, 1, 5)

    def x(self, batch: int) -> str:
        if self.below is not None:
            return f'data("x{self.key()}", {(batch, *self.shape)}, "float32", below={self.below})'
        return f'data("x{self.key()}", {(batch, *self.shape)}, dtype)'

    def loss(self, c: Choice, y: str, batch: int) -> str:
        kinds = ["(y * y).mean()", "y.sum()", f'gluon.loss.L2Loss()(y, data("t{self.key()}", y.shape, y.dtype))']
        if len(self.after) == 1:
            kinds.append(
                f'gluon.loss.SoftmaxCrossEntropyLoss()(y, data("t{self.key()}", ({batch},), y.dtype, below={self.after[0]}))'
            )
            kinds.append(f'gluon.loss.HuberLoss()(y, data("t{self.key()}", y.shape, y.dtype))')
        return c.of(*kinds).replace("y", y) if y != "y" else c.of(*kinds)

    def block(self, c: Choice) -> str:
        return c.of("net", *self.w.blocks)

    def trainer(self, c: Choice) -> str | None:
        return c.of(*(f"trainer{i}" for i in range(self.trainers))) if self.trainers else None


def _record(s: Session, c: Choice, body: Callable[[Choice, int], Iterator[str]], how: str = "") -> None:
    """Lines of ``with autograd.record():`` around the net's call."""
    batch = s.batch(c)
    s.line(f"x = {s.x(batch)}")
    s.line(f"with autograd.record({how}):")
    for line in body(c, batch):
        s.line("    " + line)


def _loss_of(s: Session) -> Callable[[Choice, int], Iterator[str]]:
    def body(c: Choice, batch: int) -> Iterator[str]:
        yield "y = net(x)"
        yield f"loss = {s.loss(c, 'y', batch)}"

    return body


def _predict(s: Session, c: Choice) -> None:
    s.line(f'observe("prediction", net({s.x(s.batch(c))}))')


def _train_mode(s: Session, c: Choice) -> None:
    s.line("with autograd.train_mode():")
    s.line(f'    observe("output in train mode", net({s.x(s.batch(c))}))')


def _step(s: Session, c: Choice, between: Callable[[], None] | None = None) -> None:
    _record(s, c, _loss_of(s))
    if between:
        between()
    s.line("loss.backward()")
    s.line('observe("loss", loss)')
    trainer = s.trainer(c)
    if trainer:
        stale = c.of("", ", ignore_stale_grad=True")
        s.line(f"{trainer}.step({c.of('x.shape[0]', '1', '2')}{stale})")


def _many_steps(s: Session, c: Choice) -> None:
    trainer = s.trainer(c)
    if not trainer:
        return _step(s, c)
    s.line(f"for _ in range({c.of(4, 12, 103)}):")
    line, s.line = s.line, lambda text: line("    " + text)
    _record(s, c, _loss_of(s))
    s.line("loss.backward()")
    s.line(f"{trainer}.step(x.shape[0], ignore_stale_grad=True)")
    s.line = line
    return None


def _all_trainers(s: Session, c: Choice) -> None:
    _record(s, c, _loss_of(s))
    s.line("loss.backward()")
    for i in range(s.trainers):
        s.line(f"trainer{i}.step(x.shape[0], ignore_stale_grad=True)")


def _gradient(s: Session, c: Choice) -> None:
    _record(s, c, _loss_of(s))
    s.line(c.of("loss.backward()", "autograd.backward([loss, y])"))


def _input_gradient(s: Session, c: Choice) -> None:
    if s.below is not None:  # MXNet differentiates no indices
        return _gradient(s, c)
    batch = s.batch(c)
    s.line(f"x = {s.x(batch)}")
    s.line(f'x.attach_grad("{c.of("write", "add")}")')
    s.line("with autograd.record():")
    s.line("    y = net(x)")
    s.line("    z = y * x.mean()" if c.of(False, True) and s.below is None else "    z = y")
    s.line(f"z.backward({c.of('', 'nd.ones_like(z) * 0.5')})")
    s.line('observe("gradient of the input", x.grad)')
    return None


def _two_calls(s: Session, c: Choice) -> None:
    def body(c: Choice, batch: int) -> Iterator[str]:
        yield "y = net(x)"
        yield f"z = net({c.of('x', s.x(batch))})"
        yield f"loss = (y * z).mean(){c.of('', ' + y.mean()')}"

    _record(s, c, body)
    s.line("loss.backward()")


def _two_records(s: Session, c: Choice) -> None:
    _record(s, c, _loss_of(s))
    s.line("first = loss")
    _record(s, c, _loss_of(s))
    for name in c.of(("loss", "first"), ("first", "loss"), ("loss",), ("first",)):
        s.line(f"{name}.backward()")


def _retained(s: Session, c: Choice) -> None:
    _record(s, c, _loss_of(s))
    s.line("loss.backward(retain_graph=True)")
    if c.of(False, True):
        s.line('observe_state("after one backward pass", net)')
    s.line("loss.backward()")


def _record_predict(s: Session, c: Choice) -> None:
    _record(s, c, _loss_of(s), "train_mode=False")
    s.line('observe("loss", loss)')
    if c.of(True, False):
        s.line("loss.backward(train_mode=False)")


def _record_only(s: Session, c: Choice) -> None:
    _record(s, c, _loss_of(s))
    s.line('observe("loss", loss)')


def _no_record_inside(s: Session, c: Choice) -> None:
    batch = s.batch(c)
    s.line(f"x = {s.x(batch)}")
    s.line("with autograd.record():")
    s.line(f"    with autograd.{c.of('pause()', 'pause(train_mode=True)')}:")
    s.line("        fixed = net(x)")
    s.line("    y = net(x)")
    s.line("    loss = ((y - fixed * 0.5) ** 2).mean()")
    s.line("loss.backward()")


def _mixed_modes(s: Session, c: Choice) -> None:
    """Derivatives of what was computed in another mode than the backward pass names."""
    kind = c.of("backward", "record", "inside")
    batch = s.batch(c)
    s.line(f"x = {s.x(batch)}")
    s.line(f"with autograd.record({'train_mode=False' if kind == 'record' else ''}):")
    if kind == "inside":
        s.line("    with autograd.predict_mode():")
        s.line("        fixed = net(x)")
    s.line("    y = net(x)")
    s.line(f"    loss = {'((y - fixed * 0.5) ** 2).mean()' if kind == 'inside' else s.loss(c, 'y', batch)}")
    s.line(f"loss.backward({'train_mode=False' if kind == 'backward' else ''})")


def _autograd_grad(s: Session, c: Choice) -> None:
    _record(s, c, _loss_of(s))
    s.line("wanted = [p.data() for p in net.collect_params().values() if p.grad_req != 'null']")
    s.line('if wanted:\n    observe("autograd.grad", autograd.grad(loss, wanted))')


def _grad_req(s: Session, c: Choice) -> None:
    req = c.of("null", "write", "add")
    s.line(f'{s.block(c)}.collect_params().setattr("grad_req", "{req}")')


def _freeze(s: Session, c: Choice) -> None:
    s.line(f'{s.block(c)}.collect_params().setattr("grad_req", "null")')


def _zero_grad(s: Session, c: Choice) -> None:
    s.line("net.collect_params().zero_grad()")


def _cast(s: Session, c: Choice) -> None:
    dtype = c.of("float64", "float32")
    s.line(f'dtype = "{dtype}"')
    s.line("net.cast(dtype)")


def _write(s: Session, c: Choice) -> None:
    block = s.block(c)
    how = c.of(
        f'p.set_data(data("w{s.key()}" + name, p.shape, p.dtype) ** 2)',
        "p.set_data(p.data() * 0.5)",
        "p.data()[:] = p.data() * 0.5",
        "p.data()[0] = 0.25",
    )
    s.line(f"for name, p in {block}.collect_params().items():")
    s.line("    if p._data is not None:")
    s.line(f"        {how}")


def _written_between(s: Session, c: Choice) -> None:
    _step(s, c, lambda: _write(s, c))


def _save_and_load(s: Session, c: Choice, between: bool = False) -> None:
    s.line("with tempfile.TemporaryDirectory() as folder:")
    line, s.line = s.line, lambda text: line("    " + text)
    s.line('net.save_parameters(os.path.join(folder, "net.params"))')
    _step(s, c)
    s.line('observe_state("before loading", net)')
    if c.of(False, True):
        _record(s, c, _loss_of(s))
        s.line('net.load_parameters(os.path.join(folder, "net.params"), ctx=CTX)')
        s.line("loss.backward()")
    else:
        s.line('net.load_parameters(os.path.join(folder, "net.params"), ctx=CTX)')
    s.line = line


def _trainer_states(s: Session, c: Choice) -> None:
    trainer = s.trainer(c)
    if not trainer:
        return
    s.line("with tempfile.TemporaryDirectory() as folder:")
    line, s.line = s.line, lambda text: line("    " + text)
    _step(s, c)
    s.line(f'{trainer}.save_states(os.path.join(folder, "states"))')
    _step(s, c)
    s.line(f'{trainer}.load_states(os.path.join(folder, "states"))')
    s.line = line


def _export(s: Session, c: Choice) -> None:
    if s.w.hybrid:
        s.line(f'observe("exported", exported(net, {s.x(s.batch(c))}))')


def _rate(s: Session, c: Choice) -> None:
    trainer = s.trainer(c)
    if trainer:
        s.line(f"if {trainer}.optimizer.lr_scheduler is None:\n    {trainer}.set_learning_rate({c.of(0.01, 0.2, 0)})")


def _multipliers(s: Session, c: Choice) -> None:
    s.line(f'{s.block(c)}.collect_params().setattr("{c.of("lr_mult", "wd_mult")}", {c.of(0.5, 0.0, 2.0)})')


def _hybridize(s: Session, c: Choice) -> None:
    s.line(f"hybridize({s.block(c)})")


def _unhybridize(s: Session, c: Choice) -> None:
    s.line(f"hybridize({s.block(c)}, False)")


def _copy(s: Session, c: Choice) -> None:
    s.line("other = copied(net)")
    s.line(f"x = {s.x(s.batch(c))}")
    s.line('observe("copy", other(x))')
    s.line('training = gluon.Trainer(other.collect_params(), "sgd", {"learning_rate": 0.1})')
    s.line("with autograd.record():")
    s.line("    loss = (other(x) ** 2).mean()")
    s.line("loss.backward()")
    s.line("training.step(1, ignore_stale_grad=True)")
    s.line('observe_state("copy", other)')


def _hook(s: Session, c: Choice) -> None:
    if c.of(True, False):
        s.line('hook = net.register_forward_hook(lambda block, inputs, output: observe("hook", output))')
    else:
        s.line('hook = net.register_forward_pre_hook(lambda block, inputs: observe("hook", inputs[0]))')
    _predict(s, c)
    if c.of(True, False):
        s.line("hook.detach()")


def _reinitialize(s: Session, c: Choice) -> None:
    s.line(f'net.initialize(Named("{c.of("again", "init")}"), ctx=CTX, force_reinit=True)')


def _extend(s: Session, c: Choice) -> None:
    name = s.w.name("dense")
    s.line(f'{name} = nn.Dense({c.of(4, 3)}, prefix="{name}_")')
    s.line(f"{name}.initialize(Named(), ctx=CTX)")
    s.line("if dtype != 'float32':")
    s.line(f"    {name}.cast(dtype)")
    s.line(f"net.add({name})")
    s.after = (4,)


ACTIONS: dict[str, Callable[[Session, Choice], None]] = {
    "predict": _predict,
    "step": _step,
    "train mode": _train_mode,
    "gradient": _gradient,
    "input gradient": _input_gradient,
    "two calls": _two_calls,
    "two records": _two_records,
    "retained": _retained,
    "record predict": _record_predict,
    "record only": _record_only,
    "pause": _no_record_inside,
    "autograd.grad": _autograd_grad,
    "mixed modes": _mixed_modes,
    "freeze": _freeze,
    "grad_req": _grad_req,
    "zero grad": _zero_grad,
    "cast": _cast,
    "write": _write,
    "written between": _written_between,
    "save and load": _save_and_load,
    "trainer states": _trainer_states,
    "many steps": _many_steps,
    "all trainers": _all_trainers,
    "export": _export,
    "rate": _rate,
    "multipliers": _multipliers,
    "hybridize": _hybridize,
    "unhybridize": _unhybridize,
    "copy": _copy,
    "hook": _hook,
    "reinitialize": _reinitialize,
    "extend": _extend,
}

_OPTIMIZERS = (
    '"sgd", {"learning_rate": 0.1}',
    '"sgd", {"learning_rate": 0.1, "momentum": 0.9, "wd": 0.01}',
    '"nag", {"learning_rate": 0.1, "momentum": 0.9, "wd": 0.01}',
    '"sgd", {"learning_rate": 0.1, "clip_gradient": 0.05, "lr_scheduler": mx.lr_scheduler.FactorScheduler(2, 0.7)}',
    '"sgd", {"learning_rate": 0.1, "lr_scheduler": mx.lr_scheduler.CosineScheduler(110, base_lr=0.1, warmup_steps=3)}',
    '"sgd", {"learning_rate": 0.1, "momentum": 0.5, "lr_scheduler": mx.lr_scheduler.MultiFactorScheduler([2, 100], 0.3)}',
    '"adam", {"learning_rate": 0.01, "epsilon": 1e-3}',
    '"adam", {"learning_rate": 0.01, "epsilon": 1e-3, "wd": 0.1}',
    '"rmsprop", {"learning_rate": 0.01, "epsilon": 1e-3}',
    '"rmsprop", {"learning_rate": 0.01, "epsilon": 1e-3, "centered": True}',
    '"adagrad", {"learning_rate": 0.1, "eps": 1e-3}',
    '"adadelta", {"epsilon": 1e-3}',
    '"ftrl", {"learning_rate": 0.1}',
    '"nadam", {"learning_rate": 0.01, "epsilon": 1e-3}',
    '"ftml", {"learning_rate": 0.01, "epsilon": 1e-3}',
    '"sgd", {"learning_rate": 0.1, "momentum": 0.9, "multi_precision": True}',
)  # fmt: skip


def _source(number: int) -> tuple[Shape, int | None, str]:
    """Shape of a sample, below what tokens are, element type."""
    c = Choice(number)
    dtype = c.of("float64", "float32")
    shape = c.of((5,), (4,), (2, 6, 6), (3, 5, 7), (6, 4), (4,))
    return shape, 7 if c.of(False, False, False, True) and len(shape) == 1 else None, dtype


def in_float64(program: Program) -> Program:
    """The same program with float64 in place of float32."""
    return replace(program, source=program.source - program.source % 2)


def render(program: Program, way: Way) -> str:
    """The script of a program for a way of running it."""
    w = Writer()
    shape, below, dtype = _source(program.source)
    start = shape
    w.hybrid = Choice(program.source).of(*[True] * 7, False)
    if below is not None:
        w.lines.append('embedding = nn.Embedding(7, 4, prefix="embedding_")')
        w.blocks.append("embedding")
        start = (*shape, 4)
    layers = [*program.layers, Layer("dense", 0)]  # a head, so that there is something to train
    name, after = _sequence(w, layers, start, plain=not w.hybrid)
    if below is not None:
        w.lines.append(f'net = nn.{"Hybrid" if w.hybrid else ""}Sequential(prefix="net_")')
        w.lines.append(f"net.add(embedding, {name})")
    else:
        w.lines.append(f"net = {name}")
    w.lines.append(f'dtype = "{dtype}"')
    w.lines.append("net.initialize(Named(), ctx=CTX)")
    if dtype != "float32":
        w.lines.append("net.cast(dtype)")
    w.lines.append("hybridize(net)")
    count = len(program.trainers)
    for i, number in enumerate(program.trainers):
        chosen = "" if count == 1 else f" for i, p in enumerate(net.collect_params().values()) if i % {count} == {i}"
        which = f"[p{chosen}]" if chosen else "net.collect_params()"
        w.lines.append(f"trainer{i} = gluon.Trainer({which}, {Choice(number).of(*_OPTIMIZERS)})")
    trainers = "".join(f", trainer{i}" for i in range(count))
    session = Session(w, shape, below, after, count, w.lines.append)
    for i, action in enumerate(program.actions):
        w.lines.append(f"\n# {i}: {action.kind}")
        ACTIONS[action.kind](session, Choice(action.number))
        w.lines.append(f'observe_state("after {i}, {action.kind}", net{trainers})')
    header = _HEADER.format(
        module=way.module,
        context=way.context,
        hybridize=_HYBRIDIZE[way.hybridize].format(flags=way.flags and ", " + way.flags),
        exported=_EXPORTED[way.hybridize],
        copied=_COPIED[way.module].format(picklable=not any("lambda" in line for line in w.lines)),
    )
    classes = "".join(_CLASSES[c] + "\n\n" for c in w.classes)
    return header + classes + "\n".join(w.lines) + "\n"
