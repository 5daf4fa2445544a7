# SPDX-License-Identifier: Apache-2.0
"""bfloat16 from the front: made, printed, computed with, differentiated, trained, saved, shared.

That every operator takes it is tests/ops/test_table.py's part, how kernels round tests/compiler/test_bfloat16.py's.
"""

from __future__ import annotations

import json
import pickle
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import autograd, gluon, nd
from hybridgpu.base import MXNetError
from hybridgpu.ndarray.dlpack import Capsule, _type_code

BF16 = ml_dtypes.bfloat16
OF_MXNET = np.dtype([("bfloat16", np.uint16)])  #: what it is called in MXNet's Python
VALUES = [1.0, 2.0, 3.140625]


def x():
    return nd.array([1, 2, 3.14159], dtype="bfloat16")


def parameter():
    p = gluon.Parameter("p", shape=(3,), dtype="bfloat16")
    p.initialize(mx.init.Constant(3.14159))
    return p.data()


def cast_net():
    net = gluon.nn.Dense(1, in_units=3)
    net.initialize(mx.init.Constant(3.14159))
    net.cast("bfloat16")
    return net.weight.data()


MADE = {
    "zeros": (lambda: nd.zeros((2, 3), dtype="bfloat16"), np.zeros((2, 3))),
    "ones": (lambda: nd.ones((2,), dtype="bfloat16"), np.ones(2)),
    "full": (lambda: nd.full((2,), 3.14159, dtype="bfloat16"), [3.140625, 3.140625]),
    "empty": (lambda: nd.empty((0, 2), dtype="bfloat16"), np.zeros((0, 2))),
    "arange": (lambda: nd.arange(3, dtype="bfloat16"), [0, 1, 2]),
    "list": (x, VALUES),
    "the class": (lambda: nd.array([1, 2, 3.14159], dtype=BF16), VALUES),
    "NumPy's type": (lambda: nd.array([1, 2, 3.14159], dtype=np.dtype(BF16)), VALUES),
    "MXNet's type": (lambda: nd.array([1, 2, 3.14159], dtype=OF_MXNET), VALUES),
    "array": (lambda: nd.array(np.array(VALUES, BF16), dtype=BF16), VALUES),
    "MXNet's words": (lambda: nd.array(np.array([(16256,), (49152,)], OF_MXNET), dtype=OF_MXNET), [1, -2]),
    "from_numpy": (lambda: nd.from_numpy(np.array(VALUES, BF16)), VALUES),
    "like": (lambda: nd.ones_like(x()), np.ones(3)),
    "astype": (lambda: nd.array([1, 2, 3.14159]).astype("bfloat16"), VALUES),
    "Cast": (lambda: nd.Cast(nd.array([1, 2, 3.14159], dtype="float64"), dtype="bfloat16"), VALUES),
    "amp_cast": (lambda: nd.amp_cast(nd.array([1, 2, 3.14159]), dtype="bfloat16"), VALUES),
    "of integers": (lambda: nd.array([257, 259], dtype="int32").astype("bfloat16"), [256, 260]),
    "of half": (lambda: nd.array([65504], dtype="float16").astype("bfloat16"), [65536]),
    "copyto": (lambda: nd.array([1, 2, 3.14159]).copyto(nd.zeros(3, dtype="bfloat16")), VALUES),
    "sum": (lambda: x() + x(), [2, 4, 6.28125]),
    "scalar": (lambda: x() * 2 - 1, [1, 3, 5.28125]),
    "part": (lambda: x()[1:], VALUES[1:]),
    "items": (lambda: x()[nd.array([2, 0])], [3.140625, 1]),
    "concat": (lambda: nd.concat(x(), x(), dim=0), VALUES * 2),
    "compared": (lambda: x() > 1.5, [0, 1, 1]),
    "parameter": (parameter, np.full(3, 3.140625)),
    "net.cast": (cast_net, np.full((1, 3), 3.140625)),
}


