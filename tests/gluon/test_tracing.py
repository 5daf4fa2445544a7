# SPDX-License-Identifier: Apache-2.0
"""What hybridize() promises about the user's code: when it runs, what it sees, what it cannot do."""

from __future__ import annotations

import inspect
import math
import re
import threading
import warnings

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu.base import MXNetError, NotImplementedForSymbol

nd, nn = mx.nd, mx.gluon.nn


def block(function, prefix="b_"):
    """A HybridBlock whose hybrid_forward is ``function``."""

    class Net(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, *args, **params):
            return function(F, *args, **params)

    return Net(prefix=prefix)


def hybrid(function, *args, prefix="b_"):
    net = block(function, prefix)
    net.hybridize()
    return net(*args)


X = (2, 3)


# -- what runs when


class Tutorial(mx.gluon.HybridBlock):
    """The net of the hybrid-programming tutorial."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.hidden = nn.Dense(4)
            self.output = nn.Dense(2)

    def hybrid_forward(self, F, x):
        print("F:", F.__name__.split(".")[-1])
        print("x:", x)
        x = F.relu(self.hidden(x))
        print("hidden:", x)
        return self.output(x)


SYMBOLIC = "F: symbol\nx: <Symbol data>\nhidden: <Symbol hybridnet0_relu0>\n"


def test_prints_appear_at_the_first_hybridized_call_only(capsys):
    net = Tutorial(prefix="hybridnet0_")
    net.initialize()
    x = nd.ones((1, 5))
    want = net(x).asnumpy()
    out = capsys.readouterr().out
    assert "F: ndarray" in out and "<NDArray 1x4 @cpu(0)>" in out
    net.hybridize()
    np.testing.assert_allclose(net(x).asnumpy(), want, rtol=1e-6)
    assert capsys.readouterr().out == SYMBOLIC
    for shape in [(1, 5), (1, 5), (7, 5)]:  # neither a known nor a new signature runs it again
        net(nd.ones(shape))
    assert capsys.readouterr().out == ""
    net.hybridize()
    net(x)
    assert capsys.readouterr().out == SYMBOLIC
    net.hybridize(active=False)
    net(x)
    assert "F: ndarray" in capsys.readouterr().out


AGAIN = {
    "hybridize": lambda net: net.hybridize(static_alloc=True),
    "cast": lambda net: net.cast("float32"),
    "a child": lambda net: setattr(net, "output", nn.Dense(2, in_units=4, prefix="other_")) or net.output.initialize(),
}
NOT_AGAIN = {
    "set_data": lambda net: net.output.bias.set_data(nd.array([1, 2])),
    "initialize": lambda net: net.initialize(force_reinit=True),
    "an attribute": lambda net: setattr(net, "number", 3),
    "a child's cast": lambda net: net.hidden.cast("float32"),
}


@pytest.mark.parametrize("change", [*AGAIN, *NOT_AGAIN])
def test_what_traces_again(change, capsys):
    net = Tutorial(prefix="hybridnet0_")
    net.initialize()
    net.hybridize()
    net(nd.ones((1, 5)))
    capsys.readouterr()
    {**AGAIN, **NOT_AGAIN}[change](net)
    net(nd.ones((1, 5)))
    assert bool(capsys.readouterr().out) == (change in AGAIN)


@pytest.mark.parametrize(
    "change",
    [
        lambda net, x: net.weight.set_data(nd.ones((2, 3)) * 5),
        lambda net, x: net.initialize(mx.init.One(), force_reinit=True),
        lambda net, x: net.weight.data().__setitem__(slice(None), 7),
        lambda net, x: net.weight.data().__iadd__(1),
        lambda net, x: net.bias.set_data(nd.array([3, 4])),
        lambda net, x: net.load_parameters("p.params"),
        lambda net, x: (net.cast("float64"), x.append(x.pop().astype("float64"))),
        lambda net, x: net.collect_params().reset_ctx(mx.cpu(1)) or x.append(x.pop().as_in_context(mx.cpu(1))),
    ],
    ids=["set_data", "initialize", "write", "in place", "bias", "load_parameters", "cast", "reset_ctx"],
)
@pytest.mark.parametrize("flags", [{}, {"static_alloc": True, "static_shape": True}], ids=["plain", "static"])
def test_parameters_changed_after_hybridize_are_seen(change, flags, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    net = nn.Dense(2, in_units=3)
    net.initialize(mx.init.Constant(0.25))
    net.save_parameters("p.params")
    net.weight.set_data(nd.ones((2, 3)) * 2)
    net.hybridize(**flags)
    x = [nd.array([[1, 2, 3]])]
    before = [net(x[0]).asnumpy() for _ in range(3)]
    change(net, x)
    after = net(x[0])
    w, b = net.weight.data(x[0].context).asnumpy(), net.bias.data(x[0].context).asnumpy()
    np.testing.assert_allclose(after.asnumpy(), x[0].asnumpy() @ w.T + b, rtol=1e-6)
    assert not np.array_equal(after.asnumpy(), before[-1]) or w.flat[0] == 2
    net.hybridize(active=False)
    np.testing.assert_allclose(net(x[0]).asnumpy(), after.asnumpy(), rtol=1e-6)


def test_deferred_parameters_of_the_block_itself_trace_once_before_the_first_eager_run(capsys):
    class Own(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__(prefix="own_")
            self.w = self.params.get("w", shape=(2, 0), allow_deferred_init=True)

        def hybrid_forward(self, F, x, w):
            print(F.__name__.split(".")[-1])
            return F.FullyConnected(x, w, no_bias=True, num_hidden=2)

    net = Own()
    net.initialize()
    net(nd.ones((1, 3)))
    assert capsys.readouterr().out == "symbol\nndarray\n"
    assert net.w.shape == (2, 3)


def test_a_symbol_gives_a_symbol_hybridized_or_not():
    net = nn.HybridSequential(prefix="n_")
    with net.name_scope():
        net.add(nn.Dense(3, activation="relu"), nn.Dense(2))
    for hybridized in (False, True):
        net.hybridize(hybridized)
        out = net(mx.sym.var("data"))
        assert isinstance(out, mx.sym.Symbol)
        assert out.list_arguments() == [
            "data", "n_dense0_weight", "n_dense0_bias", "n_dense1_weight", "n_dense1_bias",
        ]  # fmt: skip
        assert [n.removesuffix("_output") for n in out.get_internals().list_outputs() if n.endswith("_output")] == [
            "n_dense0_fwd", "n_dense0_relu_fwd", "n_dense1_fwd",
        ]  # fmt: skip


# -- what cannot be hybridized: MXNet's words, then what to write instead, and where

NOT_FOR_SYMBOL = "Function {} is not implemented for Symbol and only available in NDArray."
OPERATOR = 'Function {} (namely operator "{}") with arguments ({}) is not implemented for Symbol and only available in NDArray.'
SYMBOL_TYPE = "<class 'hybridgpu.symbol.symbol.Symbol'>"
INDEX = "Symbol only support integer index to fetch i-th output"


def in_place(code):
    scope = {}
    exec(f"def f(F, x):\n    {code}\n    return x", scope)
    return scope["f"]


REFUSED = [
    ("x[0, 0]", TypeError, INDEX, "F.slice"),
    ("x[None]", TypeError, INDEX, "F.slice"),
    ("x[...]", TypeError, INDEX, "F.slice"),
    ("x[x]", TypeError, INDEX, "F.slice"),
    ("x[1.0]", TypeError, INDEX, "F.slice"),
    ("x[1]", IndexError, "there is no output 1 of 1", "F.slice"),
    ("x[1:]", TypeError, "Expected a list of symbols as input", "F.slice"),
    ("x[:-1]", TypeError, "Expected a list of symbols as input", "F.slice"),
    ("x[0:2]", IndexError, "there is no output 1 of 1", "F.slice"),
    ("x[-2:]", MXNetError, "Symbol only accept nonnegative index", "F.slice"),
    ("x[-1]", MXNetError, "Symbol only accept nonnegative index", "numbered from 0"),
    ("x.shape", AttributeError, "'Symbol' object has no attribute 'shape'", "F.shape_array"),
    ("x.dtype", AttributeError, "'Symbol' object has no attribute 'dtype'", "F.cast"),
    ("x.context", AttributeError, "'Symbol' object has no attribute 'context'", "Devices"),
    ("x.ctx", AttributeError, "'Symbol' object has no attribute 'ctx'", "Devices"),
    ("x.size", AttributeError, "'Symbol' object has no attribute 'size'", "F.size_array"),
    ("x.ndim", AttributeError, "'Symbol' object has no attribute 'ndim'", "reshape codes"),
    ("x.T", AttributeError, "'Symbol' object has no attribute 'T'", "F.transpose"),
    ("x.view(-1)", AttributeError, "'Symbol' object has no attribute 'view'", "F.reshape"),
    ("x.permute(1, 0)", AttributeError, "'Symbol' object has no attribute 'permute'", "F.transpose"),
    ("x.unsqueeze(0)", AttributeError, "'Symbol' object has no attribute 'unsqueeze'", "F.expand_dims"),
    ("x.numpy()", AttributeError, "'Symbol' object has no attribute 'numpy'", "or read the block's result"),
    ("x.grad", AttributeError, "'Symbol' object has no attribute 'grad'", "attach_grad"),
    ("x.asnumpy()", NotImplementedForSymbol, NOT_FOR_SYMBOL.format("asnumpy"), "block's result"),
    ("x.asscalar()", NotImplementedForSymbol, NOT_FOR_SYMBOL.format("asscalar"), "block's result"),
    ("x.wait_to_read()", NotImplementedForSymbol, NOT_FOR_SYMBOL.format("wait_to_read"), "nothing to wait for"),
    ("x.backward()", NotImplementedForSymbol, NOT_FOR_SYMBOL.format("backward"), "block returns"),
    ("x.detach()", NotImplementedForSymbol, NOT_FOR_SYMBOL.format("detach"), "F.BlockGrad"),
    ("x.copy()", NotImplementedForSymbol, NOT_FOR_SYMBOL.format("copy"), "F.identity"),
    ("x.as_in_context(1)", NotImplementedForSymbol, NOT_FOR_SYMBOL.format("as_in_context"), "move the inputs"),
    ("1 if x else 2", NotImplementedForSymbol, 'Function __bool__ (namely operator "bool") is not implemented for Symbol and only available in NDArray.', "F.where"),
    ("not x", NotImplementedForSymbol, 'Function __bool__ (namely operator "bool") is not implemented for Symbol and only available in NDArray.', "F.contrib.cond"),
    ("x if x > 0 else -x", NotImplementedForSymbol, 'Function __bool__ (namely operator "bool") is not implemented for Symbol and only available in NDArray.', "F.where"),
    ("x // 2", TypeError, "unsupported operand type(s) for //: 'Symbol' and 'int'", "Write F.floor(x / 2)."),
    ("2.5 // x", TypeError, "unsupported operand type(s) for //: 'float' and 'Symbol'", "Write F.floor(2.5 / x)."),
    ("x // (x + 1)", TypeError, "unsupported operand type(s) for //: 'Symbol' and 'Symbol'", "Write F.floor(x / y)."),
    ("divmod(x, 2)", TypeError, "unsupported operand type(s) for divmod(): 'Symbol' and 'int'", "Write F.floor(x / 2) and x % 2."),
    ("x @ x", TypeError, "unsupported operand type(s) for @: 'Symbol' and 'Symbol'", "Write F.dot(x, x), for stacks of matrices F.batch_dot(x, x)"),
    ("x & x", TypeError, "unsupported operand type(s) for &: 'Symbol' and 'Symbol'", "F.broadcast_logical_and(x, x)"),
    ("x | 1", TypeError, "unsupported operand type(s) for |: 'Symbol' and 'int'", "F.broadcast_logical_or(x, y)"),
    ("x >> 1", TypeError, "unsupported operand type(s) for >>: 'Symbol' and 'int'", "F.floor(x / 2 ** 1)"),
    ("~x", TypeError, "bad operand type for unary ~: 'Symbol'", "Write F.logical_not(x)."),
    ("+x", TypeError, "bad operand type for unary +: 'Symbol'", "Write x."),
    ("round(x)", TypeError, "type Symbol doesn't define __round__ method", "F.round(x)"),
    ("math.floor(x)", TypeError, "must be real number, not Symbol", "F.floor(x)"),
    ("math.trunc(x)", TypeError, "type Symbol doesn't define __trunc__ method", "F.trunc(x)"),
    ("math.sqrt(x)", TypeError, "must be real number, not Symbol", "operators of F"),
    ("float(x)", TypeError, "must be real number, not Symbol", "operators of F"),
    ("int(x)", TypeError, "int() argument must be a string, a bytes-like object or a real number, not 'Symbol'", "operators of F"),
    ("range(x)", TypeError, "'Symbol' object cannot be interpreted as an integer", "operators of F"),
    ("f'{x:.2f}'", TypeError, "unsupported format string passed to Symbol.__format__", "operators of F"),
    ("np.mean(x, axis=1)", MXNetError, "Cannot find argument 'dtype', Possible Arguments:", "write x.mean or F.mean."),
    ("np.argsort(x)", MXNetError, "Cannot find argument 'kind', Possible Arguments:", "write x.argsort or F.argsort."),
    ("np.asarray(x)", NotImplementedForSymbol, NOT_FOR_SYMBOL.format("__array__"), "use operators of F."),
    ("max(x, 0)", NotImplementedForSymbol, 'Function __bool__ (namely operator "bool") is not implemented for Symbol and only available in NDArray.', "F.where"),
]  # fmt: skip
STATEMENTS = [
    ("x[0] = 2", TypeError, "'Symbol' object does not support item assignment", "F.where"),
    ("x[:] = 2", TypeError, "'Symbol' object does not support item assignment", "F.where"),
    (
        "x += x",
        NotImplementedForSymbol,
        OPERATOR.format("__iadd__", "+=", f"{SYMBOL_TYPE}, <class 'int'>"),
        "x = x + y",
    ),
    ("x -= x", NotImplementedForSymbol, OPERATOR.format("__isub__", "-=", SYMBOL_TYPE), "x = x - y"),
    ("x *= x", NotImplementedForSymbol, OPERATOR.format("__imul__", "*=", SYMBOL_TYPE), "x = x * y"),
    ("x /= x", NotImplementedForSymbol, OPERATOR.format("__itruediv__", "/=", SYMBOL_TYPE), "x = x / y"),
    ("x %= x", NotImplementedForSymbol, OPERATOR.format("__imod__", "%=", SYMBOL_TYPE), "x = x % y"),
    ("x //= 2", TypeError, "unsupported operand type(s) for //=: 'Symbol' and 'int'", "Write F.floor(x / 2)."),
    ("x @= x", TypeError, "unsupported operand type(s) for @=: 'Symbol' and 'Symbol'", "F.dot(x, x)"),
]


@pytest.mark.parametrize(
    ("code", "error", "text", "instead"), REFUSED + STATEMENTS, ids=[r[0] for r in REFUSED + STATEMENTS]
)
def test_what_a_symbol_refuses(code, error, text, instead):
    if " = " in code or re.search(r"\W= ", code):
        function = in_place(code)
    else:
        function = eval(f"lambda F, x: {code}", {"np": np, "math": math})
    with pytest.raises(error) as caught:
        hybrid(function, nd.ones(X), prefix="net7_")
    first, _, advice = str(caught.value).partition("\n")
    assert first == text
    assert instead in advice
    assert "block net7" in advice
    assert isinstance(caught.value, error)
    if error is NotImplementedForSymbol:
        assert isinstance(caught.value, MXNetError) and isinstance(caught.value, NotImplementedError)


def test_power_has_no_in_place_form():
    """Arrays and Symbols alike: the name stands for a new value, and what it stood for keeps its own."""
    x = nd.array([1, 3, -5])
    power = in_place("x **= 2")
    for run in (lambda: power(nd, x), lambda: hybrid(power, x)):
        assert run().asnumpy().tolist() == [1, 9, 25] and x.asnumpy().tolist() == [1, 3, -5]


def test_another_librarys_operand_may_know_what_to_do():
    class Other:
        def __rmatmul__(self, left):
            return "theirs"

        def __rfloordiv__(self, left):
            return "theirs"

    assert mx.sym.var("x") @ Other() == "theirs" and nd.ones(3) // Other() == "theirs"


def test_a_block_that_returns_nothing_is_named():
    with pytest.raises(TypeError, match=r"returned None: end it with a return statement \(block b\)"):
        hybrid(lambda F, x: None, nd.ones(X))


def test_the_advice_names_the_users_line():
    def forward(F, x):
        y = F.relu(x)
        return y.shape  # the line

    with pytest.raises(AttributeError) as caught:
        hybrid(forward, nd.ones(X))
    source, start = inspect.getsourcelines(forward)
    line = start + next(k for k, s in enumerate(source) if "# the line" in s)
    assert re.search(rf"\(block b, test_tracing\.py:{line}\)$", str(caught.value))


def test_hasattr_and_getattr_with_a_default_work_on_symbols():
    assert not hasattr(mx.sym.var("x"), "shape")
    assert getattr(mx.sym.var("x"), "shape", None) is None


WRONG_CALLS = [
    (lambda F, x: x + [1], TypeError, "type <class 'list'> not supported"),
    (lambda F, x: x + None, TypeError, "type <class 'NoneType'> not supported"),
    (lambda F, x: x + nd.ones(X), TypeError, "type <class 'hybridgpu.ndarray.ndarray.NDArray'> not supported"),
    (lambda F, x: {x: 1}, TypeError, "unhashable type: 'Symbol'"),
    (lambda F, x: F.relu(3), AssertionError, "Argument data must be Symbol instances, but got 3"),
    (lambda F, x: F.concat([x, x]), AssertionError, "Positional arguments must be Symbol instances, but got [<Symbol data>, <Symbol data>]"),
    (lambda F, x: F.nope(x), AttributeError, "module 'hybridgpu.symbol' has no attribute 'nope'"),
    (lambda F, x: F.Activation(x, act_type="zz"), MXNetError, "Invalid Input: 'zz', valid values are: {'relu', 'sigmoid', 'softrelu', 'softsign', 'tanh'}, in operator Activation(name=\"\", act_type=\"zz\")"),
    (lambda F, x: F.FullyConnected(x), MXNetError, "Required parameter num_hidden of int is not presented, in operator FullyConnected(name=\"\")"),
    (lambda F, x: F.clip(x, a_min=0, a_max=1, foo=2), MXNetError, "Cannot find argument 'foo', Possible Arguments:"),
    (lambda F, x: x.reshape(0, -1), MXNetError, "Invalid Parameter format for reverse expect boolean but value='-1'"),
    (lambda F, x: x + True, MXNetError, "Invalid Parameter format for scalar expect double but value='True'"),
    (lambda F, x: F.softmax(F.split(x, num_outputs=3)), MXNetError, "Keyword Argument data is a tuple, single value is required"),
    (lambda F, x: 3, ValueError, "When hybridized, the input of HybridBlock output must be (nested) list of Symbol or NDArray, but got 3 of type <class 'int'>"),
    (lambda F, x: None, TypeError, "Expected a list of symbols as input"),
]  # fmt: skip


@pytest.mark.parametrize(("function", "error", "text"), WRONG_CALLS, ids=[w[2][:60] for w in WRONG_CALLS])
def test_wrong_calls(function, error, text):
    with pytest.raises(error) as caught:
        hybrid(function, nd.ones(X))
    assert str(caught.value).splitlines()[0].startswith(text)


RUN_TIME = [
    ("elementwise shapes", lambda F, x, y: x + y, [X, (1, 3)], "Error in operator b__plus0: ", "expected [2,3], got [1,3]"),
    ("broadcast shapes", lambda F, x, y: F.broadcast_add(x, y), [X, (2, 4)], "Error in operator b_broadcast_add0: ", "[2,3] [2,4]"),
    ("dot shapes", lambda F, x, y: F.dot(x, y), [X, X], "Error in operator b_dot0: ", "dot shape error: [2,3] X [2,3]"),
    ("reshape", lambda F, x, y: x.reshape((4, 2)), [X, X], "Error in operator b_reshape0: ", "Target: [4,2] Source: [2,3]"),
    ("axis", lambda F, x, y: F.sum(x, axis=5), [X, X], "Error in operator b_sum0: ", "Reduction axis 5 Exceeds input dimensions [2,3]"),
    ("split", lambda F, x, y: F.split(x, num_outputs=2), [X, X], "Error in operator b_split0: ", "does not evenly divide 3"),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:The 1-th input to HybridBlock is not used")
@pytest.mark.parametrize(("name", "function", "shapes", "where", "text"), RUN_TIME, ids=[r[0] for r in RUN_TIME])
def test_graphs_that_do_not_fit_name_node_block_and_line(name, function, shapes, where, text):
    with pytest.raises(MXNetError) as caught:
        hybrid(function, *(nd.ones(s) for s in shapes))
    message = str(caught.value)
    assert message.startswith(where) and text in message
    assert re.search(r"\(made in block b, test_tracing\.py:\d+\)$", message)


def test_a_dtype_that_does_not_fit_names_the_operator():
    net = nn.Dense(2, in_units=3)
    net.initialize()
    for hybridized in (False, True):
        net.hybridize(hybridized)
        with pytest.raises(MXNetError, match="expected float64, got float32") as caught:
            net(nd.ones(X, dtype="float64"))
        if hybridized:
            assert "Error in operator dense0_fwd: " in str(caught.value) and "dense0" in str(caught.value)


#: arguments, names of the variables, and which inputs are told to be unused: as in MXNet 1.9.1
NAMED = [
    ((1,), ["data"], ""),
    ((1, None), ["data"], ""),
    ((1, 1), ["data0", "data1"], "1-th"),
    ((1, None, 1), ["data0", "data1"], "1-th"),
    ((1, 1, 1), ["data0", "data1", "data2"], "1-th, 2-th"),
]


@pytest.mark.parametrize(("args", "names", "unused"), NAMED, ids=[str(r[0]) for r in NAMED])
def test_inputs_are_counted_without_none(args, names, unused):
    net = block(lambda F, x, y=None, z=None: x * 2)
    net.hybridize()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        net(*(n and nd.ones(2) for n in args))
    told = f"The {unused} input to HybridBlock is not used by any computation. Is this intended?"
    assert [str(w.message) for w in caught] == ([told] if unused else [])
    assert [i.name for i in net._cached_graph[0]] == names


def test_an_unused_input_of_a_symbol_block_has_any_name():
    data, label = mx.sym.var("data"), mx.sym.var("softmax_label")
    net = mx.gluon.SymbolBlock(data * 2, [data, label])
    with pytest.warns(UserWarning, match=r"^The 1-th input to HybridBlock is not used"):
        assert net(nd.ones(2), nd.ones(2)).asnumpy().tolist() == [2, 2]


# -- structure of arguments and results

a = nd.ones


@pytest.mark.parametrize(
    ("args", "error", "text"),
    [
        ((3.0,), ValueError, "In HybridBlock, there must be one NDArray or one Symbol in the input. Please check the type of the args.\nMake arrays of numbers, lists and NumPy's arrays: nd.array(x)."),
        ((None,), ValueError, "In HybridBlock, there must be one NDArray or one Symbol in the input. Please check the type of the args.\nMake arrays of numbers, lists and NumPy's arrays: nd.array(x)."),
        ((np.ones(3),), ValueError, "In HybridBlock, there must be one NDArray or one Symbol in the input. Please check the type of the args.\nMake arrays of numbers, lists and NumPy's arrays: nd.array(x)."),
        ((a(3), mx.sym.var("s")), ValueError, "In HybridBlock, we do not support mixed NDArrays and Symbols types for the input. Please check the type of the args.\n"),
        ((a(3), 3.0), ValueError, "When hybridized, the input of HybridBlock input must be (nested) list of Symbol or NDArray, but got 3.0 of type <class 'float'>\nMake arrays of numbers and NumPy's arrays: nd.array(x)."),
    ],
    ids=["number", "None", "NumPy", "mixed", "a number beside an array"],
)  # fmt: skip
def test_arguments_of_a_hybridized_call(args, error, text):
    with pytest.raises(error) as caught:
        hybrid(lambda F, x, *rest: x, *args)
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("function", "instead"),
    [
        (lambda F, x: {"a": x}, "Return the values as a tuple, in an order that the caller knows."),
        (lambda F, x: [x, 3], "Return what operators of F give, or lists and tuples of it."),
    ],
    ids=["dict", "number"],
)
def test_results_that_are_none(function, instead):
    with pytest.raises(ValueError, match="the input of HybridBlock output must be") as caught:
        hybrid(function, nd.ones(X))
    assert str(caught.value).splitlines()[1] == instead


def test_operators_make_no_parameters():
    words = r"Unknown input to HybridBlock: \w+_fullyconnected0_bias\n.*self.params.get.*\n\(made in block \w+, test_tracing.py:\d+\)$"
    with pytest.raises(AssertionError, match=words):
        hybrid(lambda F, x: F.FullyConnected(x, num_hidden=3), a((2, 3)))


def test_the_argument_structure_is_fixed_by_the_first_trace():
    net = block(lambda F, x, y=None: x if y is None else x + y)
    net.hybridize()
    net(a(3))
    with pytest.raises(ValueError) as caught:
        net(a(3), a(3))
    words, advice = str(caught.value).split("\n")
    assert words == (
        "The argument structure of HybridBlock does not match the cached version. Stored format = [0, 0], input format = [0]"
    )
    assert advice.startswith("The net was traced with [0], this call has [0, 0]: ")
    assert "call hybridize() again" in advice
    net(a(3), None)  # trailing None may be added


RESULTS = {
    "one": (lambda F, x: x + 1, lambda r: isinstance(r, nd.NDArray)),
    "tuple": (lambda F, x: (x, x + 1), lambda r: isinstance(r, list) and len(r) == 2),
    "nested": (lambda F, x: (x, [x + 1, (x * 2,)]), lambda r: isinstance(r[1], list) and isinstance(r[1][1], list)),
    "one output in a list": (lambda F, x: [x + 1], lambda r: isinstance(r, list) and len(r) == 1),
    "the input itself": (lambda F, x: x, lambda r: isinstance(r, nd.NDArray)),
    "twice the same": (lambda F, x: [x * 2] * 2, lambda r: len(r) == 2),
    "split": (lambda F, x: F.split(x, num_outputs=3), lambda r: isinstance(r, list) and len(r) == 3),
}


@pytest.mark.parametrize("name", RESULTS)
def test_results_keep_their_structure(name):
    function, check = RESULTS[name]
    net = block(function)
    net.hybridize()
    for _ in range(2):
        assert check(net(nd.ones(X)))


def test_contexts_must_agree():
    with pytest.raises(ValueError) as caught:
        hybrid(lambda F, x, y: x + y, nd.ones(3), nd.ones(3, ctx=mx.cpu(1)))
    assert str(caught.value) == (
        "Find multiple contexts in the input, After hybridized, the HybridBlock only supports one input context. "
        "You can print the ele.ctx in the input arguments to inspect their contexts. Find all contexts = {cpu(0), cpu(1)}"
    )


def test_static_shape_needs_static_alloc():
    net = block(lambda F, x: x)
    net.hybridize(static_shape=True)
    with pytest.raises(MXNetError, match="static_alloc must be True when static_shape is True"):
        net(nd.ones(3))


def test_static_shape_accepts_other_shapes():
    net = block(lambda F, x: F.exp(x) + 1)
    net.hybridize(static_alloc=True, static_shape=True)
    for n in (3, 5, 3, 1):
        np.testing.assert_allclose(net(nd.ones(n)).asnumpy(), np.full(n, np.e + 1), rtol=1e-6)


def test_children_must_be_hybrid():
    class Bad(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential()

    with pytest.raises(ValueError) as caught:
        Bad()
    assert str(caught.value) == (
        "Children of HybridBlock must also be HybridBlock, but Sequential(\n\n) has type "
        "<class 'hybridgpu.gluon.nn.basic.Sequential'>. If you are using Sequential, please try HybridSequential instead."
    )


def test_keyword_arguments_are_refused():
    net = block(lambda F, x: x)
    with pytest.raises(TypeError, match=r"^Block\.__call__\(\) got an unexpected keyword argument 'x'$"):
        net(x=nd.ones(3))


def test_an_attribute_of_another_type_is_refused_and_nothing_changes():
    net = nn.HybridSequential()
    net.fc = nn.Dense(2)
    with pytest.raises(
        TypeError, match=r"Changing attribute type for fc from .*Dense'> to <class 'int'>is not allowed\."
    ):
        net.fc = 3
    assert isinstance(net.fc, nn.Dense) and list(net._children) == ["fc"]


def test_constants_of_the_graph():
    got = hybrid(
        lambda F, x: F.broadcast_add(x, F.ones((1, 1))) * F.arange(3).reshape((1, 3)).broadcast_like(x), nd.ones(X)
    )
    np.testing.assert_array_equal(got.asnumpy(), [[0, 2, 4]] * 2)


def test_differences_between_the_modes_that_mxnet_has_too():
    """x[0] is a row of an array and the whole of a Symbol; len() and iteration likewise."""
    x = nd.array([[1, 2], [3, 4]])
    for function, eager, hybridized in [
        (lambda F, x: x[0], [1, 2], [[1, 2], [3, 4]]),
        (lambda F, x: [r * 2 for r in x][-1], [6, 8], [[2, 4], [6, 8]]),
        (lambda F, x: x * len(x), [[2, 4], [6, 8]], [[1, 2], [3, 4]]),
    ]:
        assert block(function)(x).asnumpy().tolist() == eager
        assert hybrid(function, x).asnumpy().tolist() == hybridized


def drawing(self, F, x):
    scale = np.random.uniform(1, 2)
    return x * scale


def drawing_elsewhere(self, F, x):
    return x * from_elsewhere()


def from_elsewhere():
    return np.random.uniform(1, 2)


@pytest.mark.parametrize("function", [drawing, drawing_elsewhere], ids=["itself", "another function"])
@pytest.mark.parametrize("inside", [False, True], ids=["block", "child"])
def test_numbers_of_the_host_that_a_graph_keeps_are_told(function, inside, monkeypatch):
    monkeypatch.setattr(threading, "active_count", lambda: 1)  # whatever threads other tests have left

    class Drawing(mx.gluon.HybridBlock):
        hybrid_forward = function

    net = Drawing(prefix="drawing_")
    if inside:
        outer = nn.HybridSequential(prefix="outer_")
        outer.add(net)
        net = outer
    net.hybridize()
    with pytest.warns(UserWarning, match="draws random numbers of Python or NumPy while it is traced") as caught:
        first = net(nd.ones((2,)))
    text = str(caught[0].message)
    place = rf"\({function.__name__}, test_tracing.py:{function.__code__.co_firstlineno}, or"
    assert re.search(place, text) and caught[0].filename == __file__
    assert (net(nd.ones((2,))) == first).min() == 1


def test_numbers_that_another_thread_may_have_drawn_are_not_told():
    """Such as one that loads and augments data while a net is called for the first time."""
    go, drawn = threading.Event(), threading.Event()

    def load():
        assert go.wait(60)
        np.random.uniform()
        drawn.set()

    class Traced(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            go.set()
            assert drawn.wait(60)
            return x + 1

    loader, leave = threading.Thread(target=load), threading.Event()
    other = threading.Thread(target=leave.wait)  # the loader may be over before it is asked who is there
    loader.start()
    other.start()
    try:
        net = Traced()
        net.hybridize()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            net(nd.ones((2,)))
    finally:
        leave.set()
        loader.join()
        other.join()
