# SPDX-License-Identifier: Apache-2.0
"""Files of older versions of MXNet: graphs from 0.8 on, arrays of all three formats, sparse arrays.

What a row expects is what MXNet 1.9.1 makes of the same file.
"""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest
from malformed_files import V1, V2, array, params

from hybridgpu import nd, sym
from hybridgpu.base import MXNetError


def old(*nodes, version=None):
    """A graph as 0.8 wrote it: ``param``, ``attr``, ``backward_source_id``, inputs of two numbers. A node is
    (op, name, inputs, param, attr)."""
    listed = [
        {
            "op": op,
            "param": param,
            "name": name,
            "inputs": inputs,
            "backward_source_id": -1,
            **({"attr": attr} if attr else {}),
        }
        for op, name, inputs, param, attr in nodes
    ]
    names = [k for k, n in enumerate(nodes) if n[0] == "null"]
    extra = {} if version is None else {"attrs": {"mxnet_version": ["int", version]}}
    return json.dumps({"nodes": listed, "arg_nodes": names, "heads": [[len(nodes) - 1, 0]], **extra})


def var(name, **attr):
    return "null", name, [], {}, attr


def of(op, count, param, **attr):
    return op, "y", [[k, 0] for k in range(count)], param, attr


X, W, B = var("x"), var("w"), var("b")
BN = {"eps": "0.001", "fix_gamma": "True"}
ZERO, ONE = {"__init__": '["zero", {}]'}, {"__init__": '["one", {}]'}
SLOPE = {"__init__": '["Constant", {"value": 0.25}]'}

