# SPDX-License-Identifier: Apache-2.0
"""mx.contrib.amp: types of eager and hybridized calls, loss scaling, casts inside kernels, conversion of models."""

from __future__ import annotations

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import autograd, gluon, nd, sym
from hybridgpu.compiler.ir.types import tensor_type
from hybridgpu.compiler.pipeline import compile_graph
from hybridgpu.compiler.program import KernelStep
from hybridgpu.compiler.target import CUDA
from hybridgpu.contrib import amp
from hybridgpu.core.dtypes import bf16, f16, f32
from hybridgpu.gluon import nn
from hybridgpu.ops import OPERATORS
from hybridgpu.runtime.recorded_program import RecordedProgram

F16 = np.float16


@pytest.fixture
def init(mixed_precision_ends):
    """``amp.init``, whose effects end with the test."""
    return amp.init


# -- the lists


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_every_operator_is_in_one_list(dtype):
    lists = [
        amp.list_lp16_ops(dtype),
        amp.list_lp16_fp32_ops(dtype),
        amp.list_fp32_ops(dtype),
        [name for name, _, _ in amp.list_conditional_fp32_ops(dtype)],
        amp.list_widest_type_cast(dtype),
    ]
    named = [name for names in lists for name in names]
    assert len(named) == len(set(named))
    records = {op.name for op in OPERATORS.values() if not op.name.startswith("_np")}
    assert records <= set(named)
    assert set(named) - {"Custom"} <= set(OPERATORS)


@pytest.mark.parametrize("given", ["float32", np.float64, "int8", "no type"])
def test_other_types_are_refused(given, init):
    with pytest.raises(AssertionError, match="not supported type"):
        amp.list_fp32_ops(given)
    with pytest.raises(AssertionError, match="AMP currently supports only float16 or bfloat16"):
        init(given)


def test_a_name_that_is_no_operator(init):
    with pytest.raises(AttributeError, match="'FullyConected'"):
        init(target_precision_ops=["FullyConected"])
    assert nd.dot(nd.ones((1, 1)), nd.ones((1, 1), dtype=F16).astype("float32")).dtype == np.float32


# -- types

X, W = (4, 6), (3, 6)
#: expression of F, x, y, w -> type of the result for types of x and y, by element type
TYPES = [
    ("F.FullyConnected(x, w, no_bias=True, num_hidden=3)", "f4 f4", "half"),
    ("F.FullyConnected(x, w, no_bias=True, num_hidden=3)", "half f4", "half"),
    ("F.softmax(x)", "half f4", "f4"),
    ("F.exp(x)", "f4 f4", "f4"),
    ("x + y", "half f4", "f4"),
    ("x + y", "half half", "half"),
    ("x - y", "f8 f8", "f8"),
    ("F.broadcast_mul(x, y)", "f4 half", "f4"),
    ("F.concat(x, F.FullyConnected(y, w, no_bias=True, num_hidden=3), dim=1)", "f4 f4", "f4"),
    ("F.relu(x)", "half f4", "half"),
    ("F.relu(x)", "f4 f4", "f4"),
    ("F.Activation(x, act_type='softrelu')", "half f4", "f4"),
    ("F.Activation(x, act_type='tanh')", "half f4", "half"),
    ("F.LeakyReLU(x, act_type='elu')", "half f4", "f4"),
    ("F.one_hot(F.FullyConnected(x, w, no_bias=True, num_hidden=3).argmax(axis=1), depth=4)", "f4 f4", "f4"),
    ("F.sum(x * 2)", "half f4", "f4"),
    ("F.FullyConnected(x, w, no_bias=True, num_hidden=3).mean()", "f4 f4", "f4"),
]


