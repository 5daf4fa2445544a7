# SPDX-License-Identifier: Apache-2.0
"""Files of arrays and graphs: the same bytes after reading and writing; hostile ones end in an MXNetError.

What a reader may do with a file it did not write: return arrays no larger than the file, or raise
MXNetError with the offset (.params) or the node (.json). Never crash, run code, or ask for memory
that a number in the file wants.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import warnings
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from malformed_files import LIST, V1, V2, V3, array, bounded, graph, mutate_bytes, mutate_json, params

import hybridgpu as mx
from hybridgpu.base import MXNetError

nd, sym = mx.nd, mx.sym
GOLDEN = Path(__file__).parents[1] / "against_mxnet" / "golden" / "models"
MODELS = sorted(p.name for p in GOLDEN.iterdir())


# -- the same bytes


@pytest.mark.parametrize("name", MODELS)
def test_params_of_mxnet_are_byte_identical(name, tmp_path):
    file = GOLDEN / name / "net-0000.params"
    nd.save(str(tmp_path / "p"), nd.load(str(file)))
    assert (tmp_path / "p").read_bytes() == file.read_bytes()


#: nd.save('d.bin', {'w': [[1,2,3],[4,5,6]] float32, 'b': [7] float16}) of MXNet
WALK = bytes.fromhex(
    "1201000000000000 0000000000000000 0200000000000000 c9fa93f9 00000000 02000000 0200000000000000 0300000000000000"
    "01000000 00000000 00000000 0000803f 00000040 00004040 00008040 0000a040 0000c040"
    "c9fa93f9 00000000 01000000 0100000000000000 01000000 00000000 02000000 0047"
    "0200000000000000 0100000000000000 77 0100000000000000 62"
)


def test_the_layout_byte_by_byte(tmp_path):
    file = tmp_path / "d.bin"
    nd.save(str(file), {"w": nd.array([[1, 2, 3], [4, 5, 6]]), "b": nd.array([7], dtype="float16")})
    assert file.read_bytes() == WALK
    loaded = nd.load_frombuffer(WALK)
    assert list(loaded) == ["w", "b"] and loaded["b"].dtype is np.float16


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_arrays_survive(data):
    kinds = st.sampled_from(["float16", "bfloat16", "float32", "float64", "uint8", "int8", "int32", "int64", "bool"])
    shapes = st.lists(st.integers(1, 4), min_size=1, max_size=4)
    arrays = [
        nd.array(np.random.default_rng(k).integers(0, 100, shape), dtype=kind)
        for k, (kind, shape) in enumerate(data.draw(st.lists(st.tuples(kinds, shapes), max_size=4)))
    ]
    names = data.draw(
        st.none() | st.lists(st.text(max_size=6), min_size=len(arrays), max_size=len(arrays), unique=True)
    )
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "p")
        nd.save(file, arrays if names is None else dict(zip(names, arrays, strict=True)))
        loaded = nd.load(file)
        first = Path(file).read_bytes()
        nd.save(file, loaded)
        assert Path(file).read_bytes() == first
    values = list(loaded.values()) if isinstance(loaded, dict) else loaded
    for a, b in zip(arrays, values, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_array_equal(a.asnumpy(), b.asnumpy())


SAVED = [
    (lambda: nd.ones(2), list, 1),
    (lambda: [nd.ones(2), nd.ones(3)], list, 2),
    (lambda: {"a": nd.ones(2)}, dict, 1),
    (lambda: [], list, 0),
    (lambda: {}, list, 0),
]


@pytest.mark.parametrize(("make", "kind", "count"), SAVED, ids=range(len(SAVED)))
def test_what_save_takes(make, kind, count, tmp_path):
    nd.save(str(tmp_path / "p"), make())
    loaded = nd.load(str(tmp_path / "p"))
    assert type(loaded) is kind and len(loaded) == count


SAVE_ERRORS = [
    ((nd.ones(2),), ValueError, "data needs to either be a NDArray, dict of str, NDArray pairs or a list of NDarrays."),
    (3, ValueError, "data needs to either be a NDArray, dict of str, NDArray pairs or a list of NDarrays."),
    ([3], TypeError, "save only accept dict str->NDArray or list of NDArray"),
    ({1: nd.ones(2)}, TypeError, "save only accept dict str->NDArray or list of NDArray"),
]


@pytest.mark.parametrize(("data", "error", "text"), SAVE_ERRORS, ids=["tuple", "number", "list", "keys"])
def test_what_save_refuses(data, error, text, tmp_path):
    (tmp_path / "p").write_bytes(b"old")
    with pytest.raises(error) as caught:
        nd.save(str(tmp_path / "p"), data)
    assert str(caught.value) == text and (tmp_path / "p").read_bytes() == b"old"


def test_missing_files():
    with pytest.raises(MXNetError, match='Open "nope.params": No such file or directory'):
        nd.load("nope.params")


def test_older_versions_and_sparse_arrays_read():
    values = np.array([1.5, -2], "<f4").tobytes()
    assert nd.load_frombuffer(params([array((2,), data=values, magic=V1)]))[0].asnumpy().tolist() == [1.5, -2]
    oldest = struct.pack("<II", 1, 2) + struct.pack("<iii", 1, 0, 0) + values
    assert nd.load_frombuffer(params([oldest]))[0].asnumpy().tolist() == [1.5, -2]
    scalar = params([array((), data=values[:4], magic=V3)])
    with pytest.raises(MXNetError, match="saved in np shape semantics"):
        nd.load_frombuffer(scalar)
    with mx.np_shape(True):
        assert nd.load_frombuffer(scalar)[0].shape == ()
    rows = struct.pack("<Iiiqqiqqiiiiiq", V2, 1, 2, 1, 2, 2, 3, 2, 1, 0, 0, 6, 1, 1) + values + struct.pack("<q", 2)
    assert nd.load_frombuffer(params([rows]))[0].asnumpy().tolist() == [[0, 0], [0, 0], [1.5, -2]]


# -- hostile .params

GOOD = params([array((2, 3)), array((4,), flag=2)], [b"w", b"b"])
HOSTILE = {
    "empty": b"",
    "seven bytes": GOOD[:7],
    "magic": params([array()], magic=0x113),
    "a billion arrays": params([array()], count=10**9),
    "2**63 arrays": params([array()], count=2**63),
    "huge shape": params([array((2**40, 2**20))]),
    "overflowing shape": params([array((2**32, 2**32, 2**32))]),
    "huge with zero": params([array((2**62, 0, 2**62))]),
    "negative extent": params([array((-5,))]),
    "2**31 dimensions": params([array((2,), ndim=2**31 - 1)]),
    "-7 dimensions": params([array((2,), ndim=-7)]),
    "oldest form with 2**31 dimensions": params([struct.pack("<I", 2**31) + bytes(64)]),
    "unknown type": params([array(flag=99)]),
    "unknown storage": params([array(stype=7)]),
    "no names that were announced": params([array()], named=1),
    "a name of 2**62 bytes": params([array()], named=1) + struct.pack("<Q", 2**62) + b"x",
    "2**60 names": params([array()], named=2**60),
    "names that are no UTF-8": params([array()], [b"\xff\xfe"]),
    "names twice": params([array(), array()], [b"a", b"a"]),
    "data cut short": GOOD[: len(GOOD) // 2],
    "sparse bomb": params(
        [struct.pack("<Iiiqqiqqiiiiiq", V2, 1, 2, 0, 2**20, 2, 2**20, 2**20, 1, 0, 0, 6, 1, 0)]
    ),
    "sparse indices": params(
        [struct.pack("<Iiiqqiqqiiiiiq", V2, 1, 2, 1, 2, 2, 3, 2, 1, 0, 0, 6, 1, 1) + bytes(8) + struct.pack("<q", 2**40)]
    ),
    "sparse bombs": params(
        [struct.pack("<Iiiqqiqqiiiiiq", V2, 1, 2, 0, 2**9, 2, 2**11, 2**9, 1, 0, 0, 6, 1, 0)] * 40
    ),
    "rows twice in csr": params(
        [struct.pack("<IiiqiqqiiiiiqiiqQqqqq", V2, 2, 1, 0, 2, 2, 2, 1, 0, 0, 6, 1, 3, 6, 1, 1, 0, 0, 2**40, 1, 0)]
    ),
    "negative row": params(
        [struct.pack("<Iiiqqiqqiiiiiq", V2, 1, 2, 1, 2, 2, 3, 2, 1, 0, 0, 6, 1, 1) + bytes(8) + struct.pack("<q", -1)]
    ),
    "sparse array of huge extents without elements": params(
        [struct.pack("<Iiiqqiqqiiiiiq", V2, 1, 2, 0, 0, 2, 2**62, 0, 1, 0, 0, 6, 1, 0)]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_params(name, tmp_path):
    data = HOSTILE[name]
    (tmp_path / "p").write_bytes(data)
    for load in (lambda: nd.load_frombuffer(data), lambda: nd.load(str(tmp_path / "p"))):
        with pytest.raises(MXNetError) as caught:
            bounded(load, len(data))
        text = str(caught.value)
        assert "Invalid NDArray file format" in text
        assert "at offset " in text or "0x112" in text


def test_every_cut_of_a_file():
    for end in range(len(WALK)):
        with pytest.raises(MXNetError, match="Invalid NDArray file format"):
            nd.load_frombuffer(WALK[:end])


def test_mutated_params(pytestconfig):
    seeds = [
        WALK,
        GOOD,
        params([array((2,), magic=V1), array((), magic=V3), array((1, 1, 1), flag=6)], [b"a", b"b", b"c"]),
    ]
    loaded = 0
    for k in range(pytestconfig.getoption("--fuzz")):
        rng = Random(k)
        data = mutate_bytes(rng.choice(seeds), rng)
        try:
            found = bounded(lambda data=data: nd.load_frombuffer(data), len(data))
        except MXNetError as e:
            assert "offset" in str(e) or "0x112" in str(e), f"mutation {k}: {e}"
            continue
        loaded += 1
        arrays = found.values() if isinstance(found, dict) else found
        assert sum(a.asnumpy().nbytes for a in arrays) <= 64 * max(len(data), 1 << 16), f"mutation {k}"
    assert loaded, "the mutations are so wild that nothing was read"


# -- hostile graphs

X = ("null", "x", [], None)
GRAPHS = {
    "no JSON": ("nope", "no JSON"),
    "cut": (graph([X])[:-5], "no JSON"),
    "a list": ("[]", "no list 'nodes'"),
    "no nodes": ('{"heads": [[0,0,0]]}', "no list 'nodes'"),
    "no heads": (graph([X], heads=[]), "no heads"),
    "deep": ("[" * 200_000 + "]" * 200_000, ""),
    "deep objects": ('{"nodes":' * 50_000 + "1" + "}" * 50_000, ""),
    "a cycle": (graph([("relu", "a", [[1, 0, 0]], None), ("relu", "b", [[0, 0, 0]], None)]), "input 0 of node 0 ('a', operator relu) points to node 1"),
    "itself": (graph([("relu", "a", [[0, 0, 0]], None)]), "points to node 0, which does not come before it"),
    "far away": (graph([X, ("relu", "a", [[10**12, 0, 0]], None)]), "points to node 1000000000000"),
    "negative": (graph([X, ("relu", "a", [[-1, 0, 0]], None)]), "points to node -1"),
    "no such output": (graph([X, ("relu", "a", [[0, 5, 0]], None)]), "points to output 5 of 'x', which has 1"),
    "head far away": (graph([X], heads=[[3, 0, 0]]), "head 0 points to node 3"),
    "unknown operator": (graph([X, ("Nope", "a", [[0, 0, 0]], None)]), "node 1 ('a', operator Nope): Operator Nope is not registered"),
    "wrong attribute": (graph([X, ("FullyConnected", "a", [[0, 0, 0]] * 3, {"num_hidden": "zz"})]), "node 1 ('a', operator FullyConnected)"),
    "missing attribute": (graph([X, ("FullyConnected", "a", [[0, 0, 0]] * 3, None)]), "Required parameter num_hidden"),
    "too many inputs": (graph([X, ("relu", "a", [[0, 0, 0]] * 3, None)]), "Operator relu expects 1 inputs, but got 3 instead."),
    "too few inputs": (graph([X, ("dot", "a", [[0, 0, 0]], None)], attrs={"mxnet_version": ["int", 10901]}), "Operator dot expects 2 inputs, but got 1 instead."),
    "inputs of a variable": (graph([X, ("null", "a", [[0, 0, 0]], None)]), "node 1"),
    "attributes that are no texts": (graph([X, ("relu", "a", [[0, 0, 0]], {"k": 3})]), "attrs is no table of texts"),
    "a name that is a number": ('{"nodes": [{"op": "null", "name": 3, "inputs": []}], "heads": [[0,0,0]]}', "node 0 has no operator or no name"),
    "inputs that are floats": (graph([X, ("relu", "a", [[0.0, 0, 0]], None)]), "is no [node, output, version]"),
    "2**40 outputs": (graph([X, ("SliceChannel", "a", [[0, 0, 0]], {"num_outputs": str(2**40)})]), "num_outputs"),
    "code in an attribute": (graph([X, ("Reshape", "a", [[0, 0, 0]], {"shape": "__import__('os').abort()"})]), "node 1"),
    "deep attribute": (graph([X, ("Reshape", "a", [[0, 0, 0]], {"shape": "(" * 100_000})]), "node 1"),
    "power in an attribute": (graph([X, ("Reshape", "a", [[0, 0, 0]], {"shape": "(9**9**9**9,)"})]), "node 1"),
    "text that cannot be written": (graph([("null", "\ud800", [], None)]), "node 0"),
}  # fmt: skip


@pytest.mark.parametrize("name", GRAPHS)
def test_hostile_graphs(name, tmp_path):
    text, expected = GRAPHS[name]
    (tmp_path / "g.json").write_text(text)
    for load in (lambda: sym.load_json(text), lambda: sym.load(str(tmp_path / "g.json"))):
        with pytest.raises(MXNetError) as caught:
            bounded(load, len(text))
        assert expected in str(caught.value)
        assert len(str(caught.value)) < 2000, "an error is no copy of the file"
    assert "g.json" in str(caught.value)


def test_a_binary_file_is_no_graph(tmp_path):
    (tmp_path / "g.json").write_bytes(b"\xff\xfe\x00" * 100)
    with pytest.raises(MXNetError, match=r"g\.json"):
        sym.load(str(tmp_path / "g.json"))


def test_a_long_chain_is_fine():
    nodes = [X] + [("relu", f"r{k}", [[k, 0, 0]], None) for k in range(20_000)]
    out = sym.load_json(graph(nodes))
    assert out.infer_shape(x=(2,))[1] == [(2,)] and len(out.get_internals()) == 20_001


def use(symbol):
    """What programs do with a graph they read."""
    symbol.tojson().encode()
    symbol.list_arguments(), symbol.list_outputs(), symbol.list_auxiliary_states(), symbol.get_internals()
    symbol.attr_dict(), repr(symbol)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        symbol.infer_shape_partial(**dict.fromkeys(symbol.list_arguments()[:1], (2, 3)))
        symbol.infer_type_partial()


def test_mutated_graphs(pytestconfig):
    seeds = [json.loads((GOLDEN / m / "net-symbol.json").read_text()) for m in MODELS]
    loaded = 0
    for k in range(pytestconfig.getoption("--fuzz")):
        rng = Random(k)
        value = rng.choice(seeds)
        for _ in range(rng.randint(1, 3)):
            value = mutate_json(value, rng)
        text = json.dumps(value)
        if k % 4 == 0:
            text = mutate_bytes(text.encode(), rng).decode("utf-8", "surrogateescape")
        measured = bounded if k % 8 == 1 else lambda function, size: function()  # measuring takes five times as long
        try:
            symbol = measured(lambda text=text: sym.load_json(text), len(text))
        except MXNetError:
            continue
        loaded += 1
        try:
            measured(lambda symbol=symbol: use(symbol), len(text))
        except MXNetError:
            continue
        except Exception as e:
            raise AssertionError(f"mutation {k}: {type(e).__name__}: {e}") from e
    assert loaded


LIMITED = """
import resource, sys
import hybridgpu as mx
from hybridgpu.base import MXNetError
sys.path.insert(0, sys.argv[1])
import numpy as np
now = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + (64 << 20),) * 2)
from test_files import GRAPHS, HOSTILE
refused = 0
for data in HOSTILE.values():
    try:
        mx.nd.load_frombuffer(data)
    except MXNetError:
        refused += 1
for text, _ in GRAPHS.values():
    try:
        mx.sym.load_json(text)
    except MXNetError:
        refused += 1
assert refused == len(HOSTILE) + len(GRAPHS), refused
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits of the address space are Linux's")
def test_hostile_files_within_a_limited_address_space():
    here = Path(__file__).parent
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(here), *filter(None, sys.path)])}
    out = subprocess.run(
        [sys.executable, "-c", LIMITED, str(here)], capture_output=True, text=True, env=env, check=False, timeout=120
    )
    assert out.returncode == 0, out.stderr[-2000:]


assert LIST == 0x112
