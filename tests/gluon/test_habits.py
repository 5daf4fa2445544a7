# SPDX-License-Identifier: Apache-2.0
"""Names of other libraries: MXNet's class and wording, then what to write instead, which exists."""

from __future__ import annotations

import re

import pytest

import hybridgpu as mx
from hybridgpu import gluon, nd
from hybridgpu.gluon import habits, nn
from hybridgpu.namespaces import INSTEAD
from hybridgpu.ops.functions import find


def net():
    made = nn.Dense(2, in_units=3)
    made.initialize()
    return made


#: what is written -> (error, its first line, what the second one has)
WRITTEN = {
    "layer": (
        lambda: nn.Linear(3),
        AttributeError,
        "module 'hybridgpu.gluon.nn' has no attribute 'Linear'",
        "nn.Dense",
    ),
    "loss": (
        lambda: gluon.loss.CrossEntropyLoss(),
        AttributeError,
        "module 'hybridgpu.gluon.loss' has no attribute 'CrossEntropyLoss'",
        "SoftmaxCrossEntropyLoss()",
    ),
    "loss of nn": (
        lambda: nn.MSELoss(),
        AttributeError,
        "module 'hybridgpu.gluon.nn' has no attribute 'MSELoss'",
        "L2Loss",
    ),
    "array": (
        lambda: nd.matmul(nd.ones((2, 2)), nd.ones((2, 2))),
        AttributeError,
        "module 'hybridgpu.ndarray' has no attribute 'matmul'",
        "Write nd.dot(a, b)",
    ),
    "symbol": (
        lambda: mx.sym.cat(mx.sym.var("a")),
        AttributeError,
        "module 'hybridgpu.symbol' has no attribute 'cat'",
        "Write sym.concat(a, b, dim=0).",
    ),
    "method": (
        lambda: net().parameters(),
        AttributeError,
        "'Dense' object has no attribute 'parameters'",
        "Write net.collect_params()",
    ),
    "argument": (
        lambda: gluon.Trainer(net().collect_params(), "sgd", {"lr": 0.1}),
        TypeError,
        "__init__() got an unexpected keyword argument 'lr'",
        "Write learning_rate instead; SGD takes momentum, ",
    ),
    "misspelt argument": (
        lambda: mx.optimizer.create("adam", beta_1=0.1),
        TypeError,
        "__init__() got an unexpected keyword argument 'beta_1'",
        "Write beta1 instead; Adam takes ",
    ),
    "optimizer": (
        lambda: gluon.Trainer(net().collect_params(), "sgdd"),
        ValueError,
        "Cannot find optimizer sgdd",
        "Write 'sgd'.",
    ),
    "initializer": (
        lambda: mx.init.create("xavierr"),
        AssertionError,
        "xavierr is not registered. Please register with initializer.register first",
        "Write 'xavier'.",
    ),
    "metric": (
        lambda: mx.metric.create("acuracy"),
        AssertionError,
        "acuracy is not registered. Please register with metric.register first",
        "Write 'accuracy'.",
    ),
    "another optimizer": (
        lambda: mx.optimizer.create("x"),
        ValueError,
        "Cannot find optimizer x",
        "There are adadelta, ",
    ),
    "pattern": (
        lambda: net().collect_params("*weight"),
        re.error,
        "nothing to repeat at position 0",
        "write '.*weight'",
    ),
}


@pytest.mark.parametrize("what", WRITTEN)
def test_what_is_said(what):
    call, error, first, second = WRITTEN[what]
    with pytest.raises(error) as caught:
        call()
    one, two = str(caught.value).split("\n")
    assert one.endswith(first) and second in two and "test_habits.py" in two


@pytest.mark.parametrize("module", [nn, gluon.loss, nd, mx.sym], ids=lambda m: m.__name__)
def test_other_names_are_told_as_ever(module):
    with pytest.raises(AttributeError, match=rf"^module '{module.__name__}' has no attribute 'quite_another'$"):
        module.quite_another  # noqa: B018
    assert not hasattr(module, "__quite_another__")


def test_other_attributes_are_told_as_ever():
    with pytest.raises(AttributeError, match="^'Dense' object has no attribute 'quite_another'$"):
        net().quite_another  # noqa: B018


def test_a_property_that_fails_says_why():
    class Net(gluon.HybridBlock):
        @property
        def depth(self):
            return self.layers

    with pytest.raises(AttributeError, match="^'Net' object has no attribute 'layers'$"):
        Net().depth  # noqa: B018


def test_what_is_advised_exists():
    for table in (habits.LAYERS, habits.LOSSES, habits.METHODS):
        for name, instead in table.items():
            for owner, path in re.findall(r"\b(nn|gluon\.rnn|gluon\.loss|net)\.(\w+)", instead):
                where = {"nn": nn, "gluon.rnn": gluon.rnn, "gluon.loss": gluon.loss, "net": net()}[owner]
                assert hasattr(where, path), (name, instead)
            for operator in re.findall(r"\bF\.(?:contrib\.)?(\w+)", instead):
                assert find(operator, "contrib" if "F.contrib" in instead else ""), (name, instead)
    for name, instead in INSTEAD.items():
        assert find(name, "") is None, name
        for operator in re.findall(r"\{0\}\.(\w+)", instead):
            assert hasattr(mx.nd, operator) and hasattr(mx.sym, operator), (name, instead)


@pytest.mark.parametrize("name", sorted({*habits.LAYERS, *habits.LOSSES}))
def test_names_of_the_tables_are_not_taken(name):
    for module in (nn, *([gluon.loss] if name in habits.LOSSES else [])):
        if name in habits.LOSSES and name in gluon.loss.__all__:
            continue
        with pytest.raises(AttributeError, match="Write "):
            getattr(module, name)


@pytest.mark.parametrize("name", sorted(habits.METHODS))
def test_methods_of_the_table_are_not_there(name):
    with pytest.raises(AttributeError, match="Write "):
        getattr(net(), name)