@pytest.mark.filterwarnings("ignore:.*is not used by any computation")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("case", TYPES, ids=lambda c: f"{c[0]} {c[1]}")
def test_types_eager_and_hybridized(case, dtype, init):
    text, given, wanted = case
    if dtype == "bfloat16" and "concat" in text:
        pytest.skip("concat is of any type in MXNet's list of bfloat16, and takes one type only")
    init(dtype)

    class Net(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.w = self.params.get("w", shape=W, init="xavier")

        def hybrid_forward(self, F, x, y, w):
            return eval(text)  # noqa: S307

    net = Net()
    net.initialize()
    half = {"float16": f16, "bfloat16": bf16}[dtype]
    names = {"f4": f32.np, "half": half.np, "f8": np.dtype("float64")}
    rng = np.random.default_rng(0)
    inputs = [nd.array(rng.uniform(0.5, 1.5, X)).astype(names[t]) for t in given.split()]
    found, gradients = [], []
    for hybridized in (False, True):
        net.hybridize(hybridized)
        with autograd.record():
            y = net(*inputs)
        assert y.dtype == names[wanted]
        if net.w.grad_req != "null" and "FullyConnected(x" in text and "argmax" not in text:
            y.backward()
            gradients.append(net.w.grad().asnumpy())
            assert gradients[-1].dtype == np.float32
        found.append(y.astype("float64").asnumpy())
    np.testing.assert_allclose(*found, rtol=2e-2, atol=1e-3)
    if gradients:
        np.testing.assert_allclose(*gradients, rtol=2e-2, atol=1e-3)


def test_lists_of_the_caller(init):
    init("float16", ["dot"], [("Activation", "act_type", ["relu"])], ["FullyConnected"])
    x = nd.ones((2, 2))
    assert nd.dot(x, x).dtype == F16
    assert nd.FullyConnected(x.astype(F16), x, no_bias=True, num_hidden=2).dtype == np.float32
    assert nd.Activation(x.astype(F16), act_type="relu").dtype == np.float32
    assert nd.Activation(x.astype(F16), act_type="softrelu").dtype == F16
    assert nd.exp(x.astype(F16)).dtype == F16
    init("bfloat16")  # a second call changes nothing
    assert nd.dot(x, x).dtype == F16


def test_what_has_no_graph(init):
    class Twice(mx.operator.CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux):
            self.assign(out_data[0], req[0], in_data[0] * 2)

        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
            self.assign(in_grad[0], req[0], out_grad[0] * 2)

    @mx.operator.register("amp_twice")
    class TwiceProp(mx.operator.CustomOpProp):
        def create_operator(self, ctx, shapes, dtypes):
            return Twice()

    init(fp32_ops=["Custom", "_contrib_boolean_mask"])
    x = nd.ones((2, 2), dtype=F16)
    x.attach_grad()
    with autograd.record():
        y = nd.Custom(x, op_type="amp_twice")
        z = nd.contrib.boolean_mask(x, nd.array([1, 0]))
        (y.sum() + z.sum()).backward()
    assert y.dtype == z.dtype == np.float32
    assert x.grad.dtype == F16
    assert x.grad.asnumpy().tolist() == [[3, 3], [2, 2]]


def test_optimizers_write_into_what_they_are_given(init):
    init("bfloat16")
    w, g = nd.ones((3,), dtype="bfloat16"), nd.ones((3,), dtype="bfloat16")
    nd.sgd_update(w, g, lr=0.5, out=w)
    assert w.astype("float32").asnumpy().tolist() == [0.5] * 3


def test_a_graph_that_was_traced_before_stays(init):
    net = nn.HybridSequential()
    net.add(nn.Dense(3, in_units=2))
    net.initialize()
    net.hybridize()
    x = nd.ones((2, 2))
    before = net(x)
    symbol = net(sym.var("x"))
    init()
    assert net(x).dtype == before.dtype == np.float32
    assert "amp_cast" not in symbol.tojson(remove_amp_cast=False)
    net.hybridize()
    assert net(x).dtype == F16
    text = net(sym.var("x")).tojson(remove_amp_cast=False)
    assert text.count('"op": "amp_cast"') == 3
    assert "amp_cast" not in net(sym.var("x")).tojson()


# -- casts inside kernels


def chain(kind):
    net = nn.HybridSequential(prefix="")
    if kind == "dense":
        net.add(nn.Dense(64, "relu", in_units=32), nn.Dense(64, "tanh", in_units=64), nn.Dense(10, in_units=64))
        return net, (16, 32)
    net.add(nn.Conv2D(16, 3, padding=1, in_channels=4, activation="relu"), nn.BatchNorm(in_channels=16))
    net.add(nn.GlobalAvgPool2D(), nn.Flatten(), nn.Dense(8, in_units=16))
    return net, (4, 4, 14, 14)


def programs(symbol, shape):
    """The forward and the backward program of a training step."""
    arguments, _, states = symbol.infer_shape(data=shape)
    names = [*symbol.list_arguments(), *symbol.list_auxiliary_states()]
    types = {n: tensor_type(tuple(s), f32) for n, s in zip(names, [*arguments, *states], strict=True)}
    inputs = symbol.list_inputs()
    learned = {*symbol.list_arguments()} - {"data"}
    training = RecordedProgram(symbol, [types[n] for n in inputs], True, tuple(n in learned for n in inputs))
    training._follow(training._plan())
    return [compile_graph(g, CUDA) for g in (training._forward_graph(), training.derivative().graph)]


@pytest.mark.parametrize("kind", ["dense", "conv"])
def test_casts_are_part_of_the_kernels_around_them(kind, init):
    net, shape = chain(kind)
    plain = programs(net(sym.var("data")), shape)
    init()
    mixed = programs(net(sym.var("data")), shape)
    for a, b in zip(plain, mixed, strict=True):
        alone = [s for s in b.steps if isinstance(s, KernelStep) and _is_cast(b, s)]
        # a convolution reads its weights from memory in the type that it computes in
        assert len(alone) <= (kind == "conv")
        assert len(b.steps) - len(alone) <= len(a.steps)
        assert b.bytes_moved < a.bytes_moved


def _is_cast(program, step):
    """Whether a kernel reads one array, and writes it in another type."""
    return len(step.buffers) == 2 and step.bytes_read in (2 * step.bytes_written, step.bytes_written // 2)


# -- the scale of losses


class Gradients:
    """Stands for parameters: one gradient, finite or not."""

    def __init__(self, good):
        self._grad = [nd.array([1.0, 2.0 if good else np.inf])]


def test_the_scale_follows_the_gradients():
    scaler = amp.loss_scaler.LossScaler()
    scaler._scale_seq_len = 3
    seen = []
    for good in (1, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1):
        overflow = scaler.has_overflow([Gradients(good), type("Frozen", (), {"_grad": None})()])
        assert overflow == (not good)
        seen.append(int(np.log2(scaler.loss_scale)))
    # a new scale counts from the next call on, as in MXNet
    assert seen == [16, 16, 15, 14, 14, 14, 15, 15, 15, 16, 16, 16, 15]
    scaler._loss_scale = scaler._next_loss_scale = 2.0**24
    for _ in range(9):
        scaler.has_overflow([Gradients(True)])
    assert scaler.loss_scale == 2.0**24


def train(steps, scaled, optimizer="adam", clip=False, spoil=()):
    """Weights after some steps."""
    mx.random.seed(3)
    net = nn.HybridSequential()
    net.add(nn.Dense(8, "tanh", in_units=4), nn.Dense(1, in_units=8))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), optimizer, {"learning_rate": 0.01})
    if scaled:
        amp.init_trainer(trainer)
    rng = np.random.default_rng(0)
    loss = gluon.loss.L2Loss()
    for k in range(steps):
        x, y = nd.array(rng.normal(size=(5, 4))), nd.array(rng.normal(size=(5, 1)))
        with autograd.record():
            out = loss(net(x), y)
            if not scaled:
                out.backward()
            else:
                with amp.scale_loss([out], trainer) as losses:
                    autograd.backward(losses)
        if k in spoil:
            net[0].weight.grad()[:] = np.inf
        if clip:
            if scaled:
                amp.unscale(trainer)
            gluon.utils.clip_global_norm([p.grad() for p in net.collect_params().values()], 0.1)
        trainer.step(5)
    return [p.data().asnumpy() for p in net.collect_params().values()], trainer


