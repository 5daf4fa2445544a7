# SPDX-License-Identifier: Apache-2.0
"""Symbols: names, structure, inference, evaluation, files; what a wrong call says."""

from __future__ import annotations

import copy
import json
import pickle

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu.base import MXNetError

sym, nd = mx.sym, mx.nd


@pytest.fixture
def x():
    return sym.var("x")


@pytest.fixture
def y():
    return sym.var("y")


NAMES = [
    ("x + y", "elemwise_add", "_plus0", {}),
    ("x - y", "elemwise_sub", "_minus0", {}),
    ("x * y", "elemwise_mul", "_mul0", {}),
    ("x / y", "elemwise_div", "_div0", {}),
    ("x % y", "_mod", "_mod0", {}),
    ("x ** y", "_power", "_power0", {}),
    ("x == y", "_equal", "_equal0", {}),
    ("x != y", "_not_equal", "_not_equal0", {}),
    ("x > y", "_greater", "_greater0", {}),
    ("x < y", "_lesser", "_lesser0", {}),
    ("x >= y", "_greater_equal", "_greater_equal0", {}),
    ("x <= y", "_lesser_equal", "_lesser_equal0", {}),
    ("x + 2", "_plus_scalar", "_plusscalar0", {"scalar": "2"}),
    ("2 + x", "_plus_scalar", "_plusscalar0", {"scalar": "2"}),
    ("x - 2.0", "_minus_scalar", "_minusscalar0", {"scalar": "2.0"}),
    ("2 - x", "_rminus_scalar", "_rminusscalar0", {"scalar": "2"}),
    ("x * 0.1", "_mul_scalar", "_mulscalar0", {"scalar": "0.1"}),
    ("x / 1e-10", "_div_scalar", "_divscalar0", {"scalar": "1e-10"}),
    ("2 / x", "_rdiv_scalar", "_rdivscalar0", {"scalar": "2"}),
    ("x % 2", "_mod_scalar", "_modscalar0", {"scalar": "2"}),
    ("2 % x", "_rmod_scalar", "_rmodscalar0", {"scalar": "2"}),
    ("x ** 2", "_power_scalar", "_powerscalar0", {"scalar": "2"}),
    ("2 ** x", "_rpower_scalar", "_rpower_scalar0", {"scalar": "2"}),
    ("2 > x", "_lesser_scalar", "_lesser_scalar0", {"scalar": "2"}),
    ("x == 2", "_equal_scalar", "_equal_scalar0", {"scalar": "2"}),
    ("-x", "_mul_scalar", "_mulscalar0", {"scalar": "-1.0"}),
    ("abs(x)", "abs", "abs0", {}),
    ("sym.maximum(x, y)", "_maximum", "_maximum0", {}),
    ("sym.maximum(x, 3)", "_maximum_scalar", "_maximumscalar0", {"scalar": "3"}),
    ("sym.concat(x, y, dim=0)", "Concat", "concat0", {"dim": "0", "num_args": "2"}),
    ("sym.Concat(x, y)", "Concat", "concat0", {"num_args": "2"}),
    ("sym.split(x, num_outputs=2)", "SliceChannel", "split0", {"num_outputs": "2"}),
    ("sym.SliceChannel(x, num_outputs=2)", "SliceChannel", "slicechannel0", {"num_outputs": "2"}),
    ("sym.cast(x, dtype='float16')", "Cast", "cast0", {"dtype": "float16"}),
    ("x.reshape((0, -1))", "Reshape", "reshape0", {"shape": "(0, -1)"}),
    ("sym.sum(x, axis=None, keepdims=True)", "sum", "sum0", {"axis": "None", "keepdims": "True"}),
    ("sym.stop_gradient(x)", "BlockGrad", "stop_gradient0", {}),
    ("sym.relu(x, name='mine')", "relu", "mine", {}),
    ("sym.zeros((2,))", "_zeros", "_zeros0", {"shape": "(2,)", "dtype": "float32"}),
    ("sym.FullyConnected(x, num_hidden=3)", "FullyConnected", "fullyconnected0", {"num_hidden": "3"}),
]


@pytest.mark.parametrize(("code", "op", "name", "attrs"), NAMES, ids=[n[0] for n in NAMES])
def test_names_operators_and_attributes(code, op, name, attrs, x, y):
    out = eval(code, {"x": x, "y": y, "sym": sym})
    node = json.loads(out.tojson())["nodes"][-1]
    assert (node["op"], node["name"], out.name) == (op, name, name)
    found = node.get("attrs", {})
    assert {k: v for k, v in found.items() if k in attrs} == attrs
    assert "attrs" in node or not attrs


def test_counters_and_prefixes(x):
    assert [sym.relu(x).name, sym.relu(x).name, sym.exp(x).name] == ["relu0", "relu1", "exp0"]
    with mx.name.Prefix("pre_"):
        assert (sym.relu(x).name, sym.relu(x, name="a").name, sym.var("v").name) == ("pre_relu0", "pre_a", "v")
    with mx.name.NameManager():
        assert sym.relu(x).name == "relu0"


