# SPDX-License-Identifier: Apache-2.0
"""What blocks with ``forward(x, ...)`` cannot do in a trace: the errors, and what programs under MXNet's name do instead."""

import random
import subprocess
import sys
import warnings

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import autograd, gluon, nd
from hybridgpu.core import autograd_state
from hybridgpu.gluon import nn


def bool_of(x):
    if x.sum() > 0:
        return x
    return -x


def while_of(x):
    while x.sum() < 10:
        x = x * 2
    return x


KEPT = []

REFUSED = {
    "if": (bool_of, "a condition needs the values", "if x.sum() > 0:", "nd.where(condition, x, y), or nd.contrib.cond"),
    "while": (while_of, "a condition needs the values", "while x.sum() < 10:", "nd.contrib.while_loop"),
    "float": (lambda x: x * float(x.sum()), "float() needs", "float(x.sum())", "Keep the value in the graph"),
    "int": (lambda x: x[: int(x.sum())], "int() needs", "int(x.sum())", "nd.where"),
    "range": (
        lambda x: [x for _ in range(x.sum())],
        "a number of Python's needs",
        "range(x.sum())",
        "nd.contrib.foreach",
    ),
    "asnumpy": (lambda x: x + nd.array(x.asnumpy()), "asnumpy() needs", "x.asnumpy()", "nd.contrib.cond"),
    "asscalar": (lambda x: x * x.sum().asscalar(), "asscalar() needs", "asscalar()", "nd.contrib.cond"),
    "NumPy": (lambda x: x + nd.array(np.exp(x)), "a NumPy array needs", "np.exp(x)", "nd.contrib.cond"),
    "host numbers": (
        lambda x: x * random.random(),
        "draws random numbers of Python or NumPy",
        "lambda x: x * random.random()",
        "mx.nd.random",
    ),
    "NumPy's numbers": (
        lambda x: x * np.random.rand(),
        "draws random numbers of Python or NumPy",
        "x * np.random.rand()",
        "mx.nd.random",
    ),
    "backward": (lambda x: x.sum().backward(), "backward() needs", "backward()", "Record the call of the whole"),
    "gradient": (
        lambda x: autograd.grad(x, [x])[0],
        "a gradient needs",
        "autograd.grad(",
        "Record the call of the whole",
    ),
    "another device": (lambda x: x.as_in_context(mx.gpu(3)), "cannot go to gpu(3)", "as_in_context", "before the call"),
    "nothing": (lambda x: 3, "gives no array", "", "Return what it computes"),
    "body writes": (
        lambda x: nd.contrib.foreach(lambda a, s: (x.__iadd__(a), s + a), x, x[0]),
        "writes into an array from outside",
        "",
        "one of the loop's states",
    ),
}


def net_of(body):
    class Refused(gluon.HybridBlock):
        def forward(self, x):
            return body(x)

    net = Refused(prefix="refused_")
    net.hybridize()
    return net


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_trace_cannot_do_is_said_with_the_line_and_what_to_write(name):
    body, text, line, instead = REFUSED[name]
    net = net_of(body)
    for _ in range(2):
        with pytest.raises(mx.TracingError) as error:
            net(nd.ones((2, 2)))
        said = str(error.value)
        assert text in said
        assert line in said
        assert instead in said
        assert "refused" in said
        assert "test_refused.py" in said
    net.hybridize(False)
    assert autograd_state.state.trace is None


def test_what_forward_keeps_is_told():
    class Keeping(gluon.HybridBlock):
        def forward(self, x):
            self.last = [x * 2]
            return x

    net = Keeping(prefix="keeping_")
    net.hybridize()
    with pytest.raises(mx.TracingError, match=r"keeps an array that it computes in self.last.*\n.*\nIt is computed"):
        net(nd.ones((2,)))


def test_an_array_of_a_trace_that_is_used_later_says_so():
    net = net_of(lambda x: KEPT.append(x * 2) or x)
    net(nd.ones((2,)))
    kept = KEPT.pop()
    assert "traced" in repr(kept)
    for use in (lambda: kept + 1, lambda: kept[0], lambda: net_of(lambda x: x + kept)(nd.ones((2,)))):
        with pytest.raises(mx.MXNetError, match="used after that"):
            use()


