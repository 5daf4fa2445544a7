# SPDX-License-Identifier: Apache-2.0
"""Attributes that users' classes set: a name with one underscore means something only if MXNet has it."""

from __future__ import annotations

import importlib
import json
import pkgutil
import warnings
from pathlib import Path

import numpy as np
import pytest
from against_mxnet.recorded.record_private_names import BASES, class_at, is_private, private_names

import hybridgpu as mx
from hybridgpu import autograd, gluon, nd

PREFIX = "_hg_"  #: of names that MXNet does not have
RECORDED = json.loads((Path(__file__).parent / "against_mxnet" / "recorded" / "private_names.json").read_text())
#: names that functions of MXNet give to instances of a class
GIVEN = {"gluon.trainer.Trainer": {"_amp_loss_scaler", "_amp_original_scale"}, "rnn.rnn_cell.BaseRNNCell": {"_cells"}}


def own_classes():
    """The package's classes of which users make subclasses -> MXNet's names for each."""
    for module in pkgutil.walk_packages(mx.__path__, "hybridgpu."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    names = {}
    for path, entry in RECORDED.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                cls = class_at("hybridgpu", path)
            except (ImportError, AttributeError):
                continue
        for base in (path, *entry["bases"]):
            names.setdefault(cls, set()).update(RECORDED[base]["names"].split(), GIVEN.get(base, ()))
    waiting, found = [class_at("hybridgpu", path) for path in BASES], {}
    while waiting:
        cls = waiting.pop()
        if cls not in found and cls.__module__.startswith("hybridgpu."):
            found[cls] = set().union(*(names.get(c, ()) for c in cls.__mro__))
            waiting += type.__subclasses__(cls)
    return found


CLASSES = own_classes()


def not_mxnets(names, cls):
    """Those with one underscore that are neither MXNet's nor marked as the package's own."""
    allowed = set().union(*(CLASSES.get(c, ()) for c in cls.__mro__))
    return sorted(n for n in names if is_private(n) and not n.startswith(PREFIX) and n not in allowed)


def test_there_are_classes_of_all_kinds():
    assert len(CLASSES) > 250 and {class_at("hybridgpu", path) for path in BASES} <= CLASSES.keys()


@pytest.mark.parametrize("cls", [c for c in CLASSES if not c.__name__.startswith("_")], ids=lambda c: c.__name__)
def test_names_of_classes(cls):
    bases = [c for c in cls.__mro__ if c.__module__.startswith("hybridgpu.")]
    assert not_mxnets(set().union(*map(private_names, bases)), cls) == []


def test_names_of_new_instances():
    seen = 0
    for cls in CLASSES:
        if cls.__name__.startswith("_") or cls.__module__.startswith("hybridgpu.gluon.model_zoo"):
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made = cls()
        except (TypeError, ImportError, AssertionError, mx.MXNetError):  # needs arguments, or a library
            continue
        assert (cls.__name__, not_mxnets(vars(made), cls)) == (cls.__name__, [])
        seen += 1
    assert seen > 100


class Graph(gluon.HybridBlock):
    def hybrid_forward(self, F, x):
        return x * 2


class Traced(gluon.HybridBlock):
    def forward(self, x):
        return x * 2


class Around(Graph):
    def forward(self, x):
        return super().forward(x)


class Python(gluon.Block):
    def forward(self, x):
        return x * 2


def net(cls):
    made = cls()
    made.hybridize()
    for _ in range(4):
        made(nd.ones((2,)))
    return made


def layer(made, *inputs):
    made.initialize()
    made.hybridize()
    for _ in range(3):
        with autograd.record():
            made(*inputs)
    return made


def stepped(optimizer):
    dense = layer(gluon.nn.Dense(2), nd.ones((2, 3)))
    trainer = gluon.Trainer(dense.collect_params(), optimizer)
    for _ in range(3):
        with autograd.record():
            y = dense(nd.ones((2, 3)))
        y.backward()
        trainer.step(2)
    return trainer


def loaded(**given):
    made = gluon.data.DataLoader(gluon.data.ArrayDataset(np.ones((4, 2), "float32")), 2, **given)
    assert len(list(made)) == 2
    return made


def fitted():
    data = mx.io.NDArrayIter(np.ones((4, 3), "float32"), np.zeros((4,), "float32"), 2)
    symbol = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2), name="softmax")
    module = mx.mod.Module(symbol)
    module.fit(data, num_epoch=1)
    return module, data


