# SPDX-License-Identifier: Apache-2.0
"""Files of parameters, exports and imports: what is written is read again, and what does not fit changes nothing."""

from __future__ import annotations

import json

import numpy as np
import pytest
from gluon.nets import mlp, ready

import hybridgpu as mx
from hybridgpu.base import MXNetError

nd, nn, gluon = mx.nd, mx.gluon.nn, mx.gluon


def test_save_and_load(tmp_path):
    net, file = ready(), str(tmp_path / "p")
    net.save_parameters(file)
    assert list(nd.load(file)) == ["0.weight", "0.bias", "1.weight", "1.bias"]
    other = mlp()
    other.load_parameters(file)  # initialises, and fills the shapes in
    x = nd.ones((2, 3))
    np.testing.assert_array_equal(other(x).asnumpy(), net(x).asnumpy())
    net.collect_params().save(file)
    assert list(nd.load(file)) == list(net.collect_params().keys())


def bigger():
    net = mlp()
    net.add(nn.Dense(3))
    return net


def smaller():
    net = nn.HybridSequential(prefix="s_")
    with net.name_scope():
        net.add(nn.Dense(4))
    return net


def other_shape():
    net = nn.HybridSequential(prefix="o_")
    with net.name_scope():
        net.add(nn.Dense(5), nn.Dense(2))
    return net


LOAD_ERRORS = [
    (bigger, AssertionError, "Parameter '2.weight' is missing in file '{}', which contains parameters: '0.weight', '0.bias', '1.weight', '1.bias'. Set allow_missing=True to ignore missing parameters."),
    (smaller, ValueError, "Parameter '1.weight' loaded from file '{}' is not present in ParameterDict, which contains parameters . Set ignore_extra=True to ignore. "),
    (other_shape, AssertionError, "Failed loading Parameter 'o_dense0_weight' from saved params: shape incompatible expected (5, 0) vs saved (4, 3)"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "error", "text"), LOAD_ERRORS, ids=["missing", "extra", "shape"])
def test_load_errors_change_nothing(make, error, text, tmp_path):
    file = str(tmp_path / "p")
    ready().save_parameters(file)
    net = make()
    net.initialize(mx.init.One())
    net(nd.ones((1, 3)))
    before = {k: p.data().asnumpy() for k, p in net.collect_params().items()}
    with pytest.raises(error) as caught:
        net.load_parameters(file)
    shown = text.format(file).replace("(5, 0)", "(5, 3)")
    assert str(caught.value).strip() == shown.strip()
    for k, p in net.collect_params().items():
        np.testing.assert_array_equal(p.data().asnumpy(), before[k], err_msg=f"{k} was changed by a load that failed")


def test_load_dtypes(tmp_path):
    file = str(tmp_path / "p")
    ready().save_parameters(file)
    net = mlp()
    net.cast("float16")
    net.initialize()
    net(nd.ones((1, 3), dtype="float16"))
    with pytest.raises(
        AssertionError, match="dtype incompatible expected .*float16.* vs saved .*float32.*cast_dtype=True"
    ):
        net.load_parameters(file)
    net.load_parameters(file, cast_dtype=True)
    assert net[0].weight.data().dtype == np.float16
    net.load_parameters(file, cast_dtype=True, dtype_source="saved")
    assert net[0].weight.data().dtype == np.float32


@pytest.mark.parametrize("epoch", [0, 7, 12345])
def test_export(epoch, tmp_path):
    net = ready("mlp_", active=True)
    path = str(tmp_path / "m")
    assert net.export(path, epoch) is None
    assert sorted(p.name for p in tmp_path.iterdir()) == [f"m-{epoch:04d}.params", "m-symbol.json"]
    assert list(nd.load(f"{path}-{epoch:04d}.params")) == [
        "arg:mlp_dense0_weight", "arg:mlp_dense0_bias", "arg:mlp_dense1_weight", "arg:mlp_dense1_bias",
    ]  # fmt: skip
    graph = json.loads((tmp_path / "m-symbol.json").read_text())
    assert [n["name"] for n in graph["nodes"] if n["op"] != "null"] == [
        "mlp_dense0_fwd",
        "mlp_dense0_relu_fwd",
        "mlp_dense1_fwd",
    ]
    again = gluon.SymbolBlock.imports(f"{path}-symbol.json", ["data"], f"{path}-{epoch:04d}.params")
    assert again.prefix == "" and list(again.collect_params().keys()) == list(net.collect_params().keys())
    assert repr(again) == "SymbolBlock(\n<Symbol mlp_dense1_fwd> : 1 -> 1\n)"
    x = nd.array(np.random.default_rng(0).normal(size=(4, 3)))
    np.testing.assert_array_equal(again(x).asnumpy(), net(x).asnumpy())


