# SPDX-License-Identifier: Apache-2.0
"""Functions of np give what the real MXNet gave: types, shapes, values, gradients, and classes of errors.

``tests/against_mxnet/recorded/numpy_calls.json`` has MXNet's answers to the calls that ``numpy_calls`` beside it makes.
"""

from __future__ import annotations

import base64
import json
import re
import sys
import zlib
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as onp
import pytest

import hybridgpu as mx
from hybridgpu.base import MXNetError
from hybridgpu.ops.functions import registered

HERE = Path(__file__).parents[1] / "against_mxnet" / "recorded"
sys.path.insert(0, str(HERE))
from numpy_calls import TYPES, values  # noqa: E402

RECORDED = json.loads((HERE / "numpy_calls.json").read_text())
TOLERANCE = {"float16": 2e-3, "float32": 2e-5, "float64": 1e-6}  # MXNet has some constants in single precision

#: expressions, as patterns -> why the answer is another one here
OURS = {
    r"np\.around\(a\('f2'": "MXNet refuses float16",
    r"np\.\w+\(a\('f4', (\(0, 3\)|\(3, 0\))\), axis=1": "an axis of no elements beside one that is reduced confuses it",
    r"np\.prod\(a\('f4', (\(0, 3\)|\(3, 0\))": "a product of nothing is 1, not 0",
    r"np\.(var|std)\(a\('[iu]": "the mean of integers is cut to their type there before it is subtracted",
    r".*dtype='uint8'": "taken here",
    r"np\.(dot|matmul|tensordot|sort|argsort)\(a\('f2'": "float16 is taken on the CPU, too",
    r"np\.([vhd]|row_|column_)stack\(\[a\('b1'|np\.(diag|tril)\(a\('b1'": "bool is taken here",
    r"np\.flip\(a\('f4', \(2, 3, 4\)\), \(0, -1": "several axes may be counted from the end here",
}
OUR_GRADIENTS = {
    r"np\.(var|std)\(|np\.atleast_3d\(": "there is none there",
    r"np\.rot90\(": "it is turned the wrong way there",
    r"np\.matmul\(a\('f4', \(2, 1, 2, 3\)\)": "sums over the wrong one of the axes that broadcast there",
    r"np\.where\(a\('b1', \(2, 1\)\), 2": "the gradient is that where the number is taken there",
    r"np\.arctan2\(1.5, a\(": "the gradient is that of the other operand there",
    r"np\.copysign\((1.5, a|a\('f4', \(3,\), 1, 3\), 1.5)": "no gradient there: it is given too few inputs",
}


def by_function(part: str) -> list[Any]:
    """(topic, function) -> its rows."""
    groups: dict[tuple[str, str], list[tuple[str, Any]]] = defaultdict(list)
    for topic, rows in RECORDED[part].items():
        for call, answer in rows.items():
            groups[topic, re.match(r"[\w.]+", call)[0]].append((call, answer))  # type: ignore[index]
    return [pytest.param(rows, id=f"{topic}-{name}") for (topic, name), rows in groups.items()]


@pytest.fixture(autouse=True)
def _numpy_semantics():
    with mx.util.np_shape(True), mx.util.np_array(True):
        yield


def array(kind: str, shape: Any, low: int = -3, high: int = 3) -> Any:
    x = values(onp, kind, shape, low, high)
    return mx.nd.array(x, dtype=x.dtype).as_np_ndarray()


def scope(a: Any = array) -> dict[str, Any]:
    return {"np": mx.np, "npx": mx.npx, "a": a, "inf": float("inf"), "nan": float("nan")}


def unpacked(answer: list[Any]) -> onp.ndarray:
    kind, shape, text = answer
    return onp.frombuffer(zlib.decompress(base64.b64decode(text)), kind).reshape(shape)