@pytest.mark.parametrize("clip", [False, True], ids=["", "clipped"])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_scale_changes_no_step(optimizer, clip, init):
    want, _ = train(4, False, optimizer, clip)
    init(target_precision_ops=[])
    found, trainer = train(4, True, optimizer, clip)
    for a, b in zip(want, found, strict=True):
        np.testing.assert_array_equal(a, b)
    assert trainer._amp_loss_scaler.loss_scale == 2**16


def test_a_step_with_gradients_that_are_not_finite_is_left_out(init):
    init(target_precision_ops=[])
    want, _ = train(3, True)
    found, trainer = train(4, True, spoil=[3])
    for a, b in zip(want, found, strict=True):
        np.testing.assert_array_equal(a, b)
    assert trainer.optimizer.num_update == 3
    assert trainer._amp_loss_scaler._next_loss_scale == 2**15
    _, trainer = train(2, True)
    assert trainer._amp_loss_scaler.loss_scale == 2**16  # every Trainer has its own


def test_losses_with_a_gradient_of_their_own(init, caplog):
    init()
    x = nd.array([[1.0, 2.0]])
    x.attach_grad()
    with autograd.record():
        y = nd.SoftmaxOutput(x, nd.array([1]), grad_scale=0.5)
    y.backward()
    p = np.exp([1.0, 2.0]) / np.exp([1.0, 2.0]).sum()
    np.testing.assert_allclose(x.grad.asnumpy(), [(p - [0, 1]) * 0.5 * 2**16], rtol=1e-5)
    sym.SoftmaxOutput(sym.var("x"), name="out")
    assert "SoftmaxOutput does not support dynamic loss scaling" in caplog.text


