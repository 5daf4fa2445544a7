# SPDX-License-Identifier: Apache-2.0
"""Layers of random Gluon programs: what is drawn of each, and the lines that build it.

Each layer takes the writer, the layer as drawn and the shape in front of it; it gives the block's name and the shape behind
it, or None where it does not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

__all__ = ["CLASSES", "LAYERS", "Choice", "Layer", "Shape", "Writer", "sequence"]

Shape = tuple[int, ...]  #: of one sample, without the batch


@dataclass(frozen=True)
class Layer:
    """A layer as drawn: its kind, a number that its options are chosen by, and layers inside."""

    kind: str
    number: int
    inside: tuple[Layer, ...] = ()


class Choice:
    """Options chosen by the digits of a number: small numbers choose the first ones, so they shrink to those."""

    def __init__(self, number: int) -> None:
        self._number = number

    def of(self, *options):
        self._number, digit = divmod(self._number, len(options))
        return options[digit]


#: blocks of the user's own, by name: written into a script that needs them
CLASSES = {
    "Bent": """\
class Bent(autograd.Function):
    def __init__(self, slope):
        super().__init__()
        self.slope = slope

    def forward(self, x):
        self.save_for_backward(x)
        return x * self.slope

    def backward(self, dy):
        (x,) = self.saved_tensors
        return dy * self.slope + nd.abs(x) * 0.1
""",
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


def sequence(w: Writer, layers: Sequence[Layer], shape: Shape, plain: bool = False):
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
    return sequence(w, layer.inside, shape)


def _square(w: Writer, layer: Layer, shape: Shape):
    """Layers inside, then a Dense that gives the shape in front of them; None where that cannot be."""
    built = sequence(w, layer.inside, shape)
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
    built = sequence(w, layer.inside, shape)
    if built is None:
        return None
    w.use("Gated")
    return w.block("gated", f"Gated({built[0]}"), built[1]


def _branches(w: Writer, layer: Layer, shape: Shape):
    left = sequence(w, layer.inside[::2], shape)
    right = sequence(w, layer.inside[1::2], shape)
    if left is None or right is None or len(left[1]) != len(right[1]) or left[1][1:] != right[1][1:]:
        return None
    w.use("Branches")
    name = w.block("branches", f"Branches({left[0]}, {right[0]}")
    return name, (left[1][0] + right[1][0], *left[1][1:])


def _scaled(w: Writer, layer: Layer, shape: Shape):
    w.use("Scaled")
    return w.block("scaled", "Scaled("), shape


def _pair(w: Writer, layer: Layer, shape: Shape):
    built = sequence(w, layer.inside, shape)
    if built is None:
        return None
    w.use("Pair", "Merged")
    size = 1
    for n in built[1]:
        size *= n
    pair = w.block("pair", f"Pair({built[0]}")
    return w.block("merged", f"Merged({pair}"), (size,)


def _half(w: Writer, layer: Layer, shape: Shape):
    used = sequence(w, layer.inside[::2], shape)
    unused = sequence(w, layer.inside[1::2], shape)
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
