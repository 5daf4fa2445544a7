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
