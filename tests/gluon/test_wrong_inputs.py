# SPDX-License-Identifier: Apache-2.0
"""Inputs that do not fit: MXNet's class and words, the operands, then what to write instead, with block and line."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import MXNetError, nd
from hybridgpu.base import NotImplementedForSymbol
from hybridgpu.gluon import loss, nn, rnn

HERE = r"test_wrong_inputs\.py:\d+\)$"


def shown_before(error):
    """Classes of the errors that Python prints above an uncaught one."""
    found = []
    while error := error.__cause__ or (None if error.__suppress_context__ else error.__context__):
        found.append(type(error))
    return found


# -- layers and what they are called with: the class with deferred shapes and with known ones, and pieces of the text

LAYERS = {
    "dense float64": (
        lambda **k: nn.Dense(4, **k), {"in_units": 3}, ((2, 3), "float64"), (MXNetError, MXNetError),
        ["Incompatible attr in node", "at 1-th input: expected float64, got float32",
         "FullyConnected(data: float64[2,3], weight", "float32[4,3]",
         "data is float64, but weight is float32: cast data with astype('float32'), or weight with astype('float64'); a block's parameters with net.cast('float64')."],
    ),
    "dense int32": (
        lambda **k: nn.Dense(4, **k), {"in_units": 3}, ((2, 3), "int32"), (MXNetError, MXNetError),
        ["expected int32, got float32", "data is int32, but weight is float32: cast data with astype('float32')."],
    ),
    "dense units": (
        lambda **k: nn.Dense(4, in_units=3), {}, ((2, 5), "float32"), (MXNetError, MXNetError),
        ["Shape inconsistent, Provided = [4,3], inferred shape=(4,5)", "data: float32[2,5]",
         "data of shape (2, 5) needs weight of shape (4, 5), but it is (4, 3): reshape or transpose the data"],
    ),
    "convolution float64": (
        lambda **k: nn.Conv2D(4, 3, **k), {"in_channels": 3}, ((2, 3, 8, 8), "float64"), (MXNetError, MXNetError),
        ["expected float64, got float32", "Convolution(data: float64[2,3,8,8], weight", "net.cast('float64')"],
    ),
    "convolution of one picture": (
        lambda **k: nn.Conv2D(4, 3, **k), {"in_channels": 3}, ((3, 8, 8), "float32"), (ValueError, MXNetError),
        ["dshp.ndim() == 4U (3 vs. 4) : Input data should be 4D in batch-num_filter-y-x",
         "The data has 3 axes: one picture needs an axis for the batch, x.expand_dims(0)."],
    ),
    "convolution of a matrix": (
        lambda **k: nn.Conv2D(4, 3, **k), {"in_channels": 3}, ((3, 8), "float32"), (ValueError, MXNetError),
        ["dshp.ndim() == 4U (2 vs. 4)", "The data has 2 axes."],
    ),
    "convolution, channels last": (
        lambda **k: nn.Conv2D(4, 3, in_channels=3), {}, ((2, 8, 8, 3), "float32"), (MXNetError, MXNetError),
        ["inferred shape=(4,8,3,3)", "needs weight of shape (4, 8, 3, 3), but it is (4, 3, 3, 3): reshape or transpose"],
    ),
    "transposed convolution": (
        lambda **k: nn.Conv2DTranspose(4, 3, **k), {"in_channels": 3}, ((3, 8, 8), "float32"), (ValueError, MXNetError),
        ["(3 vs. 4)", "x.expand_dims(0)"],
    ),
    "batch norm float64": (
        lambda **k: nn.BatchNorm(**k), {"in_channels": 3}, ((2, 3), "float64"), (MXNetError, MXNetError),
        ["This layer requires uniform type. Expected 'float64' v.s. given 'float32' at 'gamma'",
         "data is float64, but gamma is float32", "net.cast('float64')"],
    ),
    "batch norm of a vector": (
        lambda **k: nn.BatchNorm(**k), {"in_channels": 3}, ((3,), "float32"), (ValueError, MXNetError),
        ["Check failed: channelAxis < dshape.ndim() (1 vs. 1) : Channel axis out of range: 1", "BatchNorm(data: "],
    ),
    "layer norm of a size": (
        lambda **k: nn.LayerNorm(16, **k), {"in_channels": 16}, ((2, 16), "float32"), (ValueError, MXNetError),
        ["data of shape (2, 16) has 2 axes: write one of -2 to 1. If 16 is meant as a size: a layer finds it itself, or is told "
         "by in_channels=16."],
    ),
    "batch norm of a size": (
        lambda **k: nn.BatchNorm(16, **k), {"in_channels": 16}, ((2, 16, 3, 3), "float32"), (ValueError, MXNetError),
        ["(16 vs. 4) : Channel axis out of range: 16", "If 16 is meant as a size: a layer finds it itself"],
    ),
    "convolution of channels before channels": (
        lambda **k: nn.Conv2D(3, 16, 3, **k), {"in_channels": 3}, ((1, 3, 8, 8), "float32"), (ValueError, MXNetError),
        ["(16 vs. 8) : kernel size exceed input", "The kernel reaches over 16 elements of 8: take a smaller one, or pad the data. "
         "A layer takes channels and kernel_size; how many channels the data have it finds itself."],
    ),
    "layer norm float64": (
        lambda **k: nn.LayerNorm(**k), {"in_channels": 3}, ((2, 3), "float64"), (MXNetError, MXNetError),
        ["expected float64, got float32", "LayerNorm(data: float64[2,3], gamma", "net.cast('float64')"],
    ),
    "lstm of a matrix": (
        lambda **k: rnn.LSTM(5, **k), {"input_size": 3}, ((2, 3), "float32"), (ValueError, MXNetError),
        ["(2 vs. 3) : Input data should be rank-3 tensor of dim [sequence length, batch size, input size]",
         "The data has 2 axes: add the missing one with x.expand_dims(axis), or reshape it."],
    ),
    "lstm float64": (
        lambda **k: rnn.LSTM(5, **k), {"input_size": 3}, ((4, 2, 3), "float64"), (MXNetError, MXNetError),
        ["expected float64, got float32", "data is float64, but parameters is float32", "net.cast('float64')"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
@pytest.mark.parametrize("known", [False, True], ids=["deferred", "known"])
@pytest.mark.parametrize("case", LAYERS)
def test_layers(case, known, hybridized):
    make, sizes, (shape, dtype), errors, pieces = LAYERS[case]
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(make(**(sizes if known else {})))
    net.initialize()
    net.hybridize(hybridized)
    with pytest.raises(errors[known]) as caught:
        net(nd.ones(shape, dtype=dtype))
    text = str(caught.value)
    assert type(caught.value) is errors[known]
    assert shown_before(caught.value) == [MXNetError] * (errors[known] is ValueError)
    assert text.startswith("Deferred initialization failed because shape cannot be inferred. ") is (
        errors[known] is ValueError
    )
    assert [p for p in pieces if p not in text] == []
    layer = net[0].name
    assert re.search(rf"\n\((in|made in) block {layer}, {HERE}", text)
    if hybridized:  # parameters by their names, the node by its own
        assert f"Error in operator {layer}_" in text
        assert all(
            f"{n}: " in text
            for n in net.collect_params()
            if "rnn_param" not in n and "_i2h" not in n and "_h2h" not in n
        )


def test_types_that_do_not_fit_leave_the_parameters_filled():
    net = nn.Dense(2)
    net.initialize()
    with pytest.raises(MXNetError, match="expected float64"):
        net(nd.ones((1, 3), dtype="float64"))
    assert net.weight.shape == (2, 3)  # as in MXNet: shapes follow without types
    net.cast("float64")
    assert net(nd.ones((1, 3), dtype="float64")).dtype is np.float64


def test_a_wrong_shape_is_told_before_a_wrong_type():
    net = nn.HybridSequential()
    net.add(nn.Dense(4), nn.Dense(2, in_units=7))
    net.initialize()
    net.hybridize()
    with pytest.raises(
        ValueError, match=r"Deferred initialization failed .* Provided = \[2,7\], inferred shape=\(2,4\)"
    ):
        net(nd.ones((1, 3), dtype="float64"))


def test_integers_where_only_floats_are_computed():
    with pytest.raises(
        MXNetError, match=r"not int32\nin operator dot\(.*\nCast int32 data first: x.astype\('float32'\)"
    ):
        nd.dot(nd.ones((2, 2), dtype="int32"), nd.ones((2, 2), dtype="int32"))


@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
def test_states_of_another_type_than_the_net(hybridized):
    """The layer has been cast; it is the states that have to be."""
    net = rnn.LSTM(5, input_size=3)
    net.initialize()
    net.cast("float16")
    net.hybridize(hybridized)
    states = net.begin_state(2, dtype="float32")
    with pytest.raises(MXNetError, match=r"cast data with astype\('float32'\), or state with astype\('float16'\);"):
        net(nd.ones((4, 2, 3), dtype="float16"), states)
    assert net(nd.ones((4, 2, 3), dtype="float16"), [s.astype("float16") for s in states])[0].dtype is np.float16


# -- what is neither array nor Symbol, or the wrong one of them

CONSTANT = "cannot enter a graph: write F.ones, F.full or F.arange, or make it an argument of the block, or a constant: self.name = self.params.get_constant"
PARAMETER = "A parameter is no array: in forward take self.name.data(); hybrid_forward gets it as an argument, under its attribute's name."
NUMPY = "NumPy computes with values, which are not known while tracing: write F.{}, not np.{}."
NO_NUMBER = "Values are not known while tracing: use operators of F instead of Python's numbers and math."
ARRAY_FIRST = "Make it an array first: mx.nd.array(values, dtype=values.dtype)."
UNSUPPORTED = "type <class '{}'> not supported"
PARAMETER_TYPE = UNSUPPORTED.format("hybridgpu.gluon.parameter.parameter.Parameter")
FOR_SYMBOL = "Function __array__ is not implemented for Symbol and only available in NDArray."

#: code, the class when traced, its first line's start, the advice
TRACED = [
    ("np.tanh(x)", NotImplementedForSymbol, FOR_SYMBOL, NUMPY.format("tanh", "tanh")),
    ("F.where(x > 0, x, 0)", AssertionError, "Argument y must be Symbol instances, but got 0",
     "where takes arrays alone: write ones_like(y) * 0, with an array y of that shape."),
    ("np.maximum(x, 0)", NotImplementedForSymbol, FOR_SYMBOL, NUMPY.format("maximum", "maximum")),
    ("np.concatenate([x, x])", NotImplementedForSymbol, FOR_SYMBOL, NUMPY.format("concat", "concatenate")),
    ("np.where(x, x, x)", NotImplementedForSymbol, FOR_SYMBOL, NUMPY.format("where", "where")),
    ("np.asarray(x)", NotImplementedForSymbol, FOR_SYMBOL, "use operators of F."),
    ("math.exp(x)", TypeError, "must be real number, not Symbol", NO_NUMBER),
    ("float(x)", TypeError, "must be real number, not Symbol", NO_NUMBER),
    ("Tripled()(x)", NotImplementedForSymbol, "Function Tripled is not implemented for Symbol", "make it a mx.operator.CustomOp"),
    ("nd.relu(x)", AssertionError, "Argument data must have NDArray type, but got <Symbol data>", "write F.relu, not nd.relu,"),
    ("nd.concat(x, x)", AssertionError, "Positional arguments must have NDArray type, but got <Symbol data>", "write F.concat, not nd.concat,"),
    ("nd.maximum(x, 0)", TypeError, UNSUPPORTED.format("hybridgpu.symbol.symbol.Symbol"), "write F.maximum, not nd.maximum,"),
    ("nd.random.normal(x, x)", ValueError, "Distribution parameters must be either NDArray or numbers", "write operators of F"),
    ("F.random.normal(self.array, x)", ValueError, "Distribution parameters must be either Symbol", "An array " + CONSTANT),
    ("F.relu(self.values)", AssertionError, "Argument data must be Symbol instances, but got [[1.", "A NumPy array " + CONSTANT),
    ("F.relu(self.array)", AssertionError, "Argument data must be Symbol instances, but got", "An array " + CONSTANT),
    ("F.concat(x, self.scale)", AssertionError, "Positional arguments must be Symbol instances, but got Parameter", PARAMETER),
    ("F.concat([x, x])", AssertionError, "Positional arguments must be Symbol instances, but got [<Symbol", "one by one"),
    ("F.maximum(x, self.values)", TypeError, "types (<class", "A NumPy array " + CONSTANT),
    ("self.scale * x", TypeError, PARAMETER_TYPE, PARAMETER),
    ("x + self.scale", TypeError, PARAMETER_TYPE, PARAMETER),
    ("x ** self.scale", TypeError, PARAMETER_TYPE, PARAMETER),
    ("x < self.scale", TypeError, PARAMETER_TYPE, PARAMETER),
    ("self.values * x", TypeError, UNSUPPORTED.format("numpy.ndarray"), "A NumPy array " + CONSTANT),
    ("x - self.values", TypeError, UNSUPPORTED.format("numpy.ndarray"), "A NumPy array " + CONSTANT),
    ("self.array * x", TypeError, UNSUPPORTED.format("hybridgpu.symbol.symbol.Symbol"), "An array " + CONSTANT),
    ("x / self.array", TypeError, UNSUPPORTED.format("hybridgpu.ndarray.ndarray.NDArray"), "An array " + CONSTANT),
    ("x == self.array", TypeError, UNSUPPORTED.format("hybridgpu.ndarray.ndarray.NDArray"), "An array " + CONSTANT),
    ("F.np.exp(x)", TypeError, UNSUPPORTED.format("hybridgpu.symbol.symbol.Symbol"), "A Symbol of nd in functions of np: write x.as_np_ndarray()"),
    ("F.relu(x.as_np_ndarray()) + x", TypeError, "Operator `relu` registered in backend", "Write npx.relu (npx of F in hybrid_forward)."),
    ("F.softmax(x, -1)", AssertionError, "Argument length must be Symbol instances, but got -1", "softmax takes data, length; the others are written by name: axis, temperature,"),
    ("F.concat(x, x, 1)", AssertionError, "Positional arguments must be Symbol instances, but got 1", "concat takes arrays; the others are written by name: dim."),
    ("F.zeros((x.sum(), 3))", MXNetError, "Invalid Parameter format for shape", "Values are not known while tracing: shape has to be known, such as numbers."),
    ("F.zeros(2, 3)", MXNetError, "Invalid Input: '3', valid values are", "Write the extents as one tuple, (2, 3)."),
    ("F.zeros((2, 3), device=1)", MXNetError, "Cannot find argument 'device', Possible Arguments:", "Write ctx instead of device."),
    ("F.Activation(x, act_type='gelu')", MXNetError, "Invalid Input: 'gelu', valid values are", "Write F.LeakyReLU(x, act_type='gelu'), or nn.GELU() as a layer."),
    ("F.transpose(x, 1, 0)", TypeError, "transpose() takes at most 2 positional arguments (3 given)", "transpose takes data, axes; several numbers are one tuple."),
    ("F.boolean_mask(x, x)", AttributeError, "module 'hybridgpu.symbol' has no attribute 'boolean_mask'", "Write F.contrib.boolean_mask."),
]  # fmt: skip
EAGER = [
    ("F.relu(self.values)", AssertionError, "Argument data must have NDArray type, but got [[1.", ARRAY_FIRST),
    ("F.concat([x, x])", AssertionError, "Positional arguments must have NDArray type, but got", "one by one"),
    ("F.where(x > 0, x, 0)", AssertionError, "Argument y must have NDArray type, but got 0",
     "where takes arrays alone: write ones_like(y) * 0, with an array y of that shape."),
    ("F.maximum(x, self.values)", TypeError, UNSUPPORTED.format("numpy.ndarray"), ARRAY_FIRST),
    ("self.scale * x", TypeError, PARAMETER_TYPE, PARAMETER),
    ("F.broadcast_mul(x, self.scale)", AssertionError, "Argument rhs must have NDArray type, but got Parameter", PARAMETER),
    ("self.values * x", TypeError, UNSUPPORTED.format("numpy.ndarray"), ARRAY_FIRST),
    ("F.softmax(x, -1)", AssertionError, "Argument length must have NDArray type, but got -1", "softmax takes data, length; the others are written by name: axis, temperature,"),
    ("F.concat(x, x, 1)", AssertionError, "Positional arguments must have NDArray type, but got 1", "concat takes arrays; the others are written by name: dim."),
    ("F.pick(x, [0, 1])", AssertionError, "Argument index must have NDArray type, but got [0, 1]", "Make it an array first: mx.nd.array(values)."),
    ("F.stack(x, axis=x)", MXNetError, "Invalid Parameter format for axis expect int but value=", "axis is no array: several arrays are given as one list, [a, b]."),
    ("F.ones((2, 3), device=1)", MXNetError, "Cannot find argument 'device', Possible Arguments:", "Write ctx instead of device."),
    ("F.array([1], device=1)", TypeError, "array() got an unexpected keyword argument 'device'", "Write ctx instead; array takes source_array, ctx, dtype."),
    ("F.concatenate(x, x)", AssertionError, "Write nd.concatenate([a, b], axis=0), or nd.concat(a, b, dim=0).", "nd.concatenate([a, b]"),
    ("x.transpose(1, 0)", TypeError, "transpose() takes at most 2 positional arguments (3 given)", "transpose takes data, axes; several numbers are one tuple."),
    ("nd.potrf(x)", AttributeError, "module 'hybridgpu.ndarray' has no attribute 'potrf'", "Write nd.linalg.potrf."),
    ("x * x.asscalar()", ValueError, "The current array is not a scalar", "An array of shape (2, 3) has several numbers: write x.mean().asscalar() or"),
    ("x if x > 0 else -x", ValueError, "The truth value of an NDArray with multiple elements is ambiguous.", "Write (x > 0).min(), which says whether it holds for all elements, or"),
    ("loss.L2Loss()(x, nd.ones((2, 4)))", ValueError, "Cannot reshape array of size 8 into shape (2, 3)", "The labels have shape (2, 4), the predictions (2, 3): they need as many elements."),
    ("x.__iadd__(self.values)", TypeError, UNSUPPORTED.format("numpy.ndarray"), ARRAY_FIRST),
]  # fmt: skip


class Tripled(mx.autograd.Function):
    """Three times its argument by an operator that Symbols have, too: a graph would take that one's gradient."""

    def forward(self, x):
        return x * 3

    def backward(self, dy):
        return dy * 100


