# SPDX-License-Identifier: Apache-2.0
"""Mistakes in blocks and calls: MXNet's class and wording, then what to write instead."""

from __future__ import annotations

import pytest

import hybridgpu as mx
from hybridgpu import gluon, nd
from hybridgpu.gluon import nn


def net():
    made = nn.Dense(2, in_units=3)
    made.initialize()
    return made


#: layer, an argument of another library, what is told
ARGUMENTS = [
    (nn.Dense, "bias", "use_bias"),
    (nn.Dense, "in_features", "in_units"),
    (nn.Dense, "out_features", "units"),
    (nn.Conv2D, "out_channels", "channels"),
    (nn.Dropout, "p", "rate"),
    (nn.Embedding, "num_embeddings", "input_dim"),
    (nn.Dense, "activaton", "activation"),
    (nn.Conv2D, "stride", "strides"),
    (nn.AvgPool2D, "kernel_size", "pool_size"),
    (nn.BatchNorm, "num_features", "in_channels"),
    (nn.BatchNorm, "eps", "epsilon"),
    (nn.LayerNorm, "normalized_shape", "in_channels, or nothing, since sizes are inferred,"),
    (nn.GroupNorm, "eps", "epsilon"),
    (gluon.rnn.LSTM, "batch_first", "layout='NTC'"),
    (gluon.rnn.LSTM, "input_dim", "input_size"),
    (gluon.loss.L2Loss, "reduction", "weight or nothing, and mean() or sum() of the result"),
]


@pytest.mark.parametrize(("layer", "name", "instead"), ARGUMENTS, ids=lambda v: getattr(v, "__name__", None))
def test_arguments_of_layers(layer, name, instead):
    given = {"units": 2} if name == "activaton" else {}  # a name that nobody uses, and Python misses units first
    with pytest.raises(TypeError) as caught:
        layer(**given, **{name: 1})
    one, two = str(caught.value).split("\n")
    assert one == f"{layer.__name__}.__init__() got an unexpected keyword argument '{name}'"
    assert two.startswith(f"Write {instead}") and f" instead; {layer.__name__} takes " in two
    assert two.endswith(")") and " (test_hints.py:" in two
    told = two.split(" takes ")[1].split(". (")[0].split(", ")
    assert {"prefix", "params"} <= set(told) and not {"self", "others", "kwargs", "mode", "global_pool"} & set(told)


def test_an_argument_like_none():
    with pytest.raises(TypeError, match=r"argument 'zzz'\nFlatten takes prefix, params\. \("):
        nn.Flatten(zzz=1)


def test_a_block_that_forgets_to_begin():
    class Net(gluon.HybridBlock):
        def __init__(self):
            self.layer = nn.Dense(2)

    with pytest.raises(AttributeError, match=r"no attribute '_children'\nCall super\(\).__init__\(\*\*kwargs\) first"):
        Net()


def without_f(self, x):
    return x


def without_the_parameter(self, F, x):
    return x


def with_another_input(self, F, x, y, w):
    return x


def wrong_inside(self, F, x, w):
    return len(3)


@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
@pytest.mark.parametrize(
    ("forward", "advice"),
    [
        (without_f, "and the block's parameters by their names: def hybrid_forward(self, F, x, w). ("),
        (without_the_parameter, "and the block's parameters by their names: def hybrid_forward(self, F, x, w). ("),
        (with_another_input, "Call the block with (x, y), or let it take what it is called with: def hybrid_forward("),
    ],
    ids=lambda f: getattr(f, "__name__", ""),
)
def test_what_hybrid_forward_takes(forward, advice, hybridized):
    class Net(gluon.HybridBlock):
        hybrid_forward = forward

    block = Net()
    block.w = block.params.get("w", shape=(2,))
    block.initialize()
    block.hybridize(hybridized)
    with pytest.raises(TypeError) as caught:
        block(nd.ones((2,)))
    one, two = str(caught.value).split("\n")
    assert one.startswith(f"{forward.__name__}() ")
    assert advice in two
    assert two.endswith(")") and "test_hints.py:" in two


@pytest.mark.parametrize("hybridized", [False, True], ids=["eager", "hybridized"])
def test_other_mistakes_in_hybrid_forward(hybridized):
    class Net(gluon.HybridBlock):
        hybrid_forward = wrong_inside

    block = Net()
    block.w = block.params.get("w", shape=(2,))
    block.initialize()
    block.hybridize(hybridized)
    with pytest.raises(TypeError, match=r"^object of type 'int' has no len\(\)$"):
        block(nd.ones((2,)))