def test_attribute_scopes(x):
    with mx.AttrScope(lr_mult="3"):
        out = sym.relu(x)
    assert out.list_attr() == {"__lr_mult__": "3", "lr_mult": "3"}
    with pytest.raises(ValueError, match="Attributes need to be string"):
        mx.AttrScope(lr_mult=3)


def test_missing_inputs_become_variables(x):
    assert sym.FullyConnected(num_hidden=3).list_arguments() == [
        "fullyconnected0_data",
        "fullyconnected0_weight",
        "fullyconnected0_bias",
    ]
    assert sym.FullyConnected(x, num_hidden=3, no_bias=True, name="f").list_arguments() == ["x", "f_weight"]


def test_structure(x, y):
    out = sym.Group([sym.relu(x + y), sym.split(x, num_outputs=2)])
    assert out.list_arguments() == ["x", "y"]
    assert out.list_outputs() == ["relu0_output", "split0_output0", "split0_output1"]
    assert out.get_internals().list_outputs() == [
        "x",
        "y",
        "_plus0_output",
        "relu0_output",
        "split0_output0",
        "split0_output1",
    ]
    assert [repr(s) for s in (x, out[0], out[1], out)] == [
        "<Symbol x>", "<Symbol relu0>", "<Symbol split0>", "<Symbol group [relu0, split0, split0]>",
    ]  # fmt: skip
    assert len(out) == 3 and out["split0_output1"].list_outputs() == ["split0_output1"]
    assert out[0].get_children().list_outputs() == ["_plus0_output"]
    assert x.get_children() is None


def test_composition(x, y):
    net = sym.relu(x + y, name="r")
    other = net(x=sym.exp(sym.var("z")), name="composed")
    assert other.list_arguments() == ["z", "y"] and other.name == "composed"
    assert net.list_arguments() == ["x", "y"] and net.name == "r"


def deep(n):
    s = sym.var("x")
    for _ in range(n):
        s = s + 1
    return s


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s)), lambda s: sym.load_json(s.tojson())]
)
def test_copies_are_equal_and_apart(copied, x, y):
    out = sym.Group([sym.relu(x + y), x * 2])
    again = copied(out)
    assert again.tojson() == out.tojson()
    again[0]._set_attr(mark="1")
    assert "mark" not in out.tojson()


def test_ten_thousand_nodes():
    out = deep(10_000)
    assert len(json.loads(out.tojson())["nodes"]) == 10_001
    assert sym.load_json(out.tojson()).infer_shape(x=(2,))[1] == [(2,)]
    assert len(copy.deepcopy(out).get_internals()) == 10_001


# -- inference


def mlp():
    h = sym.Activation(sym.FullyConnected(sym.var("data"), num_hidden=4, name="fc1"), act_type="relu", name="act")
    return sym.FullyConnected(h, num_hidden=2, name="fc2")


def test_infer_shape_fills_weights_in():
    assert mlp().infer_shape(data=(5, 3)) == ([(5, 3), (4, 3), (4,), (2, 4), (2,)], [(5, 2)], [])


def test_infer_shape_of_unknown_shapes():
    with pytest.warns(UserWarning, match=r"Cannot decide shape for the following arguments .*\n\tdata: \(\)"):
        assert mlp().infer_shape() == (None, None, None)
    partial = mlp().infer_shape_partial(data=(5, 0))
    assert partial[0][0] == (5, 0)


@pytest.mark.parametrize(
    ("known", "expected"),
    [({"data": "float16"}, np.float16), ({"data": np.float64}, np.float64), ({"fc1_bias": "float64"}, np.float64)],
)
def test_infer_type(known, expected):
    args, outs, aux = mlp().infer_type(**known)
    assert args == [expected] * 5 and outs == [expected] and aux == []


INFER_ERRORS = [
    (lambda s: s.infer_shape(foo=(1,)), MXNetError, "InferShapeKeyword argument name foo not found.\nCandidate arguments:\n\t[0]data"),
    (lambda s: s.infer_type(foo="float32"), MXNetError, "InferTypeKeyword argument name foo not found.\nCandidate arguments:\n\t[0]data"),
    (lambda s: s.infer_shape(data=[1, 2]), TypeError, "Arguments need to be shapes (tuple), but 'data' is <class 'list'>."),
    (lambda s: s.infer_shape(data=(5, 3), fc1_weight=(4, 7)), MXNetError, "Error in operator fc1: Shape inconsistent, Provided = [4,7], inferred shape=(4,3)"),
    (lambda s: s.infer_type(data="nope"), TypeError, "nope"),
]  # fmt: skip


@pytest.mark.parametrize(("wrong", "error", "text"), INFER_ERRORS, ids=[e[2][:30] for e in INFER_ERRORS])
def test_inference_errors(wrong, error, text):
    with pytest.raises(error) as caught:
        wrong(mlp())
    assert text in str(caught.value)


# -- evaluation


def test_eval(x, y):
    got = sym.Group([x + y, x * y]).eval(x=nd.array([1, 2]), y=nd.array([3, 4]))
    assert [g.asnumpy().tolist() for g in got] == [[4, 6], [3, 8]]