def block_of(code):
    """A block whose hybrid_forward returns the value of ``code``, which stands on a line of its own."""
    import linecache

    name = f"<code {code.replace('/', 'over')}>"  # what stands before a stroke would be a folder
    source = f"def hybrid_forward(self, F, x, scale):\n    return {code}\n"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    scope = {"np": np, "nd": nd, "math": math, "loss": loss, "Tripled": Tripled}
    exec(compile(source, name, "exec"), scope)

    def __init__(self):
        mx.gluon.HybridBlock.__init__(self, prefix="demo_")
        with self.name_scope():
            self.scale = self.params.get("scale", shape=(2, 3), init="ones")
        self.values, self.array = np.ones((2, 3), "float32"), nd.ones((2, 3))

    methods = {"__init__": __init__, "hybrid_forward": scope["hybrid_forward"]}
    return type("Demo", (mx.gluon.HybridBlock,), methods)()


@pytest.mark.parametrize(
    ("code", "error", "first", "instead", "hybridized"),
    [(*row, True) for row in TRACED] + [(*row, False) for row in EAGER],
    ids=[f"traced {row[0]}" for row in TRACED] + [f"eager {row[0]}" for row in EAGER],
)
def test_operands_of_the_wrong_kind(code, error, first, instead, hybridized):
    net = block_of(code)
    net.initialize()
    net.hybridize(hybridized)
    with pytest.raises(error) as caught:
        net(nd.ones((2, 3)))
    text = str(caught.value)
    assert text.startswith(first) and not shown_before(caught.value)
    advice = text.splitlines()[-1]
    assert instead in advice
    line = f"<code {code.replace('/', 'over')}>:2"
    assert advice.endswith(f"(block demo, {line})" if hybridized else f"({line})")


