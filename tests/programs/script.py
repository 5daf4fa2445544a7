# SPDX-License-Identifier: Apache-2.0
"""Scripts of random Gluon programs: one text for hybridgpu and MXNet, run eagerly or hybridized.

A program is drawn as numbers (``generate.py``); this module writes them as Python that a person can run. A layer that does
not fit the shape in front of it is left out, so that every draw is a program and Hypothesis can shrink it freely.
"""

from __future__ import annotations

from dataclasses import dataclass

from programs.actions import ACTIONS, Action, Session
from programs.layers import CLASSES, Choice, Layer, Shape, Writer, sequence

__all__ = ["Program", "Way", "render"]


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
    nudge: float = 0  #: how much initial values are changed, relative to them


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
        a = numbers(self.key + str(desc), arr.shape){nudge}
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
    '"ftml", {"learning_rate": 0.01, "epsilon": 1e-3}',
    '"sgd", {"learning_rate": 0.1, "momentum": 0.9, "multi_precision": True}',
)  # fmt: skip


def _source(number: int) -> tuple[Shape, int | None, str]:
    """Shape of a sample, below what tokens are, element type."""
    c = Choice(number)
    dtype = c.of("float64", "float32")
    shape = c.of((5,), (4,), (2, 6, 6), (3, 5, 7), (6, 4), (4,))
    return shape, 7 if c.of(False, False, False, True) and len(shape) == 1 else None, dtype


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
    name, after = sequence(w, layers, start, plain=not w.hybrid)
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
        nudge=f' * (1 + {way.nudge} * numbers("nudge" + str(desc), arr.shape))' if way.nudge else "",
        copied=_COPIED[way.module].format(picklable=not any("lambda" in line for line in w.lines)),
    )
    classes = "".join(CLASSES[c] + "\n\n" for c in w.classes)
    return header + classes + "\n".join(w.lines) + "\n"