#: what it is about -> (file, arguments, auxiliary states, attr_dict without the short spellings)
GRAPHS = {
    "hidden keys get underscores": (
        old(var("x", ctx_group="a", lr_mult="0.2", wd_mult="0.3"), of("Activation", 1, {"act_type": "relu"}, force_mirroring="True", mirror_stage="s")),
        ["x"], [],
        {"x": {"__ctx_group__": "a", "__lr_mult__": "0.2", "__wd_mult__": "0.3"}, "y": {"act_type": "relu", "__force_mirroring__": "True", "__mirror_stage__": "s"}},
    ),
    "multipliers move to the inputs they name": (
        old(X, W, B, of("FullyConnected", 3, {"num_hidden": "3"}, weight_lr_mult="1.2", bias_wd_mult="2")),
        ["x", "w", "b"], [],
        {"w": {"__lr_mult__": "1.2"}, "b": {"__wd_mult__": "2"}, "y": {"num_hidden": "3"}},
    ),
    "the short spelling counts": (
        old(var("x", lr_mult="2", __lr_mult__="5"), of("Flatten", 1, {})), ["x"], [], {"x": {"__lr_mult__": "2"}},
    ),
    "nothing is renamed in files of today": (
        old(var("x", lr_mult="2", __lr_mult__="5"), of("Flatten", 1, {}), version=10901), ["x"], [], {"x": {"__lr_mult__": "5"}},
    ),
    "a missing input of several": (
        old(X, of("Concat", 1, {"num_args": "3", "dim": "0"})), ["x", "y_arg1", "y_arg2"], [],
        {k: {"num_args": "3", "dim": "0"} for k in ("y_arg1", "y_arg2", "y")},
    ),
    "integers as Python 2 wrote them": (
        old(X, W, of("Convolution", 2, {"kernel": "(3L, 3L)", "num_filter": "2", "pad": "(1L,1L)", "no_bias": "True"}), version=905),
        ["x", "w"], [], {"y": {"kernel": "(3L, 3L)", "num_filter": "2", "pad": "(1L,1L)", "no_bias": "True"}},
    ),
    "such a key of a variable stays": (
        old(var("x", weight_lr_mult="1.2"), of("Flatten", 1, {})), ["x"], [], {"x": {"weight_lr_mult": "1.2"}},
    ),
    "averages are added, with the operator's attributes": (
        old(X, W, B, of("BatchNorm", 3, BN, ctx_group="q")), ["x", "w", "b"], ["y_moving_mean", "y_moving_var"],
        {k: {**BN, "__ctx_group__": "q", **init} for k, init in (("y_moving_mean", ZERO), ("y_moving_var", ONE), ("y", {}))},
    ),
    "so are arguments": (
        old(X, of("BatchNorm", 1, {})), ["x", "y_gamma", "y_beta"], ["y_moving_mean", "y_moving_var"],
        {"y_moving_mean": ZERO, "y_moving_var": ONE},
    ),
    "initialisers, until 0.9.3": (
        old(X, W, of("LeakyReLU", 2, {"act_type": "prelu"}), version=903), ["x", "w"], [], {"w": SLOPE, "y": {"act_type": "prelu"}},
    ),
    "none, from 0.9.4 on": (
        old(X, W, of("LeakyReLU", 2, {"act_type": "prelu"}), version=904), ["x", "w"], [], {"y": {"act_type": "prelu"}},
    ),
    "axis -1 meant all, until 0.9.4": (old(X, of("argmax", 1, {"axis": "-1"}), version=904), ["x"], [], {}),
    "axis -1, from 0.9.5 on": (old(X, of("argmin", 1, {"axis": "-1"}), version=905), ["x"], [], {"y": {"axis": "-1"}}),
    "attr in place of attrs": (
        json.dumps({"nodes": [{"op": "null", "name": "x", "inputs": []}, {"op": "expand_dims", "name": "y", "attr": {"axis": "1"}, "inputs": [[0, 0, 0]]}],
                    "arg_nodes": [0], "heads": [[1, 0, 0]], "attrs": {"mxnet_version": ["int", 1000]}}),
        ["x"], [], {"y": {"axis": "1"}},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GRAPHS)
def test_graphs(name):
    text, arguments, states, attributes = GRAPHS[name]
    net = sym.load_json(text)
    assert (net.list_arguments(), net.list_auxiliary_states()) == (arguments, states)
    short = ("ctx_group", "lr_mult", "wd_mult", "force_mirroring", "mirror_stage")
    found = {node: {k: v for k, v in attrs.items() if k not in short} for node, attrs in net.attr_dict().items()}
    assert found == attributes
    assert sym.load_json(net.tojson()).tojson() == net.tojson()


WRONG = {
    "no such input": (old(X, W, B, of("FullyConnected", 3, {"num_hidden": "3"}, foo_lr_mult="2")), "Cannot find argument 'foo_lr_mult'"),
    "an input that is no variable": (
        old(X, W, B, ("Flatten", "f", [[1, 0]], {}, {}), ("FullyConnected", "y", [[0, 0], [3, 0], [2, 0]], {"num_hidden": "3"}, {"weight_lr_mult": "2"})),
        "Cannot find argument 'weight_lr_mult'",
    ),
    "a file of today": (
        old(X, W, B, of("FullyConnected", 3, {"num_hidden": "3"}, weight_lr_mult="2"), version=10901), "Cannot find argument 'weight_lr_mult'",
    ),
    "too many inputs to add": (old(X, of("Concat", 1, {"num_args": str(2**31 - 1)})), "num_args is 2147483647, more than any graph needs"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_keys_that_fit_nowhere(name):
    text, message = WRONG[name]
    with pytest.raises(MXNetError, match=message):
        sym.load_json(text)


def test_inputs_are_not_added_to_new_files():
    with pytest.raises(MXNetError, match="expects 5 inputs, but got 3"):
        sym.load_json(old(X, W, B, of("BatchNorm", 3, BN), version=900))


DATA = np.array([[1.0, -2, 3], [4, 0.5, -6]], "float32")
#: operator -> (inputs, parameters, value for x = DATA, y = 2)
NAMES = {
    "_Plus": (2, {}, DATA + 2), "_Minus": (2, {}, DATA - 2), "_Mul": (2, {}, DATA * 2), "_Div": (2, {}, DATA / 2),
    "_Power": (2, {}, DATA**2), "_Mod": (2, {}, DATA % 2), "_Hypot": (2, {}, np.hypot(DATA, 2)),
    "_Maximum": (2, {}, np.maximum(DATA, 2)), "_Minimum": (2, {}, np.minimum(DATA, 2)),
    "_Not_Equal": (2, {}, DATA != 2), "_Greater_Equal": (2, {}, DATA >= 2), "_Logical_Xor": (2, {}, np.zeros_like(DATA)),
    "_PlusScalar": (1, {"scalar": "2"}, DATA + 2), "_MinusScalar": (1, {"scalar": "2"}, DATA - 2),
    "_RMinusScalar": (1, {"scalar": "2"}, 2 - DATA), "_RDivScalar": (1, {"scalar": "2"}, 2 / DATA),
    "_RPowerScalar": (1, {"scalar": "2"}, 2**DATA), "_RModScalar": (1, {"scalar": "2"}, 2 % DATA),
    "_MaximumScalar": (1, {"scalar": "2"}, np.maximum(DATA, 2)), "_HypotScalar": (1, {"scalar": "2"}, np.hypot(DATA, 2)),
    "_LesserEqualScalar": (1, {"scalar": "2"}, DATA <= 2), "_LogicalAndScalar": (1, {"scalar": "2"}, np.ones_like(DATA)),
    "ElementWiseSum": (2, {"num_args": "2"}, DATA + 2), "SwapAxis": (1, {"dim1": "0", "dim2": "1"}, DATA.T),
    "Flatten": (1, {}, DATA), "Concat": (2, {"num_args": "2", "dim": "1"}, np.concatenate([DATA, np.full_like(DATA, 2)], 1)),
    "SliceChannel": (1, {"num_outputs": "3", "squeeze_axis": "True"}, DATA[:, 0]), "Reshape": (1, {"target_shape": "(3,2)"}, DATA.reshape(3, 2)),
    "argmax": (1, {"axis": "-1"}, np.array([3.0])), "Softmax": (2, {}, np.exp(DATA) / np.exp(DATA).sum(1, keepdims=True)),
}  # fmt: skip


@pytest.mark.parametrize("op", NAMES)
def test_old_names(op):
    count, param, expected = NAMES[op]
    net = sym.load_json(old(X, var("y0"), of(op, count, param)))
    second = nd.array([0, 1]) if op == "Softmax" else nd.full(DATA.shape, 2)
    (first, *_) = net.eval(**dict(zip(["x", "y0"], [nd.array(DATA), second][:count], strict=False)))
    np.testing.assert_allclose(first.asnumpy(), expected, rtol=1e-6, atol=1e-6)


IMAGE = np.random.default_rng(0).normal(size=(2, 2, 5, 5)).astype("float32")
FIRST = {
    "Convolution": (3, {"kernel": "(3,3)", "num_filter": "2", "pad": "(1,1)"}, ((2, 2, 3, 3), (2,))),
    "Pooling": (1, {"kernel": "(2,2)", "stride": "(2,2)", "pool_type": "avg"}, ()),
    "BatchNorm": (5, {"fix_gamma": "False"}, ((2,), (2,), (2,), (2,))),
}


@pytest.mark.parametrize("op", FIRST)
def test_first_versions_of_operators(op):
    """``Convolution_v1`` and the like compute what their successors do."""
    count, param, shapes = FIRST[op]
    rng = np.random.default_rng(1)
    values = {"x": nd.array(IMAGE), **{f"p{k}": nd.array(rng.uniform(0.5, 1, s)) for k, s in enumerate(shapes)}}
    both = []
    for name in (op, f"{op}_v1"):
        net = sym.load_json(old(X, *(var(f"p{k}") for k in range(count - 1)), of(name, count, param)))
        both.append(net.eval(**values)[0].asnumpy())
    np.testing.assert_array_equal(*both)


#: parameters -> what MXNet gives for a square of the numbers from -4 to 4
FIRST_POOLING = {
    "maxima take padding as zero": ({"kernel": "(2,2)", "stride": "(2,2)", "pad": "(1,1)"}, [[0, 0], [2, 4]]),
    "averages divide by the whole window": (
        {"kernel": "(2,2)", "stride": "(2,2)", "pool_type": "avg", "pooling_convention": "full"}, [[-2, -0.25], [1.25, 1]],
    ),
    "with padding, too": ({"kernel": "(2,2)", "stride": "(2,2)", "pad": "(1,1)", "pool_type": "avg"}, [[-1, -1.25], [0.25, 2]]),
    "everything": ({"kernel": "(1,1)", "global_pool": "True", "pool_type": "avg"}, [[0]]),
}  # fmt: skip


@pytest.mark.parametrize("name", FIRST_POOLING)
def test_first_version_of_pooling(name):
    param, expected = FIRST_POOLING[name]
    net = sym.load_json(old(X, of("Pooling_v1", 1, param)))
    (found,) = net.eval(x=nd.array(np.arange(9).reshape(1, 1, 3, 3) - 4))
    np.testing.assert_allclose(found.asnumpy()[0, 0], expected)


@pytest.mark.parametrize(
    ("op", "param", "shape"),
    [
        ("Pooling_v1", {"kernel": "(2,)"}, (1, 1, 4)),
        ("Convolution_v1", {"kernel": "(2,)", "num_filter": "1"}, (1, 1, 4)),
    ],
)
def test_first_versions_take_two_or_three_axes(op, param, shape):
    net = sym.load_json(
        old(*[X, W, B][: 3 if op == "Convolution_v1" else 1], of(op, 3 if op == "Convolution_v1" else 1, param))
    )
    with pytest.raises(MXNetError, match=f"Write {op[:-3]}"):
        net.infer_shape(x=shape)


VALUES = np.array([1.5, -2, 7], "<f4")
OLDEST = struct.pack("<III", 2, 3, 1) + struct.pack("<iii", 1, 0, 0) + VALUES.tobytes()
ROWS = (
    struct.pack("<Iiiqq", V2, 1, 2, 1, 3) + struct.pack("<iqq", 2, 4, 3) + struct.pack("<iii", 1, 0, 0)
    + struct.pack("<iiq", 6, 1, 1) + VALUES.tobytes() + struct.pack("<q", 2)
)  # fmt: skip
CSR = (  # MXNet announces no values, and writes three
    struct.pack("<Iiiq", V2, 2, 1, 0) + struct.pack("<iqq", 2, 3, 4) + struct.pack("<iii", 1, 0, 0)
    + struct.pack("<iiq", 6, 1, 4) + struct.pack("<iiq", 6, 1, 3)
    + VALUES.tobytes() + struct.pack("<4q", 0, 2, 2, 3) + struct.pack("<3q", 1, 3, 0)
)  # fmt: skip
NO_ROWS = (
    struct.pack("<Iiiqq", V2, 1, 2, 0, 3) + struct.pack("<iqq", 2, 4, 3) + struct.pack("<iii", 1, 0, 0)
    + struct.pack("<iiq", 6, 1, 0)
)  # fmt: skip

ARRAYS = {
    "0.x": (OLDEST, VALUES[:, None]),
    "0.x, int32": (struct.pack("<IIiii", 1, 2, 2, 3, 4) + struct.pack("<2i", 5, -6), np.array([5, -6], "int32")),
    "0.12": (array((3, 1), data=VALUES.tobytes(), magic=V1), VALUES[:, None]),
    "1.x": (array((3, 1), data=VALUES.tobytes()), VALUES[:, None]),
    "1.x on a GPU": (array((3,), data=VALUES.tobytes(), context=(2, 1)), VALUES),
    "row_sparse": (ROWS, np.array([[0, 0, 0]] * 2 + [[1.5, -2, 7]] + [[0, 0, 0]], "float32")),
    "row_sparse without rows": (NO_ROWS, np.zeros((4, 3), "float32")),
    "csr": (CSR, np.array([[0, 1.5, 0, -2], [0, 0, 0, 0], [7, 0, 0, 0]], "float32")),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays(name, tmp_path):
    data, expected = ARRAYS[name]
    found = nd.load_frombuffer(params([data, data], [b"a", b"b"]))
    assert list(found) == ["a", "b"]
    for value in found.values():
        assert (value.shape, value.dtype) == (expected.shape, expected.dtype)
        np.testing.assert_array_equal(value.asnumpy(), expected)
    nd.save(str(tmp_path / "now"), found)  # in today's format, dense
    now = params(
        [array(expected.shape, flag=0 if expected.dtype == np.float32 else 4, data=expected.tobytes())] * 2,
        [b"a", b"b"],
    )
    assert (tmp_path / "now").read_bytes() == now
