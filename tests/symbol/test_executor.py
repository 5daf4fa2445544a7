# SPDX-License-Identifier: Apache-2.0
"""``bind`` and ``simple_bind``: outputs, gradients, states, sharing, errors; interpreted first, compiled later."""

from __future__ import annotations

import re

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import nd, sym
from hybridgpu.executor import executor as executors


def product():
    a, b = sym.var("a"), sym.var("b")
    return a * b + a


@pytest.fixture(params=["interpreted", "compiled"])
def how(request, monkeypatch):
    monkeypatch.setattr(executors, "_COMPILE_AFTER", 0 if request.param == "compiled" else 10**9)


@pytest.mark.usefixtures("how")
@pytest.mark.parametrize("is_train", [True, False])
def test_forward_and_backward(is_train):
    e = product().bind(
        mx.cpu(),
        {"a": nd.array([1.0, 2.0]), "b": nd.array([3.0, 4.0])},
        {"a": nd.zeros(2), "b": nd.zeros(2)},
    )
    for _ in range(3):
        (out,) = e.forward(is_train=is_train)
        np.testing.assert_array_equal(out.asnumpy(), [4, 10])
        e.backward(nd.array([10.0, 1.0]))
        np.testing.assert_array_equal(e.grad_dict["a"].asnumpy(), [40, 5])
        np.testing.assert_array_equal(e.grad_dict["b"].asnumpy(), [10, 2])


@pytest.mark.usefixtures("how")
@pytest.mark.parametrize(("req", "expected"), [("write", [4, 5]), ("add", [12, 15]), ("null", None)])
def test_grad_req(req, expected):
    e = product().simple_bind(mx.cpu(), grad_req={"a": req, "b": "null"}, a=(2,), b=(2,))
    e.arg_dict["b"][:] = nd.array([3.0, 4.0])
    for _ in range(3):
        e.forward(is_train=True)
        e.backward(nd.ones(2))
    assert e.grad_dict["b"] is None
    if expected is None:
        assert e.grad_dict["a"] is None
    else:
        np.testing.assert_array_equal(e.grad_dict["a"].asnumpy(), expected)


@pytest.mark.usefixtures("how")
def test_new_arguments_by_name_and_outputs_in_their_place():
    e = product().simple_bind(mx.cpu(), a=(2,), b=(2,))
    held = e.outputs[0]
    e.forward(a=nd.array([1.0, 1.0]), b=np.array([2.0, 3.0]))
    np.testing.assert_array_equal(held.asnumpy(), [3, 4])
    assert list(e.output_dict) == product().list_outputs() or list(e.output_dict)[0].endswith("_output")
    for wrong, error, message in [
        ({"z": nd.ones(2)}, TypeError, "Unknown argument z"),
        ({"a": nd.ones(3)}, ValueError, r"Shape not match! Argument a, need: \(2,\), received: \(3,\)"),
        ({"a": [1, 2]}, ValueError, "only accept keyword argument of NDArrays and numpy.ndarray"),
    ]:
        with pytest.raises(error, match=message):
            e.forward(**wrong)
    np.testing.assert_array_equal(e.arg_dict["a"].asnumpy(), [1, 1])


@pytest.mark.usefixtures("how")
def test_random_numbers_are_the_same_in_the_backward_pass():
    e = sym.Dropout(sym.var("x"), p=0.5, mode="always").simple_bind(mx.cpu(), x=(50, 20))
    e.arg_dict["x"][:] = 1
    for is_train in (True, False):
        first = e.forward(is_train=is_train)[0].asnumpy()
        e.backward(nd.ones((50, 20)))
        np.testing.assert_array_equal(e.grad_dict["x"].asnumpy(), first)
        assert (e.forward(is_train=is_train)[0].asnumpy() != first).any()


def test_backward_without_head_gradients_needs_a_loss():
    e = product().simple_bind(mx.cpu(), a=(2,), b=(2,))
    e.forward(is_train=True)
    with pytest.raises(mx.MXNetError, match="Because the last operator is not Loss function"):
        e.backward()