def test_calls_out_of_order(init):
    net = nn.Dense(1, in_units=1)
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "sgd")
    with pytest.raises(AssertionError, match=r"did you forget to call amp\.init\(\)"):
        amp.init_trainer(trainer)
    init()
    with (
        pytest.raises(AssertionError, match=r"did you forget to call amp\.init_trainer\(\)"),
        amp.scale_loss(nd.ones(1), trainer),
    ):
        pass
    for call in (amp.init_trainer, amp.unscale):
        with pytest.raises(TypeError, match="only compatible with Gluon Trainer"):
            call(trainer.optimizer)
        with pytest.raises(TypeError, match="instead is <class 'int'>"):
            call(3)


def test_training_under_numpys_interface(init):
    """Operators of npx are those of the lists; eager and hybridized steps agree, gradients are float32."""
    init()
    found = []
    for hybridized in (False, True):
        with mx.util.np_shape(True), mx.util.np_array(True):
            mx.random.seed(1)
            net = nn.HybridSequential()
            net.add(nn.Dense(8, "relu", in_units=4), nn.Dense(3, in_units=8))
            net.initialize(mx.init.Xavier())
            net.hybridize(hybridized)
            trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
            amp.init_trainer(trainer)
            x = mx.np.array(np.random.default_rng(0).normal(size=(5, 4)), dtype="float32")
            with autograd.record():
                y = net(x)
                loss = gluon.loss.SoftmaxCrossEntropyLoss()(y, mx.np.array([0, 1, 2, 0, 1]))
                with amp.scale_loss(loss, trainer) as scaled:
                    autograd.backward(scaled)
            assert (type(y), y.dtype, loss.dtype) == (mx.np.ndarray, F16, np.float32)
            assert net[0].weight.grad().dtype == np.float32
            trainer.step(5)
            found.append(net[0].weight.data().asnumpy())
    np.testing.assert_allclose(*found, rtol=1e-3, atol=1e-4)


# -- converted models


