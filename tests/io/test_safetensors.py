# SPDX-License-Identifier: Apache-2.0
"""Safetensors: the layout byte by byte, what comes back, and files that lie."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from malformed_files import bounded, mutate_bytes, mutate_json

import hybridgpu as mx
from hybridgpu import gluon, nd
from hybridgpu.base import MXNetError


def file(header, data=b"", length=None):
    """The bytes of a file; the header is JSON's value or text."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def row(dtype="F32", shape=(2,), begin=0, end=8):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


def load(tmp_path, data):
    (tmp_path / "f.safetensors").write_bytes(data)
    return nd.load(str(tmp_path / "f.safetensors"))


def test_the_layout_byte_by_byte(tmp_path):
    name = str(tmp_path / "a.safetensors")
    nd.save(name, {"b": nd.array([1], dtype="int8"), "w": nd.array([[1, -2]], dtype="float32")})
    data = (tmp_path / "a.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    assert length % 8 == 0
    assert json.loads(data[8 : 8 + length]) == {
        "b": {"dtype": "I8", "shape": [1], "data_offsets": [8, 9]},
        "w": {"dtype": "F32", "shape": [1, 2], "data_offsets": [0, 8]},  # wide elements first: aligned
    }
    assert data[8 + length :] == np.array([1, -2], "<f4").tobytes() + b"\1"
    assert list(nd.load(name)) == ["b", "w"]


#: written by the reference implementation of the format, 0.8: float32 (2, 3), int64 scalar, bool, float16 (0, 3)
REFERENCE = file(
    b'{"__metadata__":{"format":"pt"},"a":{"dtype":"I64","shape":[],"data_offsets":[0,8]},"z":{"dtype":"F32",'
    b'"shape":[2,3],"data_offsets":[8,32]},"h":{"dtype":"F16","shape":[0,3],"data_offsets":[32,32]},"q":{"dtype":'
    b'"BOOL","shape":[2],"data_offsets":[32,34]}}',
    struct.pack("<q6f2?", 3, *range(6), True, False),
)


def test_a_file_of_another_writer(tmp_path):
    found = load(tmp_path, REFERENCE)
    assert {n: (a.shape, np.dtype(a.dtype).name, a.asnumpy().tolist()) for n, a in found.items()} == {
        "a": ((), "int64", 3),
        "z": ((2, 3), "float32", [[0, 1, 2], [3, 4, 5]]),
        "h": ((0, 3), "float16", []),
        "q": ((2,), "bool", [True, False]),
    }


def test_bfloat16_is_read_bit_by_bit(tmp_path):
    bits = np.array([0x3F80, 0xC000, 0x7F80, 0x0001], "<u2")
    (found,) = load(tmp_path, file({"x": row("BF16", (4,))}, bits.tobytes())).values()
    assert np.dtype(found.dtype).name == "bfloat16"
    np.testing.assert_array_equal(found.asnumpy().view(np.uint16), bits)
    assert found.astype("float32").asnumpy().tolist() == [1, -2, np.inf, 2.0**-133]


KINDS = ["float16", "bfloat16", "float32", "float64", "uint8", "int8", "int32", "int64", "bool"]


@settings(max_examples=40, deadline=None)
@given(
    st.dictionaries(
        st.text(max_size=6).filter(lambda n: n.isprintable() or n == ""),
        st.tuples(st.sampled_from(KINDS), st.lists(st.integers(1, 4), max_size=4)),
        max_size=5,
    )
)
def test_any_arrays_survive(kinds):
    import tempfile

    rng = np.random.default_rng(len(kinds))
    arrays = {n: nd.array(rng.integers(0, 100, shape), dtype=kind) for n, (kind, shape) in kinds.items()}
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "x.SafeTensors")
        nd.save(path, arrays)
        found = nd.load(path)
    assert list(found) == list(arrays)
    for name, a in arrays.items():
        assert (found[name].shape, found[name].dtype) == (a.shape, a.dtype)
        np.testing.assert_array_equal(found[name].asnumpy(), a.asnumpy())


def test_parameters_of_a_net(tmp_path):
    def build():
        net = gluon.nn.HybridSequential()
        net.add(gluon.nn.Dense(3, in_units=2), gluon.nn.BatchNorm(in_channels=3))
        return net

    net, again = build(), build()
    net.initialize(mx.init.Normal(1))
    net.save_parameters(str(tmp_path / "net.safetensors"))
    assert sorted(nd.load(str(tmp_path / "net.safetensors"))) == [
        "0.bias", "0.weight", "1.beta", "1.gamma", "1.running_mean", "1.running_var",
    ]  # fmt: skip
    again.load_parameters(str(tmp_path / "net.safetensors"))
    x = nd.ones((4, 2))
    np.testing.assert_array_equal(net(x).asnumpy(), again(x).asnumpy())