def test_reshape_shares_what_stays():
    net = sym.FullyConnected(sym.var("x"), num_hidden=3, name="fc")
    e = net.simple_bind(mx.cpu(), x=(5, 4))
    e.arg_dict["fc_weight"][:] = 1
    small = e.reshape(x=(2, 4))
    assert small.arg_dict["fc_weight"] is e.arg_dict["fc_weight"]
    small.forward(x=nd.ones((2, 4)))
    np.testing.assert_array_equal(small.outputs[0].asnumpy(), np.full((2, 3), 4))
    with pytest.raises(mx.MXNetError, match="larger than original"):
        e.reshape(x=(9, 4))
    assert e.reshape(x=(9, 4), allow_up_sizing=True).outputs[0].shape == (9, 3)
    with pytest.raises(mx.MXNetError, match="Shape of unspecifie arg: fc_weight changed"):
        e.reshape(x=(5, 7), allow_up_sizing=True)


def test_copy_params_from():
    e = product().simple_bind(mx.cpu(), a=(2,), b=(2,))
    e.copy_params_from({"a": nd.array([5.0, 6.0], dtype="float64")})
    np.testing.assert_array_equal(e.arg_dict["a"].asnumpy(), [5, 6])
    with pytest.raises(ValueError, match='Find name "q" that is not in the arguments'):
        e.copy_params_from({"q": nd.ones(2)})
    e.copy_params_from({"q": nd.ones(2)}, allow_extra_params=True)


def test_monitor_sees_every_result():
    e = product().simple_bind(mx.cpu(), a=(2,), b=(2,))
    seen = []
    e.set_monitor_callback(lambda name, array: seen.append((name, array.shape)))
    e.forward(a=nd.ones(2), b=nd.ones(2))
    assert [s for _, s in seen] == [(2,), (2,)]


@pytest.mark.parametrize(
    ("everything", "names"),
    [
        (False, ["fc_output", "cat_output"]),
        (True, "data fc_data fc_weight fc_weight fc_output cat_arg0 b cat_arg1 cat_output".split()),
    ],
)
def test_monitor_names(everything, names):
    dense = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, no_bias=True, name="fc")
    e = mx.sym.concat(dense, mx.sym.var("b"), name="cat").simple_bind(mx.cpu(), data=(3, 4), b=(3, 1))
    seen = []
    e.set_monitor_callback(lambda name, array: seen.append(mx.base.py_str(name)), everything)
    e.forward()
    assert seen == names


HIDDEN = [
    (lambda x: sym.BatchNorm(x, name="n"), ["n_output", "n_mean", "n_var"]),
    (lambda x: sym.LayerNorm(x, name="n"), ["n_output", "n_mean", "n_std"]),
    (lambda x: sym.Dropout(x, name="n"), ["n_output", "n_mask"]),
    (lambda x: sym.InstanceNorm(x, name="n"), ["n_output", "n_mean", "n_var"]),
    (lambda x: sym.LRN(x, nsize=3, name="n"), ["n_output"]),  # MXNet's n_tmp_norm is of its own making
    (lambda x: sym.SliceChannel(x, num_outputs=2, name="n"), ["n_output0", "n_output1"]),
]


@pytest.mark.parametrize(("make", "names"), HIDDEN, ids=[names[-1] for _, names in HIDDEN])
def test_monitor_sees_hidden_results_too(make, names):
    e = make(sym.var("x")).simple_bind(mx.cpu(), x=(2, 4, 3, 3))
    seen = []
    e.set_monitor_callback(lambda name, array: seen.append((mx.base.py_str(name), array.size > 0)))
    e.forward(is_train=True)
    assert seen == [(name, True) for name in names]


def test_monitor_goes_with_another_shape():
    e = product().simple_bind(mx.cpu(), a=(2,), b=(2,))
    seen = []
    e.set_monitor_callback(lambda name, array: seen.append(array.shape))
    e.reshape(a=(1,), b=(1,)).forward()
    assert seen == [(1,), (1,)]


@pytest.mark.usefixtures("how")
@pytest.mark.parametrize("source", ["int32", "float32", "float16"])
@pytest.mark.parametrize("target", ["int32", "float32", "int8"])
def test_head_gradients_of_every_type(source, target):
    e = sym.Cast(sym.var("x", dtype=source), dtype=target).simple_bind(mx.cpu(), x=(3,))
    e.forward(is_train=True)
    e.backward(nd.array([3, -8, 0], dtype=target))
    assert e.grad_dict["x"].dtype == np.dtype(source)
    np.testing.assert_array_equal(e.grad_dict["x"].asnumpy(), [3, -8, 0])


def test_backward_without_forward():
    x, gradient = nd.array([[1.0, 2.0]]), nd.zeros((1, 2))
    e = mx.sym.tile(mx.sym.var("x") ** 2, reps=(2, 1)).bind(mx.cpu(), [x], [gradient])
    e.backward(nd.array([[1.0, 1.0], [2.0, 3.0]]))
    np.testing.assert_array_equal(gradient.asnumpy(), [[6, 16]])