@pytest.mark.parametrize("make", [m for m, _ in MADE.values()], ids=list(MADE))
def test_made(make):
    want = next(w for m, w in MADE.values() if m is make)
    got = make()
    assert got.dtype is BF16 and got.asnumpy().dtype == np.dtype(BF16)
    np.testing.assert_array_equal(got.asnumpy().astype(np.float64), want)


def test_conversions_from_it():
    values = nd.array([1.5, -2.5, 300, np.nan, np.inf], dtype="bfloat16")
    assert values.astype("float32").asnumpy()[:3].tolist() == [1.5, -2.5, 300]
    assert values.astype("int32").asnumpy()[:3].tolist() == [1, -2, 300]
    assert values.astype("uint8").asnumpy()[:3].tolist() == [1, 254, 44]  # narrow integers wrap, as from float32
    assert values.astype("bool").asnumpy().tolist() == [True] * 5
    assert np.isnan(values.astype("float16").asnumpy()[3]) and np.isinf(values.astype("float64").asnumpy()[4])


def test_printed_indexed_assigned_pickled():
    a = x()
    assert repr(a) == "\n[1 2 3.14062]\n<NDArray 3 @cpu(0)>"
    assert float(a[2].asscalar()) == 3.140625
    a[0], a[1:] = 7, nd.array([8.01, 9], dtype="bfloat16")
    assert a.asnumpy().tolist() == [7, 8, 9]
    a[:] = np.array([0.1, 0.2, 0.3], BF16)
    a += 1
    np.testing.assert_allclose(a.asnumpy().astype(np.float64), [1.1, 1.2, 1.3], rtol=2.0**-8)
    again = pickle.loads(pickle.dumps(a))
    assert again.dtype is BF16 and again.asnumpy().tobytes() == a.asnumpy().tobytes()


def test_symbols():
    s = mx.sym.Cast(mx.sym.var("x"), dtype="bfloat16")
    assert s.attr_dict() == mx.sym.Cast(mx.sym.var("x"), dtype=OF_MXNET, name=s.name).attr_dict()
    assert s.attr_dict()[s.name] == {"dtype": "bfloat16"}
    assert s.infer_type(x="float32") == ([np.float32], [BF16], [])
    v = mx.sym.var("v", dtype="bfloat16")
    assert json.loads(v.tojson())["nodes"][0]["attrs"] == {"__dtype__": "12"}
    again = mx.sym.load_json((v * 2).tojson())
    assert again.infer_type() == ([BF16], [BF16], [])
    (y,) = again.eval(v=x())
    assert y.dtype is BF16 and y.asnumpy().tolist() == [2, 4, 6.28125]


def test_types_do_not_mix():
    with pytest.raises(MXNetError, match="(?s)float32.*bfloat16|bfloat16.*float32"):
        x() + nd.ones(3)
    with pytest.raises(MXNetError):
        nd.linalg.potrf(nd.ones((1, 1), dtype="bfloat16"))
    widest = nd.amp_multicast(x(), nd.ones(3, dtype="float16"), num_outputs=2)
    assert [a.dtype for a in widest] == [np.float32] * 2


# -- nets


class Convolved(gluon.HybridBlock):
    """Convolution, both normalisations, pooling, a product, softmax."""

    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.conv = gluon.nn.Conv2D(4, 3, padding=1, in_channels=2)
            self.norm = gluon.nn.BatchNorm(in_channels=4)
            self.layer = gluon.nn.LayerNorm(in_channels=16)
            self.dense = gluon.nn.Dense(3, in_units=16)

    def hybrid_forward(self, F, x):
        y = F.Pooling(F.Activation(self.norm(self.conv(x)), act_type="relu"), kernel=(2, 2), stride=(2, 2))
        return F.log_softmax(self.dense(self.layer(F.reshape(y, (0, -1)))))