EVAL_ERRORS = [
    (lambda x, y: (x + y).eval(x=nd.ones(2)), ValueError, "key `y` is missing in `args`"),
    (lambda x, y: (x + y).eval(x=nd.ones(2), y=3), TypeError, "y is a <class 'int'>"),
    (lambda x, y: (x + sym.var("x")).eval(x=nd.ones(2)), MXNetError, "variable name 'x' occurs twice"),
    (lambda x, y: (x + y).eval(x=nd.ones(2), y=nd.ones(3)), MXNetError, "Error in operator _plus0: "),
    (lambda x, y: (x + y).eval(x=nd.ones(2), y=nd.ones(2, dtype="int32")), MXNetError, "expected float32, got int32"),
]


@pytest.mark.parametrize(("wrong", "error", "text"), EVAL_ERRORS, ids=[e[2][:30] for e in EVAL_ERRORS])
def test_eval_errors(wrong, error, text, x, y):
    with pytest.raises(error) as caught:
        wrong(x, y)
    assert text in str(caught.value)


# -- wrong calls, and that they leave the Symbol as it was

WRONG = [
    (lambda x: sym.var(3), TypeError, "Expect a string for variable `name`"),
    (lambda x: sym.var("v", foo=1), ValueError, "Attribute name=foo is not supported. Additional attributes must start and end with double underscores, e.g, __yourattr__"),
    (lambda x: sym.Group([]), TypeError, "Expected a list of symbols as input"),
    (lambda x: sym.Group([3]), TypeError, "Expected a list of symbols as input"),
    (lambda x: sym.load(3), TypeError, "fname need to be string"),
    (lambda x: sym.load_json(3), TypeError, "fname required to be string"),
    (lambda x: x["q"], ValueError, 'Cannot find output that matches name "q"'),
    (lambda x: x(sym.var("z")), MXNetError, "General composition only support kwargs for now"),
    (lambda x: x(zz=sym.var("z")), MXNetError, "argument name zz not found"),
    (lambda x: x(x=3), TypeError, "Compose expect `Symbol` as arguments"),
    (lambda x: x.gradient(["x"]), MXNetError, "not implemented"),
    (lambda x: x.save(3), TypeError, "fname need to be string"),
    (lambda x: setattr(x, "foo", 3), AttributeError, "'Symbol' object has no attribute 'foo'"),
    (lambda x: sym.relu(nd.ones(2)), AssertionError, "Argument data must be Symbol instances, but got"),
    (lambda x: sym.FullyConnected(x, num_hidden="zz"), MXNetError, "Invalid Parameter format for num_hidden expect int but value='zz'"),
    (lambda x: sym.relux(x), AttributeError, "did you mean relu?"),
]  # fmt: skip


@pytest.mark.parametrize(("wrong", "error", "text"), WRONG, ids=[w[2][:40] for w in WRONG])
def test_wrong_calls(wrong, error, text, x):
    out = sym.relu(x)
    before = out.tojson()
    with pytest.raises(error) as caught:
        wrong(out)
    assert text in str(caught.value)
    assert out.tojson() == before


# -- hidden attributes and files


def test_hidden_attributes_of_variables():
    v = sym.var("v", shape=(2, 0), dtype="float16", lr_mult=2.0, wd_mult=0.5, init=mx.init.Xavier())
    node = json.loads(v.tojson())["nodes"][0]
    assert node["attrs"] == {
        "__dtype__": "2",
        "__init__": '["xavier", {"rnd_type": "uniform", "factor_type": "avg", "magnitude": 3}]',
        "__lr_mult__": "2.0",
        "__shape__": "(2, 0)",
        "__wd_mult__": "0.5",
    }


def test_save_and_load(tmp_path, x, y):
    out = sym.Group([sym.split(sym.concat(x, y), num_outputs=2)[1], x])
    file = str(tmp_path / "net.json")
    assert out.save(file) is None
    assert sym.load(file).tojson() == out.tojson() == (tmp_path / "net.json").read_text()
    assert [p.name for p in tmp_path.iterdir()] == ["net.json"]


def test_a_file_that_cannot_be_written_says_so(tmp_path, x):
    with pytest.raises(MXNetError, match='Open ".*nowhere.*": No such file or directory'):
        x.save(str(tmp_path / "nowhere" / "net.json"))


OLD = {
    "nodes": [
        {"op": "null", "param": {}, "name": "data", "inputs": [], "backward_source_id": -1},
        {"op": "null", "param": {}, "name": "w", "inputs": [], "attr": {"lr_mult": "2"}},
        {
            "op": "FullyConnected",
            "param": {"num_hidden": "2", "no_bias": "True"},
            "name": "fc",
            "inputs": [[0, 0], [1, 0]],
        },
    ],
    "arg_nodes": [0, 1],
    "heads": [[2, 0]],
}


def test_files_of_old_versions():
    net = sym.load_json(json.dumps(OLD))
    assert net.list_arguments() == ["data", "w"] and net.attr_dict()["w"]["__lr_mult__"] == "2"
    assert net.eval(data=nd.ones((1, 3)), w=nd.ones((2, 3)))[0].asnumpy().tolist() == [[3, 3]]