def counted(made):
    made.update([nd.array([0, 1])], [nd.array([[0.3, 0.7], [0.2, 0.8]])])
    return made


USED = {
    **{cls.__name__: lambda cls=cls: [net(cls)] for cls in (Graph, Traced, Around, Python)},
    "lstm": lambda: [layer(gluon.rnn.LSTM(2), nd.ones((3, 2, 2)))],
    "batch norm": lambda: [layer(gluon.nn.BatchNorm(), nd.ones((2, 3)))],
    "loss": lambda: [layer(gluon.loss.L2Loss(), nd.ones((2, 3)), nd.ones((2, 3)))],
    "sgd": lambda: [(t := stepped("sgd")), t._optimizer, *t._updaters, *t._params, t._params[0]._trainer],
    "lamb": lambda: [stepped("lamb")._optimizer],
    "loader": lambda: [loaded()],
    "loader with threads": lambda: [loaded(num_workers=1, thread_pool=True)],
    "module": lambda: [*fitted()],
    "metrics": lambda: [counted(m()) for m in (mx.metric.Accuracy, mx.metric.F1, mx.metric.MCC, mx.metric.PCC)],
    "store": lambda: [mx.kv.create("local")],
}  # fmt: skip


@pytest.mark.parametrize("name", USED)
def test_names_of_used_instances(name):
    for made in USED[name]():
        assert not_mxnets(vars(made), type(made)) == []


#: what programs call attributes of their own
COMMON = (
    "_active_ _add _all _average _batch _call _cell _cells _changed _channels _check _count _data _dense _eager _entry _fast "
    "_first _forward _gates _infer _inner _kind _last _layout _name_ _number _order _plain _position _rate _repeats "
    "_replaces _result _size _start _state _states _step _steps _take _text _trace _traced _transparent _type _value"
).split()


class Busy(gluon.HybridBlock):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        for k, name in enumerate(COMMON):
            setattr(self, name, k)
        self.dense = gluon.nn.Dense(3)

    def hybrid_forward(self, F, x):
        return self.dense(x) * self._first + self._infer


@pytest.mark.parametrize(
    "change", [lambda n: None, lambda n: n.cast("float32"), lambda n: n.register_forward_hook(print)]
)
def test_attributes_of_users_mean_nothing(change, capsys):
    made, x = Busy(), nd.ones((2, 3))
    made.initialize()
    expected = made(x).asnumpy()
    made.hybridize()
    for _ in range(3):
        assert (made(x).asnumpy() == expected).all()
    change(made)
    for _ in range(3):
        assert (made(x).asnumpy() == expected).all()
    assert [getattr(made, name) for name in COMMON] == list(range(len(COMMON)))


class Halved(mx.optimizer.SGD):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self._step = self._call = self._begin = self._count = self._numbers = self._gradient = 3


class Share(mx.metric.Accuracy):
    def __init__(self):
        super().__init__()
        self._value = self._add = self._count = self._check = 3


def test_attributes_of_users_optimizers_and_metrics_mean_nothing():
    mx.random.seed(1)
    own = stepped(Halved(learning_rate=0.5))
    mx.random.seed(1)
    plain = stepped(mx.optimizer.SGD(learning_rate=0.5))
    for p, q in zip(own._params, plain._params, strict=True):
        assert (p.data().asnumpy() == q.data().asnumpy()).all()
    assert counted(Share()).get() == counted(mx.metric.Accuracy()).get()