def test_export_needs_a_trace():
    with pytest.raises(RuntimeError) as caught:
        mlp().export("nowhere")
    assert str(caught.value) == (
        "Please first call block.hybridize() and then run forward with this block at least once before calling export."
    )


def test_export_of_several_inputs_and_outputs(tmp_path):
    class Two(gluon.HybridBlock):
        def hybrid_forward(self, F, x, pair):
            return x + pair[0], [pair[1] * 2, x]

    net = Two(prefix="t_")
    net.hybridize()
    args = [nd.ones(2) * k for k in (1, 2, 3)]
    net(args[0], args[1:])
    net.export(str(tmp_path / "t"))
    again = gluon.SymbolBlock.imports(
        str(tmp_path / "t-symbol.json"), ["data0", "data1", "data2"], str(tmp_path / "t-0000.params")
    )
    got = again(*args)
    assert [g.asnumpy().tolist() for g in got] == [[3, 3], [6, 6], [1, 1]]


IMPORT_ERRORS = [
    ("nope-symbol.json", ["data"], "m-0000.params", MXNetError, 'Open "nope-symbol.json": No such file or directory'),
    ("m-symbol.json", ["data"], "nope.params", MXNetError, 'Open "nope.params": No such file or directory'),
    (
        "m-symbol.json",
        ["zz"],
        "m-0000.params",
        ValueError,
        "no input 'zz'; its inputs are those that m-0000.params has no values of: data$",
    ),
    (
        "m-symbol.json",
        ["zz"],
        None,
        ValueError,
        "no input 'zz'; its variables are data, mlp_dense0_weight, mlp_dense0_bias",
    ),
    ("m-symbol.json", [], "m-0000.params", AssertionError, "Parameter 'data' is missing in file"),
    (
        "m-symbol.json",
        [],
        "m-0000.params",
        AssertionError,
        "m-0000.params has no values of data: inputs of the graph belong in input_names.$",
    ),
]


@pytest.mark.parametrize(
    ("symbol", "names", "params", "error", "text"), IMPORT_ERRORS, ids=[e[4][:35] for e in IMPORT_ERRORS]
)
def test_import_errors(symbol, names, params, error, text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ready("mlp_", active=True).export("m")
    with pytest.raises(error, match=text.replace("(", r"\(")):
        gluon.SymbolBlock.imports(symbol, names, params)


def test_imported_without_parameters_must_be_initialised(tmp_path):
    ready("mlp_", active=True).export(str(tmp_path / "m"))
    net = gluon.SymbolBlock.imports(str(tmp_path / "m-symbol.json"), "data")
    with pytest.raises(RuntimeError, match="Parameter 'mlp_dense0_weight' has not been initialized"):
        net(nd.ones((1, 3)))
    net.initialize()
    assert net(nd.ones((1, 3))).shape == (1, 2)


def test_symbol_block_inputs_must_be_variables():
    x = mx.sym.var("x")
    with pytest.raises(
        AssertionError, match="Input symbols must be variable, but <Symbol relu0> is an output of operators"
    ):
        gluon.SymbolBlock(x + 1, mx.sym.relu(x))


def test_parameters_of_a_symbol_block_stand_in_mxnets_order():
    """Arguments, then auxiliary states, whatever stands between them in the graph (MXNet 1.9.1's list)."""
    y = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=4, name="fc1")
    y = mx.sym.FullyConnected(mx.sym.BatchNorm(y, name="bn"), num_hidden=2, name="fc2")
    block = gluon.SymbolBlock(y, mx.sym.var("data"))
    assert list(block.collect_params()) == [
        *("fc1_weight", "fc1_bias", "bn_gamma", "bn_beta", "fc2_weight", "fc2_bias"),
        *("bn_moving_mean", "bn_moving_var"),
    ]
