# SPDX-License-Identifier: Apache-2.0
"""Texts of attributes, for every attribute of every operator: taken or refused, and in which words, as by the real MXNet.

``tests/against_mxnet/recorded/attributes.json`` has MXNet's answers; ``record_attributes.py`` beside it writes them.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from hybridgpu import nd, sym
from hybridgpu.base import MXNetError
from hybridgpu.ops import OPERATORS
from hybridgpu.ops.functions import names_in, registered
from hybridgpu.ops.params import Double, Dtype, Enum, Float, Floats, Position, Shape, Unsigned, UnsignedLong

RECORDED = json.loads((Path(__file__).parents[1] / "against_mxnet" / "recorded" / "attributes.json").read_text())
TEXTS = RECORDED["texts"]
VERDICTS = {key: letters for letters, keys in RECORDED["verdicts"].items() for key in keys}
SIGNS = {
    "f": "Invalid Parameter format for ",
    "b": "for Parameter ",
    "r": "Out of range value for ",
    "t": "Some trailing characters could not be parsed: ",
    "i": "Invalid Input: ",
}
FIRST = {"int": "3", "int (non-negative)": "1", "long": "1", "Shape(tuple)": "(1,)", "float": "1", "double": "1"}

#: what MXNet takes for a slip of its reader: blanks alone are 0, huge integers wrap around, so do negative ones without a sign
EMPTY_FLOAT = {"  ", "18446744073709551616"}
WRAPPED = {"-1", "-2147483648", "-2147483649"}
WIDE = {"2147483648", "-2147483649", "4294967296", "1099511627776", "9223372036854775807", "(2147483648,1)"}


#: read by another type than MXNet says
UNLIKE_THEIR_TYPE = {"_linspace.stop", "smooth_l1.scalar", "Reshape.shape", "slice.step"}


def kind_of(text: str) -> str:
    """MXNet's word for a type, without what follows about the default."""
    return text.partition("}")[0] + "}" if text.startswith("{") else text.split(", optional")[0].split(", required")[0]


def required(types: dict[str, str]) -> dict[str, str]:
    """Texts for the attributes without a default."""
    found = {}
    for name, text in types.items():
        if text.endswith("required"):
            kind = kind_of(text)
            found[name] = kind[1:].split(",")[0].strip("}' ") if kind[0] == "{" else FIRST.get(kind, "(1,)")
    return found


def is_ours(param, text: str) -> bool:
    """Whether we read this text otherwise on purpose."""
    if isinstance(param, (Float, Double)):
        return text in EMPTY_FLOAT and not param.optional and param.default is not None
    if isinstance(param, (Unsigned, UnsignedLong)):
        return text in WRAPPED
    if isinstance(param, (Shape, Floats)) and text.strip() == "None":
        return (
            param.default is not None and not param.optional
        )  # a tuple of no known length, which operators stumble over
    return (isinstance(param, Position) or (isinstance(param, Shape) and param.holes)) and text in WIDE


def letter(op, name: str, attributes: dict[str, str]) -> tuple[str, str]:
    try:
        op.parse(attributes)
    except MXNetError as e:
        message = str(e)
        if "more than any graph needs" in message or "which is negative" in message:
            return "b", message
        return next(
            (s for s, words in SIGNS.items() if message.startswith(words) or (s == "b" and words + name in message)),
            "o",
        ), message
    return ".", ""


def attributes_of_operators():
    for name in {*OPERATORS, *names_in("_internal")}:
        op = registered(name)
        if op.name == name and name in RECORDED["types"]:
            for key, param in op.params.items():
                if key in RECORDED["types"][name]:
                    yield op, key, param


ROWS = sorted(attributes_of_operators(), key=lambda row: (row[0].name, row[1]))


#: operators whose attributes MXNet does not describe, or that are ours
NOT_RECORDED = {"khatri_rao", "add_n", "_linalg_potrf", "_linalg_potri"}


def test_every_operator_is_recorded():
    known = {op.name for op, _, _ in ROWS}
    ours = {op.name for op in OPERATORS.values() if op.params and not op.python}
    assert len(ROWS) > 800
    missing = {n for n in ours - known if not n.startswith(("_npx", "_image", "_np"))} - NOT_RECORDED
    assert not missing, "MXNet has no such operators: those of our own stand in NOT_RECORDED"