def test_names_of_operators_while_tracing():
    class Net(gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return F.cat(x, x)

    block = Net()
    block.hybridize()
    with pytest.raises(AttributeError, match=r"\nWrite F\.concat\(a, b, dim=0\)\. \(block net"):
        block(nd.ones((2,)))


def test_labels_as_large_as_the_data():
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    with pytest.raises(
        mx.MXNetError, match=r"Shape inconsistent, Provided = \[2,3\], inferred shape=\[2,1\]\n"
    ) as caught:
        loss(nd.ones((2, 3)), nd.ones((2, 3)))
    assert "SoftmaxCrossEntropyLoss(sparse_label=False)" in str(caught.value)
    with pytest.raises(
        mx.MXNetError, match=r"Provided = \[3\], inferred shape=\[2\]\n.*\n.* needs index of shape \(2,\)"
    ):
        nd.pick(nd.ones((2, 3)), nd.ones((3,)), axis=1)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: nd.dot(nd.ones((2, 3)), nd.ones((4, 5))), "the first of rhs, which have 3 and 4 elements"),
        (
            lambda: nd.batch_dot(nd.ones((2, 3, 4)), nd.ones((2, 5, 6))),
            "the last but one of rhs, which have 4 and 5 elements",
        ),
    ],
    ids=["dot", "batch_dot"],
)
def test_products_that_do_not_fit(call, told):
    with pytest.raises(mx.MXNetError, match=f"{told}: transpose one, by transpose_a=True or transpose_b=True"):
        call()


def test_a_list_of_arrays():
    with pytest.raises(AssertionError, match=r"must have NDArray type(.|\n)*\nGive them .* nd\.stack\(\*arrays\)\. \("):
        nd.stack([nd.ones((2,)), nd.ones((2,))])
    with pytest.raises(
        AssertionError, match=r"\nGive them one by one: F\.concat\(\*symbols\), F\.stack\(\*symbols\)\. \("
    ):
        mx.sym.stack([mx.sym.var("a"), mx.sym.var("b")])


def sequence():
    made = nn.Sequential()
    made.add(net())
    outer = nn.Sequential()
    outer.add(made, nn.Lambda("tanh"))
    return outer


def hooked():
    made = nn.HybridSequential()
    made.add(net())
    made[0].register_forward_hook(lambda block, inputs, output: None)
    return made


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: net().initialize(), "is already initialized, ignoring"),
        (lambda: sequence().hybridize(), "Consider using HybridSequential"),
        (lambda: hooked().hybridize(), "while still having forward hook"),
    ],
    ids=["initialize", "Sequential", "hooks"],
)
def test_warnings_point_at_the_program(call, text):
    with pytest.warns(UserWarning, match=text) as caught:
        call()
    assert {w.filename for w in caught} == {__file__}


def lambda_of(function, *inputs, hybridized=False):
    made = nn.HybridLambda(function)
    made.hybridize(hybridized)
    return made(*inputs)


def filled(init):
    made = gluon.Parameter("w", shape=(2, 2), init=init)
    made.initialize()


def layer_of(init):
    made = nn.Dense(2, weight_initializer=init)
    made.initialize()
    return made(ONE)


ONE = nd.ones((1, 3))
PARAMETERS = net().collect_params()
NO_CHILD = "Children of HybridBlock must also be HybridBlock, but "

