# SPDX-License-Identifier: Apache-2.0
"""Calls of np and npx give what the real MXNet gave: values, element types, shapes, errors.

The rows are in ``tests/against_mxnet/recorded/np_expressions``; ``record_np_expressions.py`` says how they are written.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as onp
import pytest

import hybridgpu as mx

RECORDED = Path(__file__).parents[1] / "against_mxnet" / "recorded"
sys.path.insert(0, str(RECORDED))
from record_np_expressions import answer, rows  # noqa: E402

TOPICS = sorted(p.stem for p in (RECORDED / "np_expressions").glob("*.txt"))
ROWS = [(mark, topic, k) for topic in TOPICS for k, (mark, _) in enumerate(rows(topic))]
ANSWERS = {topic: json.loads((RECORDED / "np_expressions" / f"{topic}.json").read_text()) for topic in TOPICS}
TOLERANCE = {"float16": 1e-2, "float32": 2e-5, "float64": 1e-10}


@pytest.fixture(autouse=True)
def _numpy_semantics():
    mx.npx.set_np()
    yield
    mx.npx.reset_np()


def compare(got, want, mark, what):
    if isinstance(want, list):
        assert isinstance(got, list) and len(got) == len(want), f"{what}: {got} instead of {want}"
        for g, w in zip(got, want, strict=True):
            compare(g, w, mark, what)
        return
    assert isinstance(got, dict), f"{what}: {got} instead of {want}"
    if "error" in want:
        assert "error" in got, f"{what}: {got} instead of {want}"
        ours = {"OperandError": "AssertionError", "ParameterError": "ValueError"}.get(got["error"], got["error"])
        assert ours == want["error"], f"{what}: {got} instead of {want}"
        if not mark:
            words = want["text"].partition(", in operator")[0]  # behind it, attributes in another order
            assert words in got["text"], f"{got} instead of {want}"
        return
    assert "error" not in got, f"{what}: {got} instead of {want}"
    if "array" not in want:
        assert got.keys() == want.keys() and (mark == "?" or got == want), f"{what}: {got} instead of {want}"
        return
    assert (got.get("array"), got["dtype"], got["shape"]) == (want["array"], want["dtype"], want["shape"]), (
        f"{what}: {got} instead of {want}"
    )
    if mark != "?":
        g, w = (onp.array([float(v) for v in x["values"]]) for x in (got, want))
        tolerance = TOLERANCE.get(want["dtype"], 0)
        onp.testing.assert_allclose(g, w, tolerance, tolerance, err_msg=what)


@pytest.mark.parametrize("mark, topic, k", ROWS, ids=lambda v: str(v) if v != "" else "-")
def test_expression(mark, topic, k):
    expression = rows(topic)[k][1]
    recorded, want = ANSWERS[topic][k]
    assert recorded == expression, f"run record_np_expressions.py {topic} again"
    compare(answer(mx, expression), want, mark, expression)