def nets():
    for _ in range(2):
        net = gluon.nn.HybridSequential(prefix="net_")
        with net.name_scope():
            net.add(gluon.nn.Dense(3, in_units=2), gluon.nn.Dense(1, in_units=3))
        net.initialize(mx.init.Normal(1))
        yield net


def test_parameters_under_full_names(tmp_path):
    net, again = nets()
    file = str(tmp_path / "net.safetensors")
    net.collect_params().save(file)
    assert sorted(nd.load(file)) == ["net_dense0_bias", "net_dense0_weight", "net_dense1_bias", "net_dense1_weight"]
    again.collect_params().load(file)
    np.testing.assert_array_equal(net(nd.ones((1, 2))).asnumpy(), again(nd.ones((1, 2))).asnumpy())
    net.collect_params().save(file, strip_prefix="net_")
    assert sorted(nd.load(file)) == ["dense0_bias", "dense0_weight", "dense1_bias", "dense1_weight"]
    again.initialize(mx.init.Zero(), force_reinit=True)
    again.collect_params().load(file, restore_prefix="net_")
    np.testing.assert_array_equal(net(nd.ones((1, 2))).asnumpy(), again(nd.ones((1, 2))).asnumpy())


def test_an_exported_model(tmp_path):
    net, _ = nets()
    net.hybridize()
    expected = net(nd.ones((1, 2))).asnumpy()
    net.export(str(tmp_path / "m"))
    nd.save(str(tmp_path / "m.safetensors"), nd.load(str(tmp_path / "m-0000.params")))
    block = gluon.SymbolBlock.imports(str(tmp_path / "m-symbol.json"), ["data"], str(tmp_path / "m.safetensors"))
    np.testing.assert_array_equal(block(nd.ones((1, 2))).asnumpy(), expected)


def test_parameters_that_do_not_fit(tmp_path):
    net, _ = nets()
    file = str(tmp_path / "x.safetensors")
    nd.save(file, {"0.weight": nd.ones((3, 2))})
    with pytest.raises(AssertionError, match=r"Parameter '0\.bias' is missing in file .*x\.safetensors"):
        net.load_parameters(file)
    net.load_parameters(file, allow_missing=True)
    nd.save(file, {"dense0_weight": nd.ones((3, 2))})
    with pytest.raises(AssertionError, match="Parameter 'dense0_bias' is missing"):
        net.load_parameters(file)
    nd.save(file, {"0.weight": nd.ones((3, 2), dtype="float16")})
    with pytest.raises(AssertionError, match="Set cast_dtype=True"):
        net.load_parameters(file, allow_missing=True)
    net.load_parameters(file, allow_missing=True, cast_dtype=True)
    assert net[0].weight.data().dtype is np.float32


def test_metadata_is_skipped(tmp_path):
    header = {"__metadata__": {"format": "pt", "note": "ü"}, "x": row()}
    assert list(load(tmp_path, file(header, bytes(8)))) == ["x"]
    assert load(tmp_path, file({"__metadata__": {}})) == {}


@pytest.mark.parametrize("data", [nd.ones(2), [nd.ones(2)]], ids=["array", "list"])
def test_arrays_need_names(data, tmp_path):
    with pytest.raises(ValueError, match="holds arrays with names\nPass a dict"):
        nd.save(str(tmp_path / "x.safetensors"), data)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["__metadata__", "\ud800"])
def test_names_that_cannot_be_written(name, tmp_path):
    with pytest.raises(MXNetError, match="Give it another name"):
        nd.save(str(tmp_path / "x.safetensors"), {name: nd.ones(2)})
    assert not list(tmp_path.iterdir())


