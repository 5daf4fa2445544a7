# SPDX-License-Identifier: Apache-2.0
"""Graph files with operators that MXNet has in Python: ``Custom`` nodes there, operators here, and the same text again."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as onp
import pytest

import hybridgpu as mx

MXNET = os.environ.get("HYBRIDGPU_MXNET_PYTHON")
AGENT = Path(__file__).parent / "python_operators.py"
INPUTS = {
    "x": onp.array([[1.0, 2.0], [5.0, 3.0]], "float32"),
    "c": onp.array([[2.0, 0.5], [0.5, 1.0]], "float32"),
    "n": onp.array([[1, 2], [5, 3]], "int32"),
}

#: function of Symbols -> the node that MXNet writes, the operator here, and its value for ``INPUTS`` (None: any)
ROWS = {
    "np.random.multivariate_normal(x, c, size=3)": ({"size": "3"}, "mvn", "_npi_multivariate_normal", (3, 2, 2)),
    "np.random.multivariate_normal(x, c)": ({"size": "None"}, "mvn", "_npi_multivariate_normal", (2, 2)),
    "np.random.multivariate_normal(x, c, size=(2, 3))": (
        {"size": "(2, 3)"},
        "mvn",
        "_npi_multivariate_normal",
        (2, 3, 2, 2),
    ),
    "np.resize(x, (3, 2))": ({"new_shape": "(3, 2)"}, "resize", "_npi_resize", [[1, 2], [5, 3], [1, 2]]),
    "np.resize(x, 3)": ({"new_shape": "3"}, "resize", "_npi_resize", [1, 2, 5]),
    "np.unravel_index(n, (2, 4))": (
        {"shape": "(2, 4)"},
        "unravel_index",
        "_npi_unravel_index",
        [[[0, 0], [1, 0]], [[1, 2], [1, 3]]],
    ),
    "np.unravel_index(n, 8)": ({"shape": "8"}, "unravel_index", "_npi_unravel_index", [[[1, 2], [5, 3]]]),
    "np.empty_like(x)": (
        {"dtype": "None", "order": "C", "shape": "None", "subok": "False"},
        "empty_like",
        "_npi_empty_like",
        (2, 2),
    ),
    "np.empty_like(x, dtype='int32')": (
        {"dtype": "int32", "order": "C", "shape": "None", "subok": "False"},
        "empty_like",
        "_npi_empty_like",
        (2, 2),
    ),
}
#: what has another type than float32
TYPES = {call: "int32" for call in ROWS if "int32" in call or "unravel" in call}


@pytest.fixture(autouse=True)
def _numpy_semantics():
    mx.npx.set_np()
    yield
    mx.npx.reset_np()


def symbol(call):
    with mx.name.NameManager():
        return eval(call, {"np": mx.sym.np, **{name: mx.sym.var(name).as_np_ndarray() for name in INPUTS}})


def check(got, wanted, call):
    assert str(got.dtype) == TYPES.get(call, "float32")
    if isinstance(wanted, tuple):
        assert got.shape == wanted
    else:
        assert got.tolist() == wanted


@pytest.mark.parametrize("call", ROWS)
def test_written_as_custom_node_and_read_as_the_operator(call, tmp_path):
    attributes, kind, operator, wanted = ROWS[call]
    text = symbol(call).tojson()
    node = json.loads(text)["nodes"][-1]
    assert (node["op"], node["name"]) == ("Custom", "custom0")
    assert node["attrs"] == {**attributes, "op_type": f"{kind}_fallback"}
    again = mx.sym.load_json(text)
    assert again.tojson() == text
    assert again._heads[0][0].op.name == operator

    file = tmp_path / "net-symbol.json"
    file.write_text(text)
    names = again.list_arguments()
    net = mx.gluon.SymbolBlock.imports(str(file), names, ctx=mx.cpu())
    net.hybridize()
    check(net(*(mx.np.array(INPUTS[n], dtype=INPUTS[n].dtype) for n in names)).asnumpy(), wanted, call)


def test_a_custom_operator_of_the_program_keeps_its_name():
    with pytest.raises(mx.MXNetError, match="Cannot find custom operator other_fallback"):
        mx.sym.load_json(symbol("np.resize(x, 3)").tojson().replace("resize_fallback", "other_fallback"))


@pytest.mark.skipif(not MXNET, reason="HYBRIDGPU_MXNET_PYTHON names no Python with MXNet 1.9.1")
def test_both_ways_with_mxnet(tmp_path):
    """MXNet writes the same files, computes the same from ours, and writes ours again."""
    for k, call in enumerate(ROWS):
        symbol(call).save(str(tmp_path / f"{k}.json"))
    (tmp_path / "calls.json").write_text(json.dumps(list(ROWS)))
    onp.savez(tmp_path / "inputs.npz", **INPUTS)
    run = subprocess.run([MXNET, str(AGENT), str(tmp_path)], capture_output=True, text=True, check=False, timeout=300)
    assert run.returncode == 0, run.stderr[-4000:]
    for k, call in enumerate(ROWS):
        ours = (tmp_path / f"{k}.json").read_bytes()
        assert (tmp_path / f"{k}-theirs.json").read_bytes() == ours
        assert (tmp_path / f"{k}-again.json").read_bytes() == ours
        check(onp.load(tmp_path / f"{k}.npy"), ROWS[call][3], call)