def trained(dtype, hybridize, steps=3):
    """(results, gradients, parameters) of a few steps on fixed data."""
    mx.random.seed(1)
    net = Convolved()
    net.initialize(mx.init.Normal(0.5))
    net.cast(dtype)
    if hybridize:
        net.hybridize()
    rng = np.random.default_rng(0)
    data = nd.array(rng.standard_normal((8, 2, 4, 4)), dtype=dtype)
    labels = nd.array(rng.integers(0, 3, 8), dtype=dtype)
    options = {"learning_rate": 0.05, "momentum": 0.9, "multi_precision": True}
    trainer = gluon.Trainer(net.collect_params(), "sgd", options)
    results = []
    for _ in range(steps):
        with autograd.record():
            y = net(data)
            loss = -nd.pick(y, labels).mean()
        loss.backward()
        trainer.step(1)
        results.append(y)
    parameters = {n.split("_", 1)[1]: p for n, p in net.collect_params().items()}
    gradients = {n: p.grad() for n, p in parameters.items() if p.grad_req != "null"}
    return results, gradients, {n: p.data() for n, p in parameters.items()}


@pytest.mark.parametrize("hybridize", [False, True], ids=["eager", "hybridized"])
def test_training_follows_float32(hybridize):
    got, want = trained("bfloat16", hybridize), trained("float32", False)
    for a, b in zip(got[0], want[0], strict=True):
        assert a.dtype is BF16
        np.testing.assert_allclose(a.asnumpy().astype(np.float32), b.asnumpy(), rtol=0.05, atol=0.08)
    for part in (1, 2):
        assert got[part].keys() == want[part].keys()
        for name, b in want[part].items():
            a = got[part][name]
            wide = "batchnorm" in name  # its parameters and statistics stay in float32, as with float16
            assert a.dtype is (np.float32 if wide else BF16), name
            scale = np.abs(b.asnumpy()).max()
            np.testing.assert_allclose(
                a.asnumpy().astype(np.float32), b.asnumpy(), rtol=0.05, atol=0.05 * scale + 5e-3, err_msg=name
            )


def test_hybridized_is_eager():
    eager, hybridized = trained("bfloat16", False, steps=1), trained("bfloat16", True, steps=1)
    for a, b in zip(eager[0], hybridized[0], strict=True):
        np.testing.assert_allclose(a.asnumpy().astype(np.float32), b.asnumpy().astype(np.float32), rtol=0.03, atol=0.03)


