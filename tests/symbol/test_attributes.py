# SPDX-License-Identifier: Apache-2.0
"""Attributes of nodes and variables, scopes of them, and element types that follow in both directions."""

from __future__ import annotations

import json
import pickle
import threading

import pytest

import hybridgpu as mx
from hybridgpu.attribute import AttrScope
from hybridgpu.base import MXNetError
from hybridgpu.context import Context
from hybridgpu.name import NameManager

sym = mx.sym


@pytest.fixture
def x():
    return sym.var("x")


# -- which names are hidden: those of nodes, not of operators

KEPT = [
    (lambda x: sym.var("v", attr={"mood": "1", "lr_mult": "3"}), {"mood": "1", "__lr_mult__": "3", "lr_mult": "3"}),
    (lambda x: sym.relu(x, name="r", lr_mult=1), {"__lr_mult__": "1", "lr_mult": "1"}),
    (lambda x: sym.relu(x, attr={"foo": "b", "wd_mult": "2"}), {"foo": "b", "__wd_mult__": "2", "wd_mult": "2"}),
    (
        lambda x: sym.Convolution(x, kernel=(1, 1), num_filter=1, ctx_group="a", mirror_stage=2),
        {"kernel": "(1, 1)", "num_filter": "1", "__ctx_group__": "a", "ctx_group": "a",
         "__mirror_stage__": "2", "mirror_stage": "2"},
    ),
    (lambda x: sym.Convolution(x, kernel=(1, 1), num_filter=1, attr={"__m__": "s"}),
     {"kernel": "(1, 1)", "num_filter": "1", "__m__": "s"}),
    (lambda x: sym.zeros((2,), attr={"ctx_group": "a", "__m__": "s"}),
     {"shape": "(2,)", "dtype": "float32", "__ctx_group__": "a", "ctx_group": "a", "__m__": "s"}),
    (lambda x: sym.eye(3, attr={"__m__": "s"}),
     {"N": "3", "M": "0", "k": "0", "dtype": "float32", "__m__": "s"}),
]  # fmt: skip


@pytest.mark.parametrize(("make", "attrs"), KEPT)
def test_names_of_attributes(make, attrs, x):
    made = make(x)
    assert made.list_attr() == attrs
    assert sym.load_json(made.tojson()).list_attr() == attrs
    assert pickle.loads(pickle.dumps(made)).tojson() == made.tojson()


@pytest.mark.parametrize(
    ("key", "value"),
    [("mood", "1"), ("__mood__", None), ("lr_mult", "3"), ("__lr_mult__", "3"), ("dtype", "d"), ("__dtype__", None)],
)
def test_reading_one_attribute(key, value):
    v = sym.var("v", attr={"mood": "1", "lr_mult": "3", "dtype": "d"})
    assert v.attr(key) == value
    assert sym.load_json(v.tojson()).attr(key) == value


def test_variables_made_for_inputs_carry_the_attributes_of_the_node(x):
    found = sym.FullyConnected(x, num_hidden=2, name="f", lr_mult=2).attr_dict()
    assert found["f"] == found["f_weight"] == {"num_hidden": "2", "__lr_mult__": "2", "lr_mult": "2"}


WRONG = [
    (lambda x: sym.Convolution(x, kernel=(1, 1), num_filter=1, attr={"foo": "b"}), "Cannot find argument 'foo'"),
    (lambda x: sym.FullyConnected(x, num_hidden=1, weight_lr_mult=1), r"(?s)weight_lr_mult is deprecated.*\(weight=w\)"),
    (lambda x: mx.nd.FullyConnected(mx.nd.ones((1, 2)), mx.nd.ones((3, 2)), num_hidden=3, no_bias=True, lr_mult=2),
     "Cannot find argument 'lr_mult'"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "text"), WRONG)
def test_attributes_that_nobody_has(call, text, x):
    with pytest.raises(MXNetError, match=text):
        call(x)


def test_setting_an_attribute_that_the_operator_does_not_have_changes_nothing(x):
    out = sym.FullyConnected(x, num_hidden=3)
    before = out.tojson()
    with pytest.raises(MXNetError, match="Cannot find argument 'zip'"):
        out._set_attr(zip="1")
    assert out.tojson() == before
    out._set_attr(num_hidden="4", lr_mult="2")
    assert out.list_attr() == {"num_hidden": "4", "__lr_mult__": "2", "lr_mult": "2"}
    assert out.infer_shape(x=(5, 2))[1] == [(5, 4)]