EIGHT = bytes(8)
HOSTILE = {
    "empty": (b"", "it has 0 bytes"),
    "seven bytes": (bytes(7), "it has 7 bytes"),
    "a header of 2**62 bytes": (file({}, length=2**62), "a header of 4611686018427387904 bytes, but 2 are left"),
    "a header behind the end": (file({}, length=3), "a header of 3 bytes, but 2 are left"),
    "no JSON": (file(b"{nope}"), "the header is no JSON"),
    "no UTF-8": (file(b'{"\xff": 1}'), "the header is no JSON"),
    "a list": (file([]), "does not start with '{'"),
    "spaces first": (file(b"  {}"), "does not start with '{'"),
    "deep": (file(b'{"a":' + b"[" * 200_000 + b"]" * 200_000 + b"}"), "nested too deeply"),
    "a name twice": (file(b'{"a": 1, "a": 2}'), "'a' is there twice"),
    "a long number": (file(b'{"a": ' + b"9" * 10_000 + b"}"), "the header is no JSON"),
    "no table": (file({"a": 3}), "array 'a': it must have dtype, shape and data_offsets"),
    "another field": (file({"a": {**row(), "x": 1}}, EIGHT), "array 'a': it must have"),
    "unknown type": (file({"a": row("F4")}, EIGHT), "array 'a': unknown element type 'F4'"),
    "a type that is a list": (file({"a": row(["F32"])}, EIGHT), "unknown element type"),
    "a negative extent": (file({"a": row(shape=(-2,))}, EIGHT), "array 'a': its shape must be a list"),
    "an extent that is true": (file({"a": row(shape=(True, 2))}, EIGHT), "its shape must be"),
    "an extent with a point": (file({"a": row(shape=(2.0,))}, EIGHT), "its shape must be"),
    "100 dimensions": (file({"a": row(shape=(1,) * 100)}, EIGHT), "at most 32"),
    "a huge extent": (file({"a": row(shape=(2**62,))}, EIGHT), "an extent of its shape is too large"),
    "overflow to the right size": (file({"a": row(shape=(2**32, 2**32, 2))}, EIGHT), "too large"),
    "huge without elements": (file({"a": row(shape=(2**62, 0), end=0)}), "too large"),
    "more elements than bytes": (file({"a": row(shape=(2**20,))}, EIGHT), "takes 4194304 bytes, but data_offsets hold 8"),
    "fewer elements than bytes": (file({"a": row(shape=(1,))}, EIGHT), "takes 4 bytes"),
    "one offset": (file({"a": {**row(), "data_offsets": [0]}}, EIGHT), "data_offsets must be two numbers"),
    "negative offset": (file({"a": row(begin=-8, end=0)}, EIGHT), "data_offsets must be two numbers"),
    "offsets backwards": (file({"a": row(begin=8, end=0)}, EIGHT), "lie outside of the 8 bytes"),
    "offsets behind the end": (file({"a": row(begin=8, end=16)}, EIGHT), "array 'a': data_offsets [8, 16] lie outside"),
    "overlap": (file({"a": row(), "b": row(begin=4, end=12)}, bytes(12)), "array 'b': data_offsets [4, 12] overlaps 'a'"),
    "the same bytes twice": (file({"a": row(), "b": row()}, EIGHT), "overlaps"),
    "a gap": (file({"a": row(), "b": row(begin=12, end=20)}, bytes(20)), "array 'b': data_offsets [12, 20] leaves a gap of 4"),
    "bytes that belong to none": (file({"a": row()}, bytes(9)), "1 bytes behind the last array"),
    "cut short": (file({"a": row()}, bytes(7)), "lie outside of the 7 bytes"),
    "metadata that is no text": (file({"__metadata__": {"a": 1}}), "__metadata__ is no table of texts"),
    "a name that is no text": (file(b'{"\\ud800": 3}'), "cannot be written as UTF-8"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_malformed_files(name, tmp_path):
    data, expected = HOSTILE[name]
    path = tmp_path / "f.safetensors"
    path.write_bytes(data)
    with pytest.raises(MXNetError) as caught:
        bounded(lambda: nd.load(str(path)), len(data))
    text = str(caught.value)
    assert "Invalid safetensors file" in text and "f.safetensors" in text and expected in text
    assert len(text) < 1000, "an error is no copy of the file"


def test_missing_files():
    with pytest.raises(MXNetError, match=r'Open "nope\.safetensors": No such file'):
        nd.load("nope.safetensors")


def test_every_cut_of_a_file(tmp_path):
    for end in range(len(REFERENCE)):
        with pytest.raises(MXNetError, match="Invalid safetensors file"):
            load(tmp_path, REFERENCE[:end])


def test_mutated_files(tmp_path, pytestconfig):
    (length,) = struct.unpack("<Q", REFERENCE[:8])
    header, elements = json.loads(REFERENCE[8 : 8 + length]), REFERENCE[8 + length :]
    loaded = refused = 0
    for k in range(pytestconfig.getoption("--fuzz")):
        rng = Random(k)
        data = file(mutate_json(header, rng), elements) if k % 2 else mutate_bytes(REFERENCE, rng)
        try:
            found = bounded(lambda data=data: load(tmp_path, data), len(data))
        except MXNetError as e:
            assert "Invalid safetensors file" in str(e), f"mutation {k}: {e}"
            refused += 1
            continue
        loaded += 1
        assert sum(a.asnumpy().nbytes for a in found.values()) <= 2 * len(data), f"mutation {k}"
    assert loaded and refused