@pytest.mark.parametrize(
    "kind",
    ["float", "double", "int", "int (non-negative)", "long", "long (non-negative)", "Shape", "tuple", "boolean", "{"],
)
def test_texts_are_read_as_by_mxnet(kind):
    wrong, compared = [], 0
    for op, name, param in ROWS:
        types = RECORDED["types"][op.name]
        said = kind_of(types[name]).removesuffix(" or None")
        if not (said == kind or (kind in ("Shape", "tuple", "{") and said.startswith(kind))) or isinstance(
            param, Dtype
        ):
            continue
        letters = VERDICTS[f"{op.name}.{name}"]
        if set(letters) == {"."}:
            continue  # MXNet reads it later
        base = {k: v for k, v in required(types).items() if k in op.params}
        for text, theirs in zip(TEXTS, letters, strict=True):
            if theirs in "ox" or is_ours(param, text) or f"{op.name}.{name}" in UNLIKE_THEIR_TYPE:
                continue
            ours, message = letter(op, name, {**base, name: text})
            compared += 1
            if ours == "b" and theirs == ".":
                continue  # a bound of our own, where MXNet goes on with a value that makes no sense
            if ours != theirs:
                wrong.append(f"{op.name}.{name} = {text!r}: {ours}, MXNet {theirs} {message[:90]}")
            elif theirs == "b" and RECORDED["bounds"][f"{op.name}.{name}"] not in message:
                wrong.append(f"{op.name}.{name} = {text!r}: {message}")
    assert compared > 100
    assert not wrong, "\n".join(wrong[:400]) + f"\n{len(wrong)} of {compared}"


def test_types_have_mxnets_names():
    wrong = [
        (op.name, name, param.type_name, kind_of(RECORDED["types"][op.name][name]))
        for op, name, param in ROWS
        if not isinstance(param, (Dtype, Enum))
        and f"{op.name}.{name}" not in UNLIKE_THEIR_TYPE
        and kind_of(RECORDED["types"][op.name][name])
        and param.type_name != kind_of(RECORDED["types"][op.name][name])
    ]
    assert not wrong


VALUED = {
    "int": ("slice_axis", "begin"), "int or None": ("slice_axis", "end"), "int (non-negative)": ("Convolution", "num_filter"),
    "long": ("_eye", "N"), "Shape(tuple)": ("_zeros", "shape"),
    "float": ("clip", "a_min"), "double": ("_plus_scalar", "scalar"),
}  # fmt: skip


@pytest.mark.parametrize("kind", VALUED)
def test_values_are_mxnets(kind):
    op, name = registered(VALUED[kind][0]), VALUED[kind][1]
    compared = 0
    for text, theirs in RECORDED["values"][kind].items():
        if is_ours(op.params[name], text) or (kind in ("float", "double") and float(theirs) in (0, np.inf, -np.inf)):
            continue
        if kind == "long" and len(text) > 9:
            continue  # the shape of what was recorded has 32 bits
        found = op.params[name].parse(name, text)
        if kind in ("float", "double"):
            close = 1e-6 if kind == "float" else 1e-15
            assert (
                np.isclose(found, float(theirs), rtol=close, atol=0, equal_nan=True) or text == "18446744073709551616"
            ), text
        elif kind == "Shape(tuple)":
            assert list(found) == [max(d, 0) for d in theirs] or min(found) < 0, text
        elif kind == "int" and found < 0:
            assert theirs == 2**31 - 1 + found + 0, text
        else:
            assert (2**31 - 1 if found is None else found) in (theirs, theirs - 2**31 + 1), text
        compared += 1
    assert compared >= 6