def test_what_values_decide_inside_a_loop_stays_inside():
    def body(x):
        kept = []
        nd.contrib.foreach(lambda a, s: (kept.append(a * 2) or a, s + a), x, x[0])
        return kept[0]

    with pytest.raises(mx.TracingError, match="used after that"):
        net_of(body)(nd.ones((2, 2)))


def test_the_extents_of_a_mask_are_not_known():
    net = net_of(lambda x: nd.contrib.boolean_mask(x, x[:, 0] > 1) * 2)
    x = nd.array([[1, 2], [3, 4], [5, 6]])
    assert net(x).asnumpy().tolist() == [[6, 8], [10, 12]]
    refused = net_of(lambda x: nd.contrib.boolean_mask(x, x[:, 0] > 1).shape[0] * x)
    with pytest.raises(mx.TracingError, match="shape of this array depends on values"):
        refused(x)


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        (lambda y, x: y.copy() + 1, [[4, 5], [6, 7]]),
        (lambda y, x: y.astype("float32", copy=False) + 1, [[4, 5], [6, 7]]),
        (lambda y, x: y.__imul__(2), "shape of .*out depends on values"),
        (lambda y, x: nd.exp(x, out=y), "shape of exp's out depends on values"),
        (lambda y, x: x.__iadd__(y), "shape of .*result depends on values"),
        (lambda y, x: y.__setitem__(0, 1), "depends on values"),
        (lambda y, x: y.as_np_ndarray(), "depends on values"),
    ],
)
def test_uses_of_an_array_whose_extents_are_not_known(use, expected):
    net = net_of(lambda x: use(nd.contrib.boolean_mask(x, x[:, 0] > 1), x))
    x = nd.array([[1, 2], [3, 4], [5, 6]])
    if isinstance(expected, list):
        assert net(x).asnumpy().tolist() == expected
    else:
        with pytest.raises(mx.TracingError, match=expected):
            net(x)


class Reading(gluon.HybridBlock):
    """Runs in MXNet 1.9.1, operator by operator."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.layer = nn.Dense(2, in_units=2)

    def forward(self, x):
        y = self.layer(x)
        return y * 2 if y.asnumpy().sum() > 1e6 else y


def test_under_mxnets_name_what_cannot_be_traced_runs_as_there(monkeypatch):
    net = Reading(prefix="reading_")
    net.initialize()
    x = nd.ones((1, 2))
    expected = net(x).asnumpy()
    net.hybridize()
    with pytest.raises(mx.TracingError, match="asnumpy"):
        net(x)
    monkeypatch.setattr("hybridgpu.gluon.forward.ROOTS", {"hybridgpu", "mxnet"})
    with pytest.warns(
        UserWarning, match=r"Reading.forward of block reading runs operator by operator, .*asnumpy\(\) needs"
    ):
        got = net(x)
    np.testing.assert_allclose(got.asnumpy(), expected, rtol=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        net(x)  # it is said once
    with pytest.raises(RuntimeError, match=r"reading has no graph to explain: its forward cannot be traced: asnumpy"):
        net.explain(x)
    assert net.layer._cached_op is not None


def test_what_is_no_argument_of_a_graph(monkeypatch):
    class Taking(gluon.HybridBlock):
        def forward(self, x):
            return nd.array(x) * 2

    net = Taking(prefix="taking_")
    net.hybridize()
    with pytest.raises(
        TypeError, match=r"neither an array nor a value that tells signatures apart\nMake it an array first: mx.nd.arr"
    ):
        net(np.ones(2))
    monkeypatch.setattr("hybridgpu.gluon.forward.ROOTS", {"hybridgpu", "mxnet"})
    with pytest.warns(UserWarning, match="runs operator by operator, as in MXNet 1.9.1"):
        assert net(np.ones(2)).asnumpy().tolist() == [2, 2]


def test_a_program_under_mxnets_name_runs_as_there(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import mxnet as mx\n"
        "class Net(mx.gluon.HybridBlock):\n"
        "    def forward(self, x):\n"
        "        return x * 2 if x.asnumpy().sum() > 3 else x\n"
        "net = Net()\n"
        "net.hybridize()\n"
        "print(net(mx.nd.ones((2,))).asnumpy(), net(mx.nd.ones((4,))).asnumpy())\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "hybridgpu", "run", str(program)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[1. 1.] [2. 2. 2. 2.]\n"
    assert done.stderr.count("runs operator by operator") == 1


def test_hooks_run_around_a_traced_call():
    net, seen = net_of(lambda x: x * 2), []
    net.hybridize(False)
    net.register_forward_pre_hook(lambda b, args: seen.append(("before", args[0].shape)))
    net.register_forward_hook(lambda b, args, out: seen.append(("after", float(out.sum().asscalar()))))
    with pytest.warns(UserWarning, match="hybridized while still having"):
        net.hybridize()
    for _ in range(2):
        net(nd.ones((2,)))
    assert seen == [("before", (2,)), ("after", 4.0)] * 2


@pytest.fixture
def mxnets_name(monkeypatch):
    monkeypatch.setattr("hybridgpu.gluon.forward.ROOTS", {"hybridgpu", "mxnet"})


class Deferred(gluon.HybridBlock):
    """Its parameter's shape follows from a trace, and its result from values."""

    def __init__(self):
        super().__init__(prefix="deferred_")
        with self.name_scope():
            self.weight = self.params.get("weight", shape=(2, 0), allow_deferred_init=True)

    def forward(self, x):
        y = nd.FullyConnected(x, self.weight.data(), num_hidden=2, no_bias=True)
        return y * 2 if autograd.is_training() and y.asnumpy().sum() > 1e6 else y