def test_a_scope_gives_its_attributes_to_operators_too(x):
    with mx.AttrScope(bar="3", __baz__="4"):
        v = sym.var("v")
        assert v.list_attr() == sym.relu(v).list_attr() == {"bar": "3", "__baz__": "4"}
        with pytest.raises(MXNetError, match="Cannot find argument 'bar'"):
            sym.FullyConnected(v, num_hidden=1)


@pytest.mark.parametrize("key", ["lr_mult", "ctx_group", "dtype", "foo"])
def test_files_of_older_versions(key, x):
    graph = json.loads(sym.relu(x, name="r").tojson())
    graph["nodes"][0]["attrs"] = {key: "3"}
    graph["attrs"]["mxnet_version"] = ["int", 10600]
    found = sym.load_json(json.dumps(graph)).attr_dict()["x"]
    assert found == ({f"__{key}__": "3", key: "3"} if key in ("lr_mult", "ctx_group") else {key: "3"})


# -- the innermost scope, manager and device of a thread, read and set

CURRENT = [
    (AttrScope, "current", lambda: AttrScope(a="1"), lambda s: s.get(None)),
    (NameManager, "current", lambda: mx.name.Prefix("p_"), lambda m: m.get("n", "")),
    (Context, "default_ctx", lambda: mx.cpu(11), str),
]


@pytest.mark.parametrize(("owner", "name", "make", "shown"), CURRENT, ids=lambda v: getattr(v, "__name__", None))
def test_what_a_thread_sets_stays_in_it(owner, name, make, shown):
    seen = {}

    def run():
        setattr(owner, name, make())
        seen["inside"] = shown(getattr(owner, name))

    with pytest.warns(DeprecationWarning):
        before = shown(getattr(owner, name))
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        assert seen["inside"] == shown(make()) != before == shown(getattr(owner, name))


def test_numpy_shapes_in_every_thread():
    seen = []

    def ask():
        thread = threading.Thread(target=lambda: seen.append(mx.is_np_shape()))
        thread.start()
        thread.join()

    try:
        mx.util.set_np_shape(True)
        ask()
        mx.util.set_np_shape(2)
        ask()
        assert mx.util.set_np_shape(0) is True
        ask()
        assert seen == [False, True, False] and not mx.is_np_shape()
    finally:
        mx.util.set_np_shape(0)


# -- element types: None is unknown

A, B = sym.var("a"), sym.var("b")
TYPES = [
    (lambda: A, {}, [None], [None]),
    (lambda: A + B, {}, [None, None], [None]),
    (lambda: sym.relu(A) + B, {"b": "float64"}, ["float64", "float64"], ["float64"]),
    (lambda: sym.FullyConnected(A, num_hidden=3), {"a": "float16"}, ["float16"] * 3, ["float16"]),
    (lambda: sym.FullyConnected(sym.Cast(A, dtype="float16"), num_hidden=3), {}, [None, "float16", "float16"], ["float16"]),
    (lambda: sym.Embedding(A, input_dim=3, output_dim=4, dtype="float16"), {"a": "int32"}, ["int32", "float16"], ["float16"]),
    (lambda: sym.concat(A, sym.relu(B)), {"a": "float64"}, ["float64", "float64"], ["float64"]),
    (lambda: sym.split(A, num_outputs=2)[0] + B, {"b": "float64"}, ["float64", "float64"], ["float64"]),
    (lambda: sym.shape_array(A), {}, [None], ["int64"]),
    (lambda: sym.Cast(A, dtype="float16") + B, {}, [None, "float16"], ["float16"]),
]  # fmt: skip


@pytest.mark.parametrize(("make", "given", "arguments", "outputs"), TYPES)
def test_element_types(make, given, arguments, outputs):
    def names(types):
        return [None if t is None else t.__name__ for t in types]

    symbol = make()
    found = symbol.infer_type_partial(**given)
    assert [names(part) for part in found] == [arguments, outputs, []]
    if None in (*arguments, *outputs):
        with pytest.warns(UserWarning, match="Cannot decide type for the following arguments"):
            assert symbol.infer_type(**given) == (None, None, None)
    else:
        assert symbol.infer_type(**given) == found


def test_shapes_follow_from_results_through_an_identity():
    w, shift = sym.var("weight"), sym.var("shift", shape=(1,))
    like = sym._internal._identity_with_attr_like_rhs(sym.broadcast_add(w, shift), w)
    net = sym.FullyConnected(sym.var("data"), like, num_hidden=11, no_bias=True)
    assert dict(zip(net.list_arguments(), net.infer_shape(data=(7, 100))[0], strict=True))["weight"] == (11, 100)


def test_composition_replaces_variables_that_are_results(x):
    inner = sym.relu(x).get_internals()
    assert inner(x=sym.var("z")).list_inputs() == ["z"]
