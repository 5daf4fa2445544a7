# SPDX-License-Identifier: Apache-2.0
"""Misspelt names and arguments, and other slips: what an error, ``dir()`` and ``help()`` say."""

from __future__ import annotations

import pytest

import hybridgpu as mx
from hybridgpu import nd, np, npx


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: np.reshape(np.ones(2)), r"^reshape\(\) missing 1 required positional argument: 'newshape'$"),
        (lambda: np.sqrt(), r"^sqrt\(\) missing 1 required positional argument: 'x'$"),
        (lambda: np.linalg.inv(), r"^inv\(\) missing"),
        (lambda: np.isclose(np.ones(2)), r"^isclose\(\) missing"),
        (
            lambda: np.ones(2, device="cpu"),
            r"^ones\(\) got an unexpected keyword argument 'device'\nWrite ctx instead; ones takes sh",
        ),
        (
            lambda: np.concatenate([np.ones(2)], dim=0),
            r"^concatenate\(\) got .*\nWrite axis instead; concatenate takes seq, axis, out. \(test_misspelt.py:",
        ),
        (
            lambda: np.ones(2).sum(keepdim=True),
            r"^sum\(\) got an unexpected keyword argument 'keepdim'\nWrite keepdims instead; sum",
        ),
    ],
)
def test_arguments_of_np(call, text):
    with pytest.raises(TypeError, match=text):
        call()


@pytest.mark.parametrize("of_np", [False, True])
def test_advice_of_a_trace_is_for_the_kind_of_the_array(of_np):
    def clip(x):
        return x if x.sum() > 0 else -x

    with pytest.raises(
        mx.TracingError, match=r"Write np.where.* or npx.cond" if of_np else r"Write nd.where.* or nd.contrib.cond"
    ):
        mx.hybridize(clip)(np.ones(2) if of_np else nd.ones(2))


def test_a_traced_array_without_axes_says_so():
    seen = []

    @mx.hybridize
    def total(x):
        seen.append(f"{x.sum()}")
        return x

    total(np.ones(2))
    assert seen == ["<traced ndarray () float32 @cpu(0)>"]


@pytest.mark.parametrize("name", ["nd.softmx", "np.zeroes", "np.linalg.invv", "sym.softmx"])
def test_one_guess_at_a_name_is_enough(name):
    """Python prints one of its own behind an error that has the object."""
    with pytest.raises(AttributeError, match="; did you mean ") as caught:
        eval(name, {"nd": nd, "np": np, "sym": mx.sym})
    assert caught.value.obj is None and caught.value.name == name.rpartition(".")[2]


@pytest.mark.parametrize("x", [nd.ones((1,)), mx.sym.var("x")], ids=["NDArray", "Symbol"])
def test_operators_are_listed_as_methods(x):
    """For completion, and for Python's guess at a misspelt one."""
    listed = dir(x)
    assert {"sigmoid", "topk", "split_v2"} <= {*listed}
    assert [n for n in listed if n != "handle" and not hasattr(x, n)] == []
    with pytest.raises(AttributeError, match="'sigmoyd'$") as caught:
        x.sigmoyd  # noqa: B018
    assert caught.value.obj is x and caught.value.name == "sigmoyd"


def test_help_of_npx_has_types_once():
    text = npx.softmax.__doc__
    assert "    data: ndarray. input array.\n" in text
    assert "    axis: int, default -1. axis along" in text


@pytest.mark.parametrize("array", [nd.ones((2,)), np.ones(2)], ids=["nd", "np"])
def test_writing_what_is_recorded_says_what_to_write(array):
    array.attach_grad()
    with mx.autograd.record():
        y = array * 2
        with pytest.raises(
            mx.MXNetError, match=r"(?s)inside a record section\.\nWrite y = y \+ x for y \+= x; .* \(test_misspelt.py:"
        ):
            y += 1


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: nd.array([1], ctx="cpu"), AttributeError, r"Write mx.cpu\(\) or mx.gpu\(i\). \(test_misspelt.py:"),
        (
            lambda: mx.hybridize(abs, statc_alloc=True),
            mx.MXNetError,
            r"no flag statc_alloc; did you mean static_alloc\?$",
        ),
        (lambda: (nd.ones(2) * 2).backward(), mx.MXNetError, r"arrays that x.attach_grad\(\) was called for"),
        (lambda: mx.gluon.HybridBlock()(nd.ones(2)), NotImplementedError, "defines neither hybrid_forward"),
        (lambda: mx.gluon.Block()(nd.ones(2)), NotImplementedError, "does not define forward"),
    ],
)
def test_slips(call, error, text):
    with pytest.raises(error, match=text):
        call()


class Scaled(mx.autograd.Function):
    def __init__(self, factor):
        self.factor = factor


def recorded(function):
    x = nd.ones((2,))
    x.attach_grad()
    with mx.autograd.record():
        function(x).backward()


UNDEFINED = {
    "optimizer": (lambda own: own(mx.optimizer.Optimizer)().update(0, 1, 1, None), "update(self, index, weight, grad, state)"),
    "metric": (lambda own: own(mx.metric.EvalMetric)("name").update([], []), "update(self, labels, preds)"),
    "loss": (
        lambda own: own(mx.gluon.loss.Loss)(1, 0)(nd.ones(2), nd.ones(2)),
        "hybrid_forward(self, F, pred, label, sample_weight=None)",
    ),
    "data set": (lambda own: own(mx.gluon.data.Dataset)()[0], "__getitem__(self, idx)"),
    "length": (lambda own: len(own(mx.gluon.data.Dataset)()), "__len__(self)"),
    "sampler": (lambda own: list(own(mx.gluon.data.Sampler, __len__=lambda self: 1)()), "__iter__(self)"),
    "function": (lambda own: own(mx.autograd.Function)()(nd.ones(2)), "forward(self, *inputs)"),
    "derivative": (
        lambda own: recorded(own(mx.autograd.Function, forward=lambda self, x: x * 2)()),
        "backward(self, *output_grads)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UNDEFINED)
def test_a_method_that_is_not_there_is_named(name):
    call, method = UNDEFINED[name]
    with pytest.raises(NotImplementedError) as error:
        call(lambda base, **methods: type("Own", (base,), methods))
    words, instead = str(error.value).split("\n")
    assert words == f"'Own' object does not define {method.partition('(')[0]}"
    assert instead.startswith(f"Write def {method} in class Own. (")


def test_a_function_without_its_beginning_says_what_to_call():
    with pytest.raises(AttributeError, match=r"has no attribute '_used'\nCall super\(\).__init__\(\) first"):
        Scaled(2)(nd.ones(2))


def test_a_traced_array_is_called_by_the_name_of_its_class():
    with pytest.raises(TypeError, match=r"unsupported operand type\(s\) for @: 'NDArray' and 'NDArray'"):
        mx.hybridize(lambda x: x @ x)(nd.ones((2, 2)))
