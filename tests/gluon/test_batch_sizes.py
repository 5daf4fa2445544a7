# SPDX-License-Identifier: Apache-2.0
"""Training with a new batch size compiles nothing: extents of sums over the batch are arguments of kernels."""

from __future__ import annotations

import numpy as np
import pytest

from hybridgpu import autograd, gluon, nd, runtime, sym
from hybridgpu.cache.disk_cache import reset_default_store
from hybridgpu.compiler.ir.types import tensor_type
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.primitives import builder
from hybridgpu.compiler.target import CPU, CUDA
from hybridgpu.core.dtypes import f32
from hybridgpu.gluon import nn, rnn
from hybridgpu.gluon.model_zoo import vision
from hybridgpu.runtime.recorded_program import RecordedProgram
from hybridgpu.symbol.lowering import lower_symbol

FIRST = 16
OTHERS = (32, 17, 7)
TAILS = (4, 3, 2, 100)  #: the last batch of an epoch, and one of another bucket


class Attention(nn.HybridBlock):
    """A transformer block whose layers are small."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.norm, self.second = nn.LayerNorm(), nn.LayerNorm()
            self.joint, self.out = nn.Dense(48, flatten=False), nn.Dense(16, flatten=False)
            self.wide, self.narrow = nn.Dense(32, flatten=False), nn.Dense(16, flatten=False)

    def hybrid_forward(self, F, x):
        parts = F.split(self.joint(self.norm(x)), num_outputs=3, axis=2)
        q, k, v = (F.reshape(F.transpose(F.reshape(p, (0, 0, 2, -1)), (0, 2, 1, 3)), (-3, 0, 0)) for p in parts)
        seen = F.batch_dot(F.softmax(F.batch_dot(q, k, transpose_b=True) * 0.35), v)
        x = x + self.out(F.reshape(F.transpose(F.reshape(seen, (-4, -1, 2, 0, 0)), (0, 2, 1, 3)), (0, 0, -1)))
        return x + self.narrow(F.relu(self.wide(self.second(x))))


class Recurrent(nn.HybridBlock):
    """Three steps of a cell from a state of zeros."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.cell, self.out = rnn.LSTMCell(32), nn.Dense(5)

    def hybrid_forward(self, F, x):
        steps, _ = self.cell.unroll(3, x, layout="NTC", merge_outputs=False)
        return self.out(steps[-1])


def chain(*layers):
    net = nn.HybridSequential()
    net.add(*layers)
    return net


def dense():
    return chain(nn.Dense(24, activation="relu"), nn.Dense(5))


def normalised():
    return chain(nn.Dense(24), nn.BatchNorm(), nn.Activation("relu"), nn.Dense(5))


def dropped():
    return chain(nn.Dense(24), nn.BatchNorm(), nn.Activation("relu"), nn.Dropout(0.5), nn.Dense(5))


def pictures():
    first = (nn.Conv2D(6, 3, padding=1), nn.BatchNorm(), nn.Activation("relu"), nn.MaxPool2D(2))
    second = (nn.Conv2D(8, 3, strides=2, use_bias=False), nn.BatchNorm(), nn.Activation("relu"))
    return chain(*first, *second, nn.Dense(16, activation="tanh"), nn.Dense(5))


def wide_pictures():
    """Pictures whose rows are whole blocks of vectors, which are stored past the caches where there are many."""
    return chain(nn.Conv2D(16, 3, padding=1), nn.BatchNorm(), nn.Activation("relu"), nn.Dense(5))


#: name -> (net, shape of an example, kernels of a training step that another batch size adds on a GPU: forms that
#: were chosen by a length of another class, of many positions or time steps a picture or sentence)
NETS = {
    "dense": (dense, (20,), 0),
    "normalised": (normalised, (20,), 0),
    "dropped": (dropped, (20,), 0),
    "pictures": (pictures, (3, 12, 12), 4),
    "wide pictures": (wide_pictures, (3, 8, 8), 4),
    "attention": (Attention, (6, 16), 0),
    "recurrent": (Recurrent, (3, 8), 0),
}