GRADIENTS = {
    "softmax": (lambda a: (nd.softmax(a) * a).sum(), (4, 5)),
    "product": (lambda a: nd.dot(a, a, transpose_b=True).sum(), (4, 5)),
    "norm": (lambda a: nd.LayerNorm(a, nd.ones_like(a[0]), nd.zeros_like(a[0])).square().sum(axis=1).max(), (3, 6)),
    "take": (lambda a: (nd.take(a, nd.array([0, 2, 2])) ** 2).sum(), (3, 4)),
    "tanh of exp": (lambda a: nd.tanh(nd.exp(a * 0.5)).sum(), (7,)),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_against_float64(name):
    function, shape = GRADIENTS[name]
    values = np.random.default_rng(2).standard_normal(shape).astype(BF16)
    found = []
    for dtype in ("bfloat16", "float64"):
        a = nd.array(values, dtype=dtype)
        a.attach_grad()
        with autograd.record():
            y = function(a)
        y.backward()
        assert a.grad.dtype is a.dtype
        found.append(a.grad.asnumpy().astype(np.float64))
    np.testing.assert_allclose(*found, rtol=0.05, atol=0.03)


@pytest.mark.parametrize("hybridize", [False, True], ids=["eager", "hybridized"])
def test_loops_keep_their_states_in_bfloat16(hybridize):
    class Running(gluon.HybridBlock):
        def hybrid_forward(self, F, data, start):
            ys, state = F.contrib.foreach(lambda row, s: (row + s, row + s), data, start)
            return ys, state

    net = Running()
    if hybridize:
        net.hybridize()
    data = nd.ones((300, 2), dtype="bfloat16")
    data.attach_grad()
    with autograd.record():
        ys, state = net(data, nd.zeros((2,), dtype="bfloat16"))
        first = ys[0]
    assert ys.dtype is BF16 and state.dtype is BF16
    # a state that is stored between the steps cannot pass 256 by ones
    assert state.asnumpy().tolist() == [256, 256] and ys[99].asnumpy().tolist() == [100, 100]
    first.backward()
    assert data.grad.asnumpy()[:2].tolist() == [[1, 1], [0, 0]]


# -- files

#: nd.save(file, {"x": nd.array([1, 2, 3.14159]).astype(dtype)}) of MXNet
PARAMS = bytes.fromhex(
    "1201000000000000 0000000000000000 0100000000000000 c9fa93f9 00000000 01000000 0300000000000000"
    "01000000 00000000 0c000000 803f 0040 4940 0100000000000000 0100000000000000 78"
)


def test_params_are_those_of_mxnet(tmp_path):
    file = tmp_path / "x.params"
    nd.save(str(file), {"x": x()})
    assert file.read_bytes() == PARAMS
    loaded = nd.load_frombuffer(PARAMS)["x"]
    assert loaded.dtype is BF16 and loaded.asnumpy().tolist() == VALUES


@pytest.mark.parametrize("ending", ["params", "safetensors"])
def test_parameters_of_a_net(ending, tmp_path):
    file = str(tmp_path / f"net.{ending}")
    net = gluon.nn.Dense(3, in_units=2, dtype="bfloat16")
    net.initialize(mx.init.Normal(1))
    net.save_parameters(file)
    again = gluon.nn.Dense(3, in_units=2, dtype="bfloat16")
    again.load_parameters(file)
    assert again.weight.data().asnumpy().tobytes() == net.weight.data().asnumpy().tobytes()
    other = gluon.nn.Dense(3, in_units=2)
    with pytest.raises(AssertionError, match="dtype incompatible expected float32 vs saved .*bfloat16"):
        other.load_parameters(file)
    other.load_parameters(file, cast_dtype=True)
    np.testing.assert_array_equal(other.weight.data().asnumpy(), net.weight.data().astype("float32").asnumpy())


# -- other libraries


def test_dlpack_both_ways():
    a = x()
    for capsule in (a.__dlpack__(), a.__dlpack__(max_version=(1, 0)), a.to_dlpack_for_read()):
        assert _type_code(capsule).value == 4  # kDLBfloat
        b = nd.from_dlpack(Capsule(capsule))
        assert b.dtype is BF16 and b.address == a.address
    b = nd.from_dlpack(a.to_dlpack_for_write())
    b[0] = 5
    assert a.asnumpy().tolist() == [5, *VALUES[1:]]
    assert nd.from_dlpack(a).address == a.address
    with pytest.raises((BufferError, RuntimeError)):
        np.from_dlpack(a)  # it has no such type
    with pytest.raises(ValueError, match="no DLPack capsule"):
        capsule = nd.ones(2).to_dlpack_for_read()
        nd.from_dlpack(capsule)
        nd.from_dlpack(capsule)  # taken already


def in_process(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_ml_dtypes_comes_with_the_first_array():
    print_modules = "print('ml_dtypes' in sys.modules)"
    code = f"import sys, hybridgpu as mx; mx.nd.ones(3, dtype='float16') + 1; {print_modules}; mx.nd.ones(3, dtype='bfloat16'); {print_modules}"
    assert in_process(code).split() == ["False", "True"]


def test_without_ml_dtypes_only_bfloat16_is_missing():
    code = (
        "import sys; sys.modules['ml_dtypes'] = None\n"
        "import hybridgpu as mx\n"
        "print((mx.nd.ones(3, dtype='float16') + 1).sum().asscalar())\n"
        "try: mx.nd.zeros(3, dtype='bfloat16')\n"
        "except ImportError as e: print(e)\n"
    )
    first, *rest = in_process(code).splitlines()
    assert first == "6.0" and rest[0].startswith("bfloat16 arrays need the package ml_dtypes (")
    assert rest[1] == "Install it: pip install ml_dtypes"