#: what is written -> (error, what its first line has, what the second one begins with)
MISPLACED = {
    "a rate for the optimizer's arguments": (
        lambda: gluon.Trainer(PARAMETERS, "sgd", 0.1),
        TypeError,
        "create_optimizer() argument after ** must be a mapping, not float",
        "Write {'learning_rate': 0.1}.",
    ),
    "pairs for the optimizer's arguments": (
        lambda: gluon.Trainer(PARAMETERS, "sgd", [("learning_rate", 0.1)]),
        TypeError,
        "must be a mapping, not list",
        "Write a dictionary, such as {'learning_rate': 0.1}.",
    ),
    "the class of an optimizer": (
        lambda: gluon.Trainer(PARAMETERS, mx.optimizer.SGD),
        AttributeError,
        "type object 'SGD' has no attribute 'lower'",
        "Write 'sgd', or SGD(), which makes one.",
    ),
    "a rate in place of an optimizer": (
        lambda: gluon.Trainer(PARAMETERS, 0.1),
        AttributeError,
        "'float' object has no attribute 'lower'",
        "Write a name, such as 'sgd', or an Optimizer of mx.optimizer.",
    ),
    "values of a dictionary": (
        lambda: gluon.Trainer(PARAMETERS.values(), "sgd"),
        ValueError,
        "got <class 'dict_values'>.",
        "Write list(params), or net.collect_params().",
    ),
    "one parameter": (
        lambda: gluon.Trainer(net().weight, "sgd"),
        ValueError,
        "Parameter'>.",
        "Write [parameter].",
    ),
    "arrays in place of parameters": (
        lambda: gluon.Trainer([ONE], "sgd"),
        ValueError,
        "got list of <class 'hybridgpu.ndarray.ndarray.NDArray'>.",
        "Write net.collect_params(),",
    ),
    "blocks in place of parameters": (
        lambda: gluon.Trainer([net()], "sgd"),
        ValueError,
        "got list of <class 'hybridgpu.gluon.nn.basic.Dense'>.",
        "Write net.collect_params().",
    ),
    "another's name of a rate": (
        lambda: mx.optimizer.Adam(lr=0.1),
        TypeError,
        "Adam.__init__() got an unexpected keyword argument 'lr'",
        "Write learning_rate instead; Adam takes learning_rate, beta1, ",
    ),
    "a list of blocks": (
        lambda: nn.HybridSequential([net()]),
        AttributeError,
        "'list' object has no attribute 'endswith'",
        "A container takes its blocks by net.add(block, ...).",
    ),
    "blocks as a keyword": (
        lambda: nn.HybridSequential(layers=[net()]),
        TypeError,
        "HybridSequential.__init__() got an unexpected keyword argument 'layers'",
        "HybridSequential takes prefix, params.",
    ),
    "an axis for Flatten": (
        lambda: nn.Flatten(1),
        AttributeError,
        "'int' object has no attribute 'endswith'",
        "The first argument is the prefix of names; Flatten takes prefix, params.",
    ),
    "a list as a child": (
        lambda: nn.HybridSequential().add([net()]),
        ValueError,
        NO_CHILD,
        "Write net.add(*blocks).",
    ),
    "a class as a child": (
        lambda: nn.HybridSequential().add(nn.Flatten),
        ValueError,
        NO_CHILD,
        "Write Flatten(), which makes one.",
    ),
    "a function as a child": (
        lambda: nn.HybridSequential().add(nd.relu),
        ValueError,
        NO_CHILD,
        "Write nn.HybridLambda(lambda F, x: ...), or nn.HybridLambda('relu') for an operator.",
    ),
    "a name as a child": (
        lambda: nn.HybridSequential().add("relu"),
        ValueError,
        NO_CHILD,
        "Write nn.Activation('relu'), or nn.HybridLambda('relu') for an operator.",
    ),
    "a list as a child of Sequential": (
        lambda: (lambda made: (made.add([net()]), made.initialize()))(nn.Sequential()),
        AttributeError,
        "'list' object has no attribute 'collect_params'",
        "Write net.add(*blocks).",
    ),
    "HybridLambda without F": (
        lambda: lambda_of(lambda x: x, ONE),
        TypeError,
        "<lambda>() takes 1 positional argument but 2 were given",
        "Write lambda F, x: ..., since the function of a HybridLambda gets F before the inputs.",
    ),
    "HybridLambda without F, hybridized": (
        lambda: lambda_of(lambda x, y: x, ONE, ONE, hybridized=True),
        TypeError,
        "<lambda>() takes 2 positional arguments but 3 were given",
        "Write lambda F, x0, x1: ..., since",
    ),
    "HybridLambda of an operator": (
        lambda: lambda_of(nd.relu, ONE),
        TypeError,
        "relu() takes at most 1 positional arguments (2 given)",
        "Write nn.HybridLambda('relu'): an operator is given by its name.",
    ),
    "Lambda with F": (
        lambda: nn.Lambda(lambda F, x: x)(ONE),
        TypeError,
        "<lambda>() missing 1 required positional argument: 'x'",
        "Write lambda x: ..., since the function of a Lambda gets the inputs alone.",
    ),
    "a shape after the name": (
        lambda: gluon.Parameter("w", (3,)),
        AssertionError,
        "grad_req must be one of 'write', 'add', or 'null', but got '(3,)'",
        "Write shape=(3,): the second argument of Parameter is grad_req.",
    ),
    "no gradients by False": (
        lambda: gluon.Parameter("w", grad_req=False),
        AssertionError,
        "but got 'False'",
        "Write 'null'.",
    ),
    "no gradients by another's name": (
        lambda: gluon.Parameter("w", requires_grad=False),
        TypeError,
        "Parameter.__init__() got an unexpected keyword argument 'requires_grad'",
        "Write grad_req='null' instead; Parameter takes name, grad_req, shape",
    ),
    "a shape in place of the name": (
        lambda: gluon.Parameter((3, 4)).initialize(),
        ValueError,
        "Cannot initialize Parameter '(3, 4)' because it has invalid shape: None.",
        "The first argument of Parameter is its name: write Parameter(name, shape=...).",
    ),
    "a constant without a name": (
        lambda: gluon.Constant(ONE),
        TypeError,
        "Constant.__init__() missing 1 required positional argument: 'value'",
        "Write Constant(name, value).",
    ),
    "an array in place of a parameter": (
        lambda: setattr(net(), "weight", ONE),
        TypeError,
        "is not allowed.",
        "Write net.weight.set_data(values).",
    ),
    "an array as initializer": (
        lambda: filled(nd.ones((2, 2))),
        ValueError,
        "The truth value of an NDArray with multiple elements is ambiguous.",
        "Write mx.init.Constant(array).",
    ),
    "a number as initializer": (
        lambda: filled(0.5),
        AssertionError,
        "initializer must be of string type",
        "Write mx.init.Constant(0.5).",
    ),
    "a class as a layer's initializer": (
        lambda: layer_of(mx.init.Xavier),
        ValueError,
        "dumps() missing 1 required positional argument: 'self'",
        "Write Xavier(), which makes one.",
    ),
    "a device as initializer": (
        lambda: net().initialize(mx.cpu(), force_reinit=True),
        AssertionError,
        "initializer must be of string type",
        "Write ctx=mx.cpu(0): the first argument is an initializer.",
    ),
    "a device by its name in MXNet 2": (
        lambda: net().initialize(device=mx.cpu()),
        TypeError,
        "Block.initialize() got an unexpected keyword argument 'device'",
        "Write ctx instead; initialize takes init, ctx, verbose, force_reinit.",
    ),
    "one device for a list": (
        lambda: gluon.utils.split_and_load(ONE, mx.cpu()),
        TypeError,
        "object of type 'Context' has no len()",
        "Write [ctx].",
    ),
    "a loss that is not called": (
        lambda: gluon.loss.L2Loss(ONE, ONE).backward(),
        AttributeError,
        "'L2Loss' object has no attribute 'backward'",
        "Write loss.backward() of what a call gives under autograd.record(),",
    ),
    "a block for a Module": (
        lambda: mx.mod.Module(net()),
        AttributeError,
        "'Dense' object has no attribute 'list_arguments'",
        "Write net(mx.sym.var('data')), which gives the Symbol.",
    ),
    "sizes of inputs before those of states": (
        lambda: gluon.rnn.LSTM(10, 20, 2),
        AssertionError,
        "Invalid layout 2; must be one of ['TNC' or 'NTC']",
        "LSTM takes hidden_size, num_layers, layout first;",
    ),
}


@pytest.mark.parametrize("what", MISPLACED)
def test_values_in_the_wrong_place(what):
    call, error, first, second = MISPLACED[what]
    with pytest.raises(error) as caught:
        call()
    one, two = str(caught.value).split("\n")
    assert first in one and two.startswith(second) and " (" in two and "test_hints.py:" in two


def test_a_function_that_is_wrong_inside_is_told_as_ever():
    with pytest.raises(TypeError, match=r"^object of type 'int' has no len\(\)$"):
        lambda_of(lambda F, x: len(3), ONE)
    assert nn.HybridSequential(prefix="named_").prefix == "named_"

    class Called:
        def __call__(self, x):
            return len(3)

    with pytest.raises(TypeError, match=r"^object of type 'int' has no len\(\)$"):
        nn.Lambda(Called())(ONE)


@pytest.mark.parametrize("function", ["concat", nd.concat], ids=["by name", "itself"])
def test_an_operator_that_refuses_its_inputs_in_a_lambda_says_why(function):
    with pytest.raises(TypeError) as caught:
        nn.Lambda(function)(ONE, 3)
    assert "\nconcat takes arrays; the others are written by name: dim. (" in str(caught.value)