@pytest.mark.filterwarnings("ignore:Parameter demo_scale is not used")
def test_numbers_of_numpy_are_numbers():
    for code in ("np.float32(2) * x", "x * np.float64(2)", "2 * x", "np.sum(x)", "scale * x"):
        net = block_of(code)
        net.initialize()
        eager = net(nd.ones((2, 3))).asnumpy()
        net.hybridize()
        np.testing.assert_array_equal(net(nd.ones((2, 3))).asnumpy(), eager)


def test_the_constant_that_is_advised():
    class Net(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.name_of_it = self.params.get_constant("name", np.full((2, 3), 3.0, "float32"))

        def hybrid_forward(self, F, x, name_of_it):
            return x * name_of_it

    net = Net()
    net.initialize()
    net.hybridize()
    assert net(nd.ones((2, 3))).asnumpy().tolist() == [[3.0] * 3] * 2


@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda F, x: F.softmax(x, axis=(0, 1)), "Invalid Parameter format for axis expect int but value='(0, 1)'"),
        (lambda F, x: F.FullyConnected(x), "Required parameter num_hidden of int is not presented"),
        (lambda F, x: F.concat(dim=0), "value 0 for Parameter num_args should be greater equal to 1"),
        (lambda F, x: F.clip(x, a_min=0, a_max=1, foo=2), "Cannot find argument 'foo', Possible Arguments:"),
        (lambda F, x: F.Activation(x, act_type="zz"), "Invalid Input: 'zz'"),
    ],
    ids=["form", "missing", "bound", "unknown", "word"],
)
def test_arguments_that_do_not_fit(call, text, hybridized):
    """In MXNet's words alone outside a block; in one, with it and the line."""

    class Wrong(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return call(F, x)

    net = Wrong(prefix="wrong_")
    net.hybridize(hybridized)
    x = nd.ones((2, 3))
    with pytest.raises(MXNetError) as inside:
        net(x)
    with pytest.raises(MXNetError) as outside:
        call(nd, x)
    *said, where = str(inside.value).split("\n")
    assert re.fullmatch(r"\(in block wrong, test_wrong_inputs\.py:\d+\)", where)
    assert "\n".join(said).startswith(text) and str(outside.value) == "\n".join(said)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: nn.Dense(3, 4), r"for \+: 'int' and 'str'\nAn activation is a name, such as 'relu'\..*in_units="),
        (lambda: nn.Conv2D(3, 1, activation=nd.relu), r"for \+: 'function' and 'str'\nAn activation is a name"),
    ],
    ids=["size", "function"],
)
def test_activations_are_names(make, text):
    with pytest.raises(TypeError, match=text):
        make()