def test_head_gradients_that_nothing_reads():
    gradient = nd.ones((2, 3))
    e = mx.sym.shape_array(mx.sym.var("x")).bind(mx.cpu(), [nd.ones((2, 3))], [gradient])
    e.forward(is_train=True)
    e.backward([nd.ones((5,))])
    np.testing.assert_array_equal(gradient.asnumpy(), np.zeros((2, 3)))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda s: s.bind(mx.cpu(), [nd.ones(2)]), ValueError, "Length of args does not match the number of arguments"),
        (lambda s: s.bind(mx.cpu(), {"a": nd.ones(2)}), ValueError, "key `b` is missing in `args`"),
        (lambda s: s.bind(mx.cpu(), 3), TypeError, "Only accept list of NDArrays or dict of str to NDArray"),
        (lambda s: s.bind("cpu", {}), TypeError, "Context type error"),
        (lambda s: s.simple_bind(mx.cpu()), RuntimeError, r"simple_bind error. Arguments:"),
        (lambda s: s.simple_bind(mx.cpu(), a=(2,), b=(3,)), RuntimeError, r"expected \[2\], got \[3\]"),
        (lambda s: s.simple_bind(mx.cpu(), "wrong", a=(2,), b=(2,)), ValueError, "grad_req must be in"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call(product())


def test_emulated_gpu(cuda_driver):
    e = product().simple_bind(mx.gpu(0), a=(2,), b=(2,))
    e.arg_dict["a"][:] = 2
    for _ in range(10):
        e.forward(is_train=True)
        e.backward(nd.ones(2, ctx=mx.gpu(0)))
    np.testing.assert_array_equal(e.grad_dict["b"].asnumpy(), [2, 2])


@pytest.mark.parametrize(
    ("make", "grad_req", "least", "most"),
    [
        (lambda x: sym.FullyConnected(sym.relu(x), num_hidden=256, flatten=False) ** 2, "write", 4, 20),
        (lambda x: sym.FullyConnected(sym.relu(x), num_hidden=256, flatten=False).sum(), "null", 1, 12),
        (lambda x: sym.exp(x) * 2 + x, "write", 0, 0),  # fused: nothing is between input and result
    ],
)
def test_memory_of_a_graph(make, grad_req, least, most, compiler):
    """In arrays of 4 MiB."""
    e = make(sym.var("x")).simple_bind(mx.cpu(), grad_req=grad_req, x=(4096, 256))
    found = re.search(r"Total (\d+) MB allocated", e.debug_str())
    assert e.debug_str().startswith("Symbol Outputs:")
    assert least <= int(found.group(1)) <= most
    assert e.debug_str().split("\n")[-3].split()[1] == found.group(1)  # where programs look for it


@pytest.mark.parametrize("after", [0, 32], ids=["compiled", "interpreted"])
def test_arguments_written_before_the_backward_pass(compiler, monkeypatch, after):
    """MXNet's numbers: arguments as they are when the backward pass runs, results as they were."""
    monkeypatch.setattr(executors, "_COMPILE_AFTER", after)
    x, w = sym.var("x"), sym.var("w")
    e = (sym.tanh(sym.exp(x) * w / 3) * w).simple_bind(mx.cpu(), x=(2, 2), w=(2, 2))
    for _ in range(2):
        e.arg_dict["x"][:] = nd.array([[-1, 0.5], [0.25, 1]])
        e.arg_dict["w"][:] = nd.array([[1, 2], [-1, 0.5]])
        e.forward(is_train=True)
        e.arg_dict["x"][0] = 3
        e.arg_dict["w"][:] *= 0.5
        e.backward(nd.array([[1, 2], [3, 4]]))
    x_grad, w_grad = [e.grad_dict[n].asnumpy() for n in "xw"]
    np.testing.assert_allclose(x_grad, [[0.0302002, 0.3953543], [0.2687023, 0.1857231]], rtol=1e-5)
    np.testing.assert_allclose(w_grad, [[0.1824159, 1.9957395], [-1.7483714, 2.4404938]], rtol=1e-5)


def test_programs_are_looked_up_once(compiler, monkeypatch):
    """One lookup of a program makes a table of all names and copies what other executors have, too."""
    monkeypatch.setattr(executors, "_COMPILE_AFTER", 0)
    looked_up = []
    for name in ("compiled", "recorded_program"):
        make = getattr(executors, name)
        monkeypatch.setattr(executors, name, lambda *a, make=make, **k: looked_up.append(make) or make(*a, **k))
    y = mx.sym.FullyConnected(mx.sym.var("x"), num_hidden=2, name="f")
    executor = y.simple_bind(mx.cpu(), x=(3, 4))
    for is_train in (True, False) * 3:
        executor.forward(is_train=is_train)
        if is_train:
            executor.backward(nd.ones((3, 2)))
    executor.debug_str()
    assert len(looked_up) == 2


def convolved(filters):
    """A network of pictures: LeNet's first layer, or wider."""
    x = sym.Activation(sym.Convolution(sym.var("x"), num_filter=filters, kernel=(5, 5), name="c"), act_type="tanh")
    x = sym.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="max")
    return sym.FullyConnected(x, num_hidden=10, name="f")


