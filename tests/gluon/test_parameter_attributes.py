# SPDX-License-Identifier: Apache-2.0
"""``self.weight = gluon.Parameter(...)``, as in MXNet 2: the same as ``self.params.get``, by which the tests' oracle is made."""

import copy
import pickle

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu import autograd, gluon, nd
from hybridgpu.gluon import nn


def by_get(block, name, **kwargs):
    return block.params.get(name, **kwargs)


def by_class(block, name, **kwargs):
    return gluon.Parameter(name, **kwargs)


def by_class_of_one_name(block, name, **kwargs):
    return gluon.Parameter(**kwargs)


WAYS = [by_class, by_class_of_one_name]


def fill(block, make):
    block.weight = make(block, "weight", shape=(4, 0), allow_deferred_init=True)
    block.scale = make(block, "scale", shape=(4,), init="ones", lr_mult=0.5)


class Plain(gluon.Block):
    def __init__(self, make, **kwargs):
        super().__init__(**kwargs)
        self.weight = make(self, "weight", shape=(4, 3))
        self.scale = make(self, "scale", shape=(4,), init="ones", lr_mult=0.5)

    def forward(self, x):
        return nd.FullyConnected(x, self.weight.data(), num_hidden=4, no_bias=True) * self.scale.data()


class Forward(gluon.HybridBlock):
    def __init__(self, make, **kwargs):
        super().__init__(**kwargs)
        fill(self, make)

    def forward(self, x):
        return nd.FullyConnected(x, self.weight.data(), num_hidden=4, no_bias=True) * self.scale.data()


class Hybrid(gluon.HybridBlock):
    def __init__(self, make, **kwargs):
        super().__init__(**kwargs)
        fill(self, make)

    def hybrid_forward(self, F, x, weight, scale):
        return F.broadcast_mul(F.FullyConnected(x, weight, num_hidden=4, no_bias=True), scale)


KINDS = [Plain, Forward, Hybrid]


def net_of(kind, make, prefix="net_", **kwargs):
    """A net with two of these blocks, so that names must differ."""
    net = (nn.HybridSequential if issubclass(kind, gluon.HybridBlock) else nn.Sequential)(prefix=prefix)
    with net.name_scope():
        net.add(kind(make, **kwargs), nn.Dense(3), kind(make))
    return net


def values(net):
    return {name: p.data().asnumpy() for name, p in net.collect_params().items()}


def equal(a, b):
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)


@pytest.mark.parametrize("make", WAYS)
@pytest.mark.parametrize("kind", KINDS)
class TestAsByGet:
    """Everything is as for the same net of ``params.get``."""

    def pair(self, kind, make, hybridize=False):
        made = []
        for way in (by_get, make):
            mx.random.seed(7)
            net = net_of(kind, way)
            net.initialize(mx.init.Xavier())
            if hybridize:
                net.hybridize()
            made.append((net, net(nd.ones((2, 3)))))
        (expected, y), (net, z) = made
        np.testing.assert_array_equal(y.asnumpy(), z.asnumpy())
        return expected, net

    def test_names_and_values(self, kind, make):
        expected, net = self.pair(kind, make)
        equal(values(net), values(expected))
        assert [p.name for p in net.collect_params().values()] == list(net.collect_params())
        assert list(net._collect_params_with_prefix()) == list(expected._collect_params_with_prefix())
        assert list(net.collect_params(".*weight")) == list(expected.collect_params(".*weight"))
        assert list(net[0].params) == ["net_" + f"{kind.__name__.lower()}0_{n}" for n in ("weight", "scale")]

    @pytest.mark.parametrize("hybridize", [False, True])
    def test_training(self, kind, make, hybridize):
        results = []
        for net in self.pair(kind, make, hybridize):
            trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9})
            for k in range(3):
                with autograd.record():
                    loss = (net(nd.ones((2, 3)) * (k + 1)) ** 2).sum()
                loss.backward()
                trainer.step(2)
            results.append(values(net))
        equal(*results)

    def test_files(self, kind, make, tmp_path):
        expected, net = self.pair(kind, make)
        equal_values = values(expected)
        for name, save, load in (
            ("a", lambda f: expected.save_parameters(f), lambda n, f: n.load_parameters(f)),
            ("b", lambda f: net.save_parameters(f), lambda n, f: n.load_parameters(f)),
            ("c", lambda f: net.collect_params().save(f), lambda n, f: n.collect_params().load(f)),
            ("d", lambda f: net[0].save_parameters(f), lambda n, f: n[0].load_parameters(f)),
        ):
            save(str(tmp_path / name))
            other = net_of(kind, make)
            load(other, str(tmp_path / name))
            got = {n: p.data().asnumpy() for n, p in other.collect_params().items() if p._data is not None}
            equal(got, {n: v for n, v in equal_values.items() if name != "d" or n in net[0].params})

    def test_cast_copies_and_devices(self, kind, make):
        expected, net = self.pair(kind, make)
        for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
            equal(values(other), values(expected))
            assert other[0].weight is other.collect_params()[net[0].weight.name]
        net.cast("float16")
        expected.cast("float16")
        equal(values(net), values(expected))
        assert {p.dtype for p in net.collect_params().values()} == {"float16"}
        net.collect_params().reset_ctx(mx.cpu(1))
        assert net[2].weight.list_ctx() == [mx.cpu(1)]

    def test_export(self, kind, make, tmp_path):
        if kind is Plain:
            return
        expected, net = self.pair(kind, make, hybridize=True)
        for name, one in (("expected", expected), ("net", net)):
            one.export(str(tmp_path / name))
        texts = [(tmp_path / f"{name}-symbol.json").read_text() for name in ("expected", "net")]
        assert texts[0] == texts[1]
        again = gluon.SymbolBlock.imports(
            str(tmp_path / "net-symbol.json"), ["data"], str(tmp_path / "net-0000.params")
        )
        x = nd.ones((2, 3)) * 3
        np.testing.assert_allclose(again(x).asnumpy(), net(x).asnumpy(), rtol=1e-6)

    def test_sharing(self, kind, make):
        first = kind(make, prefix="first_")
        second = kind(make, params=first.params)
        assert second.weight is first.weight and list(second.params) == list(first.params)
        assert second.scale.lr_mult == 0.5