def difference(got: Any, answer: Any, call: str) -> str:
    """What is wrong with an answer, '' if nothing."""
    if isinstance(answer, dict):
        return f"no {answer['error']} ({answer['text']})"
    if isinstance(answer, str):
        if isinstance(got, (int, float, onp.generic)):
            want = float({"True": 1, "False": 0}.get(answer, answer))
            return "" if onp.isclose(float(got), want, equal_nan=True) else f"{got!r} instead of {answer}"
        return "" if repr(got) == answer else f"{got!r} instead of {answer}"
    if not (len(answer) == 3 and answer[0] in TYPES.values() and isinstance(answer[1], list)):
        got = list(got) if isinstance(got, (list, tuple)) else [got]
        if len(got) != len(answer):
            return f"{len(got)} results instead of {len(answer)}"
        return "; ".join(filter(None, (difference(g, w, call) for g, w in zip(got, answer, strict=True))))
    if not isinstance(got, mx.np.ndarray):
        return f"{type(got)} instead of an array"
    want, given = unpacked(answer), got.asnumpy()
    if (given.dtype, given.shape) != (want.dtype, want.shape):
        return f"{given.dtype}{given.shape} instead of {want.dtype}{want.shape}"
    tolerance = max(
        [TOLERANCE.get(str(want.dtype), 0), *(2e-3 for k in ("'f2'",) if k in call and want.dtype.kind == "f")]
    )
    try:
        onp.testing.assert_allclose(given.astype("f8"), want.astype("f8"), tolerance, tolerance)
    except AssertionError:
        return f"{given.tolist()} instead of {want.tolist()}"
    return ""


def compared(rows: list[tuple[str, Any]], run: Any, ours: dict[str, str]) -> None:
    wrong = []
    for call, answer in rows:
        if any(re.match(pattern, call) for pattern in ours):
            continue
        try:
            found = run(call)
            text = difference(found, answer, call)
        except Exception as e:
            if isinstance(answer, dict) and answer["error"] in [c.__name__ for c in type(e).__mro__]:
                continue
            text = f"{type(e).__name__}: {str(e).splitlines()[0]}" + (
                f" instead of {answer['error']}: {answer['text']}" if isinstance(answer, dict) else ""
            )
        if text:
            wrong.append(f"{call}: {text}")
    assert not wrong, f"{len(wrong)} of {len(rows)}:\n" + "\n".join(wrong)


@pytest.mark.parametrize("rows", by_function("calls"))
def test_answers(rows):
    with onp.errstate(all="ignore"):
        compared(rows, lambda call: eval(call, scope()), OURS)


def gradients(call: str) -> list[Any]:
    made = []

    def with_gradient(*args: Any) -> Any:
        x = array(*args)
        if args[0] != "b1":
            x.attach_grad()
        made.append(x)
        return x

    with mx.autograd.record():
        y = eval(call, scope(with_gradient))
    heads = list(y) if isinstance(y, (list, tuple)) else [y]
    weights = [mx.nd.array(values(onp, "f4", h.shape), dtype=h.dtype).as_np_ndarray() for h in heads]
    mx.autograd.backward(heads, weights)
    return [0 if x.grad is None else x.grad for x in made]


@pytest.mark.parametrize("rows", by_function("gradients"))
def test_gradients(rows):
    compared(rows, gradients, OUR_GRADIENTS)


def nodes(call: str) -> list[Any]:
    """[operator, attributes] of the nodes that a call makes of Symbols."""
    made = eval(call, {"np": mx.sym.np, "npx": mx.sym.npx, "a": lambda *args: mx.sym.var("x").as_np_ndarray()})
    made = made[0] if isinstance(made, (list, tuple)) else made
    return [[n["op"], n.get("attrs", {})] for n in json.loads(made.tojson())["nodes"] if n["op"] != "null"]


def meaning(made: list[Any]) -> list[Any]:
    """Nodes with the values of all attributes, whether given or not; but where a graph runs is decided elsewhere."""
    return [(name, registered(name).parse({k: v for k, v in given.items() if k != "ctx"}).key) for name, given in made]


@pytest.mark.parametrize("rows", by_function("graphs"))
def test_graphs(rows):
    """Functions of Symbols make the nodes that MXNet makes."""
    wrong = []
    for call, want in rows:
        try:
            expected = meaning(want)
        except MXNetError:  # refused at once here
            with pytest.raises(MXNetError):
                nodes(call)
            continue
        if meaning(nodes(call)) != expected:
            wrong.append(f"{call}: {nodes(call)} instead of {want}")
    assert not wrong, f"{len(wrong)} of {len(rows)}:\n" + "\n".join(wrong)