class Layer(nn.HybridBlock):
    """The last step of a recurrent layer of either layout."""

    def __init__(self, kind, layout, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.layer, self.out = kind(16, layout=layout, input_size=8), nn.Dense(5, in_units=16)
        self.axis = layout.index("T")

    def hybrid_forward(self, F, x):
        last = F.slice_axis(self.layer(x), axis=self.axis, begin=-1, end=None)
        return self.out(F.squeeze(last, axis=self.axis))


class Words(nn.HybridBlock):
    """Sentences, read by a recurrent layer: a result for each of their words, or for the last one."""

    def __init__(self, kind, layout, steps, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.words, self.layer = nn.Embedding(40, 8), kind(16, layout=layout, input_size=8)
            self.out = nn.Dense(40, in_units=16, flatten=False)
        self.axis, self.steps = layout.index("T"), steps

    def hybrid_forward(self, F, x):
        y = self.layer(self.words(x))
        if self.steps == "last":
            y = F.squeeze(F.slice_axis(y, axis=self.axis, begin=-1, end=None), axis=self.axis)
        return self.out(y)


def served():
    return chain(nn.Embedding(30, 8), nn.HybridLambda(lambda F, x: F.mean(x, axis=1)), nn.Dense(5))


def grouped():
    return chain(nn.Conv2D(8, 3), nn.GroupNorm(4), nn.Activation("relu"), nn.GlobalAvgPool2D(), nn.Dense(5))


#: name -> (net, shape of an input for a batch of so many, kernels of a prediction that another size adds on (CPU, GPU))
SERVED = {
    **{name: (net, lambda n, shape=shape: (n, *shape), (0, 0)) for name, (net, shape, _) in NETS.items()},
    "embedding": (served, lambda n: (n, 7), (0, 1)),  # blocks are wider for many rows
    "grouped": (grouped, lambda n: (n, 3, 9, 9), (0, 0)),
    "LSTM, TNC": (lambda: Layer(rnn.LSTM, "TNC"), lambda n: (6, n, 8), (0, 0)),
    "GRU, TNC": (lambda: Layer(rnn.GRU, "TNC"), lambda n: (6, n, 8), (0, 0)),
    "LSTM, NTC": (lambda: Layer(rnn.LSTM, "NTC"), lambda n: (n, 6, 8), (0, 0)),
    "GRU, NTC": (lambda: Layer(rnn.GRU, "NTC"), lambda n: (n, 6, 8), (0, 0)),
}


def prediction(name: str, batch: int, target) -> set[str]:
    """The kernels of a call outside training."""
    make, shape, _ = SERVED[name]
    out = make()(sym.var("data"))
    arguments, _, states = out.infer_shape(data=shape(batch))
    names = [*out.list_arguments(), *out.list_auxiliary_states()]
    types = {n: tensor_type(tuple(s), f32) for n, s in zip(names, [*arguments, *states], strict=True)}
    fixed = frozenset(k for k, n in enumerate(out.list_inputs()) if n != "data")
    program = compile_graph(lower_symbol(out, types, False), target, fixed)
    return {k.text.replace(k.name, "") for k in program.kernels}


def texts(name: str, batch: int, target) -> set[str]:
    """The kernels of a training step."""
    make, shape, _ = NETS[name]
    known = {"data": (batch, *shape), "label": (batch, 6, 16) if name == "attention" else (batch, 5)}
    return step(name, make, known, target)


def step(name: str, make, known: dict[str, tuple[int, ...]], target, loss=None) -> set[str]:
    """The kernels of a training step of a net with data and labels of the shapes ``known``."""
    loss = (loss or gluon.loss.L2Loss())(make()(sym.var("data")), sym.var("label"))
    arguments, _, states = loss.infer_shape(**known)
    names = [*loss.list_arguments(), *loss.list_auxiliary_states()]
    types = {n: tensor_type(tuple(s), f32) for n, s in zip(names, [*arguments, *states], strict=True)}
    learned = set(loss.list_arguments()) - set(known)
    inputs = loss.list_inputs()
    training = RecordedProgram(loss, [types[n] for n in inputs], True, tuple(n in learned for n in inputs))
    training._follow(training._plan())
    fixed = frozenset(k for k, n in enumerate(inputs) if n not in known)  # where parameters lie
    programs = (
        compile_graph(training._forward_graph(), target, fixed),
        compile_graph(
            training.derivative().graph, target, frozenset(i for i, k in enumerate(training.input_map) if k in fixed)
        ),
    )
    return {k.text.replace(k.name, "") for p in programs for k in p.kernels}


@pytest.mark.long_table
@pytest.mark.parametrize("batch", OTHERS)
@pytest.mark.parametrize("name", NETS)
def test_no_text_depends_on_the_batch(name, batch):
    assert not texts(name, batch, CPU) - texts(name, FIRST, CPU)


@pytest.mark.parametrize("target", [CPU, CUDA], ids=lambda t: t.name)
@pytest.mark.parametrize("name", ["dense", "normalised", "attention", "recurrent"])
def test_the_rest_of_larger_batches(name, target):
    """What is computed again or kept is decided for a batch of one of few sizes, not for each."""
    assert not texts(name, 52, target) - texts(name, 64, target)


def test_the_rest_of_larger_batches_of_pictures():
    assert not texts("pictures", 52, CPU) - texts("pictures", 64, CPU)


def test_a_deep_network_in_training():
    """Which results are written over operands is decided for a batch of one of few sizes, too."""
    net = vision.resnet18_v1(classes=10)
    loss = gluon.loss.SoftmaxCrossEntropyLoss()

    def kernels(batch: int) -> set[str]:
        return step("deep", lambda: net, {"data": (batch, 3, 64, 64), "label": (batch,)}, CPU, loss)

    known = kernels(8)
    assert len(known) > 50
    for batch in (6, 20, 32):
        assert not kernels(batch) - known, batch


@pytest.mark.long_table
@pytest.mark.parametrize("sizes", [(16, 17), (32, 8), (64, 52), (5, 40)], ids=str)
@pytest.mark.parametrize("name", SERVED)
def test_predictions_for_another_batch(name, sizes):
    before, after = sizes
    for target, most in zip((CPU, CUDA), SERVED[name][2], strict=True):
        assert len(prediction(name, after, target) - prediction(name, before, target)) <= most, target.name


@pytest.mark.parametrize("name", NETS)
def test_texts_that_depend_on_the_batch_on_a_gpu(name):
    known = texts(name, FIRST, CUDA)
    assert max(len(texts(name, batch, CUDA) - known) for batch in OTHERS) <= NETS[name][2]


@pytest.mark.parametrize(("name", "before", "after"), [("dense", 7, 300), ("attention", 32, 8), ("dense", 300, 5)])
def test_one_form_adds_up_batches_of_many_sizes(name, before, after):
    """What a weight's gradient sums is long or short: on a GPU, too, its form follows from the weight."""
    assert not texts(name, after, CUDA) - texts(name, before, CUDA)


def recurrent(kind, layout: str, batch: int, steps: int, target) -> set[str]:
    """The kernels of a training step of a recurrent layer."""
    data = (steps, batch, 8) if layout == "TNC" else (batch, steps, 8)
    return step(kind.__name__, lambda: Layer(kind, layout), {"data": data, "label": (batch, 5)}, target)


@pytest.mark.long_table
@pytest.mark.parametrize("layout", ["TNC", "NTC"])
@pytest.mark.parametrize("kind", [rnn.LSTM, rnn.GRU], ids=lambda k: k.__name__)
@pytest.mark.parametrize("target", [CPU, CUDA], ids=lambda t: t.name)
def test_recurrent_layers_in_training(kind, layout, target):
    """States of the step before, gradients of the last step: where they begin is told."""
    known = recurrent(kind, layout, 16, 6, target)
    for batch, steps in ((17, 6), (24, 7), (16, 9), (17, 12)):
        assert not recurrent(kind, layout, batch, steps, target) - known, (batch, steps)


def read(kind, layout: str, steps: str, batch: int, length: int, target) -> set[str]:
    """The kernels of a training step of a net that reads words."""
    data = (length, batch) if layout == "TNC" else (batch, length)
    known = {"data": data, "label": (*data, 40) if steps == "all" else (batch, 40)}
    loss = gluon.loss.L2Loss(batch_axis=layout.index("N") if steps == "all" else 0)
    return step(kind.__name__, lambda: Words(kind, layout, steps), known, target, loss)


@pytest.mark.long_table
@pytest.mark.parametrize("steps", ["last", "all"])
@pytest.mark.parametrize("layout", ["TNC", "NTC"])
@pytest.mark.parametrize("kind", [rnn.LSTM, rnn.GRU], ids=lambda k: k.__name__)
def test_readers_of_words_in_training(kind, layout, steps):
    """Time and batch are exchanged on the way: the extents of both are told."""
    known = read(kind, layout, steps, 16, 7, CPU)
    for batch, length in ((17, 7), (24, 7), (16, 9), (17, 12)):
        assert not read(kind, layout, steps, batch, length, CPU) - known, (batch, length)


@pytest.fixture
def empty_store(tmp_path, monkeypatch, compiler):
    """Nothing is compiled yet."""
    monkeypatch.setenv("HYBRIDGPU_CACHE_DIR", str(tmp_path))
    reset_default_store()
    yield
    reset_default_store()


@pytest.mark.long_table
@pytest.mark.parametrize("name", sorted({*NETS} - {"dropped"}))  # (whose numbers are drawn)
def test_training_compiles_once(name, empty_store):
    make, shape, _ = NETS[name]
    net, loss, other = make(), gluon.loss.L2Loss(), make()
    for n in (net, other):
        n.initialize()
        n(nd.ones((2, *shape)))
    for a, b in zip(net.collect_params().values(), other.collect_params().values(), strict=True):
        b.set_data(a.data())
    net.hybridize()
    loss.hybridize()
    rng = np.random.default_rng(1)
    for k, batch in enumerate((FIRST, *OTHERS, *TAILS)):
        x = nd.array(rng.normal(size=(batch, *shape)).astype(np.float32))
        results = []
        for n in (other, net):
            before = runtime.compile_report().compiled_modules
            with autograd.record():
                y = n(x)
                total = loss(y, nd.zeros(y.shape))
            total.backward()
            results.append([p.grad().asnumpy() for p in n.collect_params().values() if p.grad_req != "null"])
        compiled = runtime.compile_report().compiled_modules - before
        assert compiled == 0 if k else compiled > 0, (k, batch, compiled)
        for a, b in zip(*results, strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5 * max(1, np.abs(b).max()))


REDUCTIONS = {
    "sum": lambda b, x: b.sum(x),
    "norm": lambda b, x: b.sqrt(b.sum(x * x)),
    "unit length": lambda b, x: x * b.rsqrt(b.sum(x * x, (0,), keepdims=True)),
    "share of the largest": lambda b, x: b.exp(x - b.reduce("amax", x, (0,), keepdims=True)),
    "place of the largest": lambda b, x: b.reduce("argmax", x),
    "spread": lambda b, x: b.mean((x - b.mean(x, keepdims=True)) * (x - b.mean(x, keepdims=True))),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_lengths_of_a_row_share_a_text(name):
    """Rows of whole blocks of lanes have one for each number of lanes, all others one together."""
    found = {}
    for length in (5, 17, 40, 64, 100, 640, 1000, 4096, 5000, 100_000):
        b = builder()
        program = compile_graph(b.finish([REDUCTIONS[name](b, b.input(tensor_type((length,), f32), "x"))]), CPU)
        found[length] = tuple(k.text for k in program.kernels)
    assert len(set(found.values())) <= 3
    assert len({found[n] for n in (5, 17, 40, 100, 1000, 5000)}) == len({found[n] for n in (64, 640, 4096)}) == 1