@pytest.mark.parametrize("part", [0, *(pytest.param(k, marks=pytest.mark.exhaustive) for k in range(1, 8))])
def test_senseless_sizes_are_refused_by_name(part):
    script = Path(__file__).with_name("malformed_attributes.py")
    done = subprocess.run([sys.executable, str(script), str(part), "8"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["calls"] > 1000
    assert not found["wrong"], "\n".join(found["wrong"])


def recurrent(**attributes: str):
    """A file with a recurrent layer."""
    names = ("data", "parameters", "state", "state_cell")
    nodes = [{"op": "null", "name": n, "inputs": []} for n in names]
    attributes = {"state_size": "4", "num_layers": "1", "mode": "lstm", **attributes}
    nodes.append({"op": "RNN", "name": "rnn0", "attrs": attributes, "inputs": [[k, 0, 0] for k in range(4)]})
    return json.dumps({"nodes": nodes, "arg_nodes": [0, 1, 2, 3], "heads": [[4, 0, 0]]})


@pytest.mark.parametrize(
    ("attributes", "text"),
    [
        ({"num_layers": "8192", "state_size": str(2**40)}, f"state_size expect int (non-negative) but value='{2**40}'"),
        ({"num_layers": "8192"}, "operator RNN unrolls into too many steps"),
        ({"num_layers": str(2**20)}, "operator RNN unrolls into too many steps"),
        ({"num_layers": str(2**32 - 1)}, "operator RNN unrolls into too many steps"),
        ({"state_size": str(2**32 - 1)}, "Size of tensor you are trying to allocate is larger than 2^63 bytes"),
    ],
)
def test_small_files_cost_little(attributes, text):
    start = time.process_time()
    with pytest.raises(MXNetError, match="rnn0") as caught:
        sym.load_json(recurrent(**attributes)).infer_shape(data=(2, 3, 4))
    assert text in str(caught.value)
    assert time.process_time() - start < 0.5  # it was 13 s


HUGE = (2**40, 2**40)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x: nd.arange(0, np.inf), "Invalid Parameter format for stop expect double or None but value='inf'"),
        (lambda x: nd.arange(0, 1e18), "in operator _arange"),
        (lambda x: nd.tile(x, (2**40,)), "Invalid Parameter format for reps expect Shape(tuple) but value='(1099511627776,)'"),
        (lambda x: nd.tile(x, (2**31 - 1,) * 2), "larger than 2^63 bytes"),
        (lambda x: nd.repeat(x, 2**40), "Invalid Parameter format for repeats expect int but value='1099511627776'"),
        (lambda x: nd.one_hot(x, 2**40), "Invalid Parameter format for depth expect int but value='1099511627776'"),
        (lambda x: nd.Pad(x.reshape((1, 1, 2, 3)), mode="edge", pad_width=(0, 0, 0, 0, 2**62, 2**62, 0, 0)), "larger than 2^63 bytes"),
        (lambda x: nd.broadcast_to(nd.ones((1, 1)), HUGE), "larger than 2^63 bytes"),
        (lambda x: nd.zeros(HUGE), "larger than 2^63 bytes"),
        (lambda x: nd.empty(HUGE), "larger than 2^63 bytes"),
        (lambda x: nd.empty((2**50,)), "Unable to allocate"),
        (lambda x: (nd.zeros((2, 3)), nd.zeros((2.0, 3))), "Invalid Parameter format for shape expect Shape(tuple) but value='(2.0, 3)'"),
        (lambda x: nd.zeros((1,) * 100), "100 axes"),
        (lambda x: nd.topk(x, k=2.0), "Invalid Parameter format for k expect int but value='2.0'"),
        (lambda x: nd.sum(x, axis=1, keepdims=2), "Invalid Parameter format for keepdims expect boolean but value='2'"),
        (lambda x: nd.split(x, num_outputs=2**31 - 1), "number of outputs is 2147483647, more than any graph needs"),
        (lambda x: sym.split(sym.var("x"), num_outputs=2**31 - 1), "number of outputs is 2147483647, more than any graph needs"),
        (lambda x: sym.zeros(HUGE).infer_shape(), "larger than 2^63 bytes"),
        (lambda x: sym.var("x", shape=HUGE).infer_shape(), "variable x: Size of tensor"),
        (lambda x: (sym.var("x") + 1).infer_shape(x=HUGE), "variable x: Size of tensor"),
    ],
)  # fmt: skip
def test_absurd_sizes_are_errors_of_mxnet(call, text):
    with pytest.raises(MXNetError) as caught:
        call(nd.ones((2, 3)))
    assert text in str(caught.value)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("bound", ["max", "tiny"])
def test_bounds_of_float32_as_numpy_writes_them(bound, sign):
    """MXNet takes them, too; the greatest is infinite there."""
    number = getattr(np.finfo(np.float32), bound) * np.float32(sign)
    x = nd.array([0.0, number, -number])
    assert nd.clip(x, -1 * abs(number), abs(number)).asnumpy().tolist() == x.asnumpy().tolist()
    assert OPERATORS["clip"].parse({"a_min": str(number), "a_max": number}).a_min == pytest.approx(
        float(number), rel=1e-7, abs=0
    )