def test_the_parameter_of_another_block_stays_there():
    """As in MXNet 1.9.1, where an attribute alone does not list it: order and names of a net's parameters stay."""

    class Tied(gluon.HybridBlock):
        def __init__(self, weight):
            super().__init__(prefix="tied_")
            self.weight = weight

        def hybrid_forward(self, F, x, weight):
            return F.dot(x, weight)

    dense = nn.Dense(3, in_units=3, prefix="dense_")
    tied = Tied(dense.weight)
    assert dense.weight.name == "dense_weight" and not list(tied.collect_params())
    assert list(tied._collect_params_with_prefix()) == ["weight"]


def test_a_parameter_of_two_blocks_is_of_both():
    shared = gluon.Parameter("any", shape=(2,))
    a, b = gluon.Block(prefix="a_"), gluon.Block(prefix="b_")
    a.weight = b.bias = shared
    assert shared.name == "a_weight" and list(a.collect_params()) == list(b.collect_params()) == ["a_weight"]
    net = nn.Sequential()
    net.add(a, b)
    assert list(net.collect_params()) == ["a_weight"]


def test_one_that_the_program_lists_itself_is_there_once():
    before, after = gluon.Block(prefix="a_"), gluon.Block(prefix="b_")
    p = gluon.Parameter("w", shape=(2,))
    before.params.update({"w": p})
    before.weight = p
    after.weight = q = gluon.Parameter("w", shape=(2,))
    after.params.update({"w": q})
    assert list(before.collect_params()) == list(after.collect_params()) == ["w"]


def test_two_of_one_name():
    block = gluon.Block(prefix="a_")
    block.kernel = block.params.get("weight", shape=(2,))
    block.weight = gluon.Parameter("weight", shape=(3,))
    block.initialize()
    assert {n: p.shape for n, p in block.collect_params().items()} == {"a_weight": (2,), "a_weight1": (3,)}


def test_a_constant():
    class Shifted(gluon.HybridBlock):
        def __init__(self):
            super().__init__(prefix="shifted_")
            self.shift = gluon.Constant("any", [1, 2])

        def forward(self, x):
            return x + self.shift.data()

    net = Shifted()
    net.initialize()
    net.hybridize()
    assert list(net.collect_params()) == ["shifted_shift"]
    assert net(nd.zeros((1, 2))).asnumpy().tolist() == [[1, 2]]


def test_under_mxnets_name_it_is_the_programs_to_initialize(monkeypatch):
    monkeypatch.setattr("hybridgpu.gluon.forward.ROOTS", {"hybridgpu", "mxnet"})
    net = Plain(by_class)
    assert not list(net.collect_params()) and net.weight.name == "weight"
    net.initialize()
    with pytest.raises(RuntimeError, match=r"has not been initialized.*\n.*under MXNet's name, Parameter\(\.\.\.\)"):
        net(nd.ones((2, 3)))


def test_shared_parameters_of_one_name():
    class Both(gluon.HybridBlock):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.first = self.params.get("weight", shape=(2,))
            self.weight = gluon.Parameter(shape=(3,))

    one = Both(prefix="one_")
    other = Both(params=one.params)
    assert other.first is one.first and other.weight is one.weight
    assert list(one.collect_params()) == ["one_weight", "one_weight1"] == list(other.collect_params())