@pytest.mark.parametrize(
    ("graph", "shape", "recorded", "limit", "calls"),
    [
        (product(), {"a": (8,), "b": (8,)}, True, 32, 32),  # small graphs: as many as there may be
        (convolved(20), {"x": (1, 1, 28, 28)}, True, 32, 32),
        (convolved(20), {"x": (1, 1, 28, 28)}, True, 5, 5),
        (convolved(20), {"x": (512, 1, 28, 28)}, False, 32, 11),
        (convolved(20), {"x": (512, 1, 28, 28)}, True, 32, 3),  # about three times as much
        (convolved(64), {"x": (64, 64, 64, 64)}, False, 32, 1),  # at least one
        (convolved(64), {"x": (64, 64, 64, 64)}, False, 0, 0),  # unless all are compiled
    ],
)
def test_calls_that_are_interpreted(monkeypatch, graph, shape, recorded, limit, calls):
    """They cost about as much as compiling; and follow from the graph, never from the time that calls take."""
    monkeypatch.setattr(executors, "_COMPILE_AFTER", limit)
    e = graph.simple_bind(mx.cpu(), "write" if recorded else "null", **shape)
    types = [x._type.tensor for x in e._ordered()]
    assert e._calls_to_interpret(types, recorded, recorded) == calls


@pytest.mark.parametrize("is_train", [False, True])
def test_the_report_says_when_an_executor_is_compiled(compiler, monkeypatch, is_train):
    monkeypatch.setattr(executors, "_INTERPRETED_SECONDS", 2e-4)
    e = convolved(3).simple_bind(mx.cpu(), "write" if is_train else "null", x=(1, 1, 9, 9))
    before = len(mx.compile_report().events)
    caches = []
    for _ in range(20):
        e.forward(is_train=is_train)
        caches.append([v.cache for v in mx.compile_report().events[before:]])
    events = mx.compile_report().events[before:]
    interpreted = [v for v in events if v.cache == "background"]
    at = 1 + next(k for k, found in enumerate(caches) if len(found) > len(interpreted))
    assert 1 < at < 20
    for event in interpreted:
        assert event.reason.endswith(f"operators run one by one: compiled at call {at}")


def test_memory_is_not_known_where_shapes_depend_on_values():
    x = sym.var("x")
    masked = sym.contrib.boolean_mask(x, x.sum(axis=1))
    assert "allocated" not in masked.bind(mx.cpu(), {"x": nd.ones((2, 2))}).debug_str()


CONSTANT_STAGES = {
    "of the mask": lambda F, x: F.contrib.boolean_mask(x, F.ones((2,))),
    "of all": lambda F, x: F.contrib.boolean_mask(F.ones((2, 3)), F.ones((2,))),
}


@pytest.mark.parametrize("forward", CONSTANT_STAGES.values(), ids=CONSTANT_STAGES)
def test_a_stage_of_constants_runs_where_the_graph_does(forward):
    x, masked = nd.ones((2, 3)), forward(sym, sym.var("x"))
    arguments = dict.fromkeys(masked.list_arguments(), x)
    net = mx.gluon.nn.HybridLambda(lambda F, x: F.broadcast_add(forward(F, x), F.sum(x) * 0))
    net.hybridize()
    for result in (masked.bind(mx.cpu(), arguments).forward()[0], masked.eval(mx.cpu(), **arguments)[0], net(x)):
        assert result.asnumpy().tolist() == [[1] * 3] * 2
    assert [part.name for part in net.explain(x).parts].count("_contrib_boolean_mask") == 1