@pytest.mark.parametrize(("hybrid", "train"), [(False, False), (True, False), (True, True)])
def test_hooks_run_once_a_call_whatever_computes_it(hybrid, train, mxnets_name):
    net, seen = Deferred(), []
    net.initialize()
    if hybrid:
        net.hybridize()
    net.register_forward_pre_hook(lambda b, args: seen.append(("before", args[0].shape)))
    net.register_forward_hook(lambda b, args, out: seen.append(("after", out.shape)))
    with warnings.catch_warnings(), autograd.train_mode() if train else autograd.predict_mode():
        warnings.filterwarnings("ignore", ".*runs operator by operator")
        for _ in range(3):
            net(nd.ones((1, 3)))
    assert seen == [("before", (1, 3)), ("after", (1, 2))] * 3


class Inner(gluon.HybridBlock):
    def __init__(self, body, **kwargs):
        super().__init__(**kwargs)
        self.body = body

    def forward(self, x):
        return self.body(x)


class Outer(gluon.HybridBlock):
    def __init__(self, body, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.inner = Inner(body, prefix="inner_")

    def forward(self, x):
        return self.inner(x * 1) + 1


class OuterOfSymbols(Outer):
    forward = gluon.HybridBlock.forward

    def hybrid_forward(self, F, x):
        return self.inner(x * 1) + 1


#: what a block below another one does wrong
WRONG = {
    "shapes": lambda x: x + nd.ones((7,)),
    "products": lambda x: nd.dot(x, x),
    "extents": lambda x: x.reshape((7,)),
    "an axis": lambda x: x.sum(axis=7),
    "a value written": lambda x: x.__setitem__(0, nd.ones((7,))),
    "out": lambda x: nd.elemwise_add(x, x, out=nd.ones((7,))),
    "a position": lambda x: x[9],
    "a slice": lambda x: x[2:1],
    "an attribute": lambda x: nd.Activation(x, act_type="nope"),
    "an operand that is missing": lambda x: nd.FullyConnected(x, num_hidden=2),
    "a loop's body": lambda x: nd.contrib.foreach(lambda a, s: (nd.dot(a, a.reshape((2, 2))), s), x, x[0])[0],
    "a hybridized function": mx.hybridize(lambda x: nd.concat(x, nd.ones((7,)), dim=0)),
    "np": lambda x: x.as_np_ndarray().__setitem__(0, mx.np.ones((7,))),
}


@pytest.mark.parametrize("kind", [Outer, OuterOfSymbols])
@pytest.mark.parametrize("name", WRONG)
def test_errors_of_operators_are_those_without_a_trace_with_the_inner_block_and_the_line(name, kind):
    said = []
    for hybrid in (False, True):
        net = kind(WRONG[name], prefix="outer_")
        net.hybridize(hybrid)
        with pytest.raises(Exception) as error:  # noqa: PT011 (which one is compared)
            net(nd.ones((2, 3)))
        said.append((type(error.value), str(error.value)))
    assert said[1][0] is said[0][0]
    assert said[1][1].startswith(said[0][1])  # those of eager np leave the place to the traceback
