# SPDX-License-Identifier: Apache-2.0
"""Programs give the graph, to the letter, that MXNet 1.9.1 gives: files, names, attributes.

Digests of what MXNet gives are recorded; where ``HYBRIDGPU_MXNET_PYTHON`` names a Python with MXNet the texts
themselves are compared, and MXNet loads ours.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
from pathlib import Path

import pytest
from against_mxnet.exchange import graphs

import hybridgpu as mx

MXNET = os.environ.get("HYBRIDGPU_MXNET_PYTHON")
with_mxnet = pytest.mark.skipif(not MXNET, reason="HYBRIDGPU_MXNET_PYTHON names no Python with MXNet 1.9.1")
ROWS = graphs.rows()


@pytest.mark.parametrize("part", range(0, len(ROWS), 50))
def test_graphs_are_mxnets(part):
    other = [p for d, p in ROWS[part : part + 50] if graphs.digest(graphs.describe(mx, p)) != d]
    assert not other, "set HYBRIDGPU_MXNET_PYTHON to see what differs"


def test_no_program_is_there_twice():
    assert len({p for _, p in ROWS}) == len(ROWS) > 800


def theirs_of(*files):
    """What MXNet writes to the first file."""
    command = [MXNET, graphs.__file__, *map(str, files)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert run.returncode == 0, run.stderr[-4000:]
    return json.loads(files[0].read_text())


@with_mxnet
def test_texts_are_mxnets(tmp_path):
    theirs = theirs_of(tmp_path / "theirs.json")
    for recorded, program in ROWS:
        assert graphs.describe(mx, program).splitlines() == theirs[program].splitlines(), program
        assert graphs.digest(theirs[program]) == recorded, f"record anew: {Path(graphs.__file__).name}"


@with_mxnet
def test_mxnet_reads_what_is_written_here(tmp_path):
    (tmp_path / "ours.json").write_text(json.dumps({p: graphs.evaluate(mx, p).tojson() for _, p in ROWS}))
    theirs = theirs_of(tmp_path / "theirs.json", tmp_path / "ours.json")
    assert theirs == json.loads((tmp_path / "ours.json").read_text())


@with_mxnet
def test_old_graphs_become_what_mxnet_makes_of_them(tmp_path):
    """The rows of tests/io/test_old_files.py."""
    place = Path(__file__).parents[2] / "io" / "test_old_files.py"
    spec = importlib.util.spec_from_file_location("old_files", place)
    old_files = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(old_files)
    texts = {name: row[0] for name, row in old_files.GRAPHS.items()}
    (tmp_path / "old.json").write_text(json.dumps(texts))
    theirs = theirs_of(tmp_path / "theirs.json", tmp_path / "old.json")
    for name, text in texts.items():
        assert mx.sym.load_json(text).tojson().splitlines() == theirs[name].splitlines(), name