def model():
    net = nn.HybridSequential(prefix="m_")
    with net.name_scope():
        net.add(nn.Conv2D(4, 3), nn.BatchNorm(), nn.Activation("relu"), nn.Dense(5))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    return net


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("cast", [False, True], ids=["", "cast_optional_params"])
def test_a_converted_block(dtype, cast, tmp_path):
    net, x = model(), nd.random.uniform(shape=(2, 3, 8, 8))
    with pytest.raises(RuntimeError, match="Please first call block"):
        amp.convert_hybrid_block(net)
    want = net(x).asnumpy()
    mixed = amp.convert_hybrid_block(net, dtype, ctx=mx.cpu(), cast_optional_params=cast)
    found = mixed(x)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found.asnumpy(), want, rtol=0.03, atol=0.03)
    assert (found.asnumpy() != want).any()
    params = mixed.collect_params()
    half = {"float16": f16, "bfloat16": bf16}[dtype].np
    assert params["m_dense0_weight"].data().dtype == (half if cast else np.float32)
    assert params["m_batchnorm0_gamma"].data().dtype == np.float32
    mixed.export(str(tmp_path / "net"), remove_amp_cast=False)
    again = gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), "data", str(tmp_path / "net-0000.params"))
    np.testing.assert_array_equal(again(x).asnumpy(), found.asnumpy())


def test_a_converted_module(compiler):
    net, x = model(), nd.random.uniform(shape=(2, 3, 8, 8))
    want = net(x).asnumpy()
    symbol = net(sym.var("data"))
    params = {n: p.data() for n, p in net.collect_params().items()}
    states = {n: params.pop(n) for n in symbol.list_auxiliary_states()}
    symbol, params, states = amp.convert_model(symbol, params, states, cast_optional_params=True)
    assert params["m_conv0_weight"].dtype == F16
    module = mx.mod.Module(symbol, label_names=None)
    module.bind([("data", x.shape)], for_training=False)
    module.set_params(params, states)
    module.forward(mx.io.DataBatch([x]))
    np.testing.assert_allclose(module.get_outputs()[0].asnumpy(), want, rtol=0.03, atol=0.03)
    assert module._arg_params["m_conv0_weight"].dtype == F16


def test_a_converted_bucketing_module():
    def generate(length):
        y = sym.FullyConnected(sym.var("data"), num_hidden=4, flatten=False, name="fc")
        return sym.SoftmaxOutput(sym.sum(y, axis=1), name="softmax"), ["data"], ["softmax_label"]

    module = mx.mod.BucketingModule(generate, default_bucket_key=6)
    module.bind([("data", (2, 6, 3))], [("softmax_label", (2,))], for_training=False)
    module.init_params(mx.init.Xavier())

    def outputs(module, length):
        x = nd.array(np.random.default_rng(length).normal(size=(2, length, 3)))
        batch = mx.io.DataBatch([x], [nd.zeros(2)], bucket_key=length)
        batch.provide_data, batch.provide_label = [("data", x.shape)], [("softmax_label", (2,))]
        module.forward(batch)
        return module.get_outputs()[0].asnumpy()

    want = [outputs(module, k) for k in (6, 4)]
    mixed = amp.amp.convert_bucketing_module(module)
    mixed.bind([("data", (2, 6, 3))], [("softmax_label", (2,))], for_training=False)
    for k, w in zip((6, 4), want, strict=True):
        found = outputs(mixed, k)
        np.testing.assert_allclose(found, w, rtol=0.02)
        assert (found != w).any()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"target_dtype": "float32"}, "Only target_dtype float16 and bfloat16"),
        ({"target_dtype_ops": ("Convolution",)}, "target_dtype_ops should be a list"),
        ({"fp32_ops": ["FullyConnected"]}, "Ops cannot be in two or more lists"),
        ({"fp32_ops": ["elemwise_add"], "target_dtype_ops": []}, "Can only choose ops from one of the three lists"),
        ({"conditional_fp32_ops": [("Activation", "act_type", "relu")]}, "list of \\(str, str, list of str\\)"),
    ],
)
def test_refused_conversions(arguments, words):
    with pytest.raises(AssertionError, match=words):
        amp.convert_symbol(sym.FullyConnected(sym.var("x"), num_hidden=2), **arguments)


def test_a_converted_symbol_has_the_inputs_that_are_named():
    with pytest.raises(mx.MXNetError, match="InferTypeKeyword argument name y not found"):
        amp.convert_symbol(sym.FullyConnected(sym.var("x"), num_hidden=2), data_names=["x", "y"])
