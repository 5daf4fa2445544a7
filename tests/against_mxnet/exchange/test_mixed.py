# SPDX-License-Identifier: Apache-2.0
"""Graphs in mixed precision are MXNet's to the letter, and its lists of operators are those here.

Digests of what MXNet gives are recorded; where ``HYBRIDGPU_MXNET_PYTHON`` names a Python with MXNet the texts
themselves are compared.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from against_mxnet.exchange import mixed

import hybridgpu
from hybridgpu.contrib import amp
from hybridgpu.ops import OPERATORS

MXNET = os.environ.get("HYBRIDGPU_MXNET_PYTHON")
with_mxnet = pytest.mark.skipif(not MXNET, reason="HYBRIDGPU_MXNET_PYTHON names no Python with MXNet 1.9.1")
RECORDED = Path(__file__).with_name("mixed.json")
MODES = ["", "float16", "bfloat16"]


def written(python, library, mode, place):
    """What the library gives, in a process of its own: ``amp.init`` lasts."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    if library == "hybridgpu":
        environment["PYTHONPATH"] = str(Path(hybridgpu.__file__).parents[1])
    command = [python, mixed.__file__, library, str(place), mode]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, env=environment)
    assert run.returncode == 0, run.stderr[-4000:]
    return json.loads(place.read_text())


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@pytest.mark.parametrize("mode", MODES)
def test_graphs_are_mxnets(mode, tmp_path):
    found = written(sys.executable, "hybridgpu", mode, tmp_path / "ours.json")
    recorded = json.loads(RECORDED.read_text())[mode]
    assert {k: digest(v) for k, v in found.items() if k != "lists"} == recorded, "set HYBRIDGPU_MXNET_PYTHON"
    assert len(recorded) >= 3


@with_mxnet
@pytest.mark.parametrize("mode", MODES)
def test_texts_are_mxnets(mode, tmp_path, update_golden):
    ours = written(sys.executable, "hybridgpu", mode, tmp_path / "ours.json")
    theirs = written(MXNET, "mxnet", mode, tmp_path / "theirs.json")
    theirs.pop("lists", None)
    if update_golden:
        recorded = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
        recorded[mode] = {k: digest(v) for k, v in theirs.items()}
        RECORDED.write_text(json.dumps(recorded, indent=1) + "\n")
    for name, text in theirs.items():
        assert ours[name].splitlines() == text.splitlines(), name


@with_mxnet
def test_lists_are_mxnets(tmp_path):
    theirs = written(MXNET, "mxnet", "", tmp_path / "theirs.json")["lists"]
    for name, ours in mixed.lists(amp.amp).items():
        known = [x for x in theirs[name] if not isinstance(x, str) or x in OPERATORS or x == "Custom"]
        if name == "fp32_ops bfloat16":
            # MXNet's optimizers call functions from before init(); and of NumPy's operators no list speaks
            known = [x for x in known if x not in amp.list_lp16_fp32_ops("bfloat16")]
            assert set(known) <= set(ours)
            assert not set(ours) & set(theirs["widest_type_cast bfloat16"])
        else:
            assert sorted(map(str, map(tuple, known))) == sorted(map(str, map(tuple, ours))), name
