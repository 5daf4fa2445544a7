# SPDX-License-Identifier: Apache-2.0
"""Files between hybridgpu and the real MXNet 1.9.1, both ways: the same bytes, results and gradients.

MXNet runs in a Python of its own, which ``HYBRIDGPU_MXNET_PYTHON`` names. Without it only the rows run
in which hybridgpu reads what it wrote itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from against_mxnet.exchange import agent, nets
from against_mxnet.exchange.agent import NETS

import hybridgpu as mx

AGENT = Path(__file__).parent / "agent.py"
MXNET = os.environ.get("HYBRIDGPU_MXNET_PYTHON")
with_mxnet = pytest.mark.skipif(not MXNET, reason="HYBRIDGPU_MXNET_PYTHON names no Python with MXNet 1.9.1")
FILES = ("net-0000.params", "net.params", "list.params", "net-symbol.json", "again-symbol.json")

#: who made the files, who used them
PAIRS = [
    ("ours", "ours", ()),
    ("ours", "theirs", ()),
    ("theirs", "ours", ()),
    ("ours", "theirs", ("ours",)),
    ("theirs", "theirs", ("ours",)),
]
ROWS = [
    pytest.param(
        name,
        *pair,
        id="-".join([name, pair[0], *pair[2], pair[1]]),
        marks=() if name in nets.NETS and "theirs" not in pair else with_mxnet,
    )
    for name in NETS
    for pair in PAIRS
]
every_row = pytest.mark.parametrize(("name", "maker", "user", "between"), ROWS)


def work(who, mode, *folders, names=NETS):
    folders = [str(f) for f in folders]
    if who == "ours":
        agent.work(mx, mode, *folders, names=names)
        return
    run = subprocess.run([MXNET, str(AGENT), mode, *folders], capture_output=True, text=True, check=False, timeout=600)
    assert run.returncode == 0, run.stderr[-4000:]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Folder of a net's files that ``ours`` or ``theirs`` made and the others, in order, used; where MXNet takes part
    of all nets' at once, since starting it takes long."""
    root = tmp_path_factory.mktemp("exchange")
    made = set()

    def find(name, *users):
        folder, names = root / "-".join(users), NETS if "theirs" in users else [name]
        if (name, users) not in made:
            if len(users) > 1:
                for one in names:
                    find(one, *users[:-1])
                work(users[-1], "use", root / "-".join(users[:-1]), folder, names=names)
            else:
                work(users[0], "make", folder, names=names)
            made.update((one, users) for one in names)
        return folder / name

    return find


def read(folder):
    """What was computed; the error if there was one."""
    error = folder / "error.txt"
    assert not error.exists(), error.read_text()
    with np.load(folder / "results.npz") as found:
        return dict(found)


@every_row
def test_results_agree(name, maker, user, between, folders):
    expected = read(folders(name, maker))
    found = read(folders(name, maker, *between, user))
    seen = set()
    for key, value in found.items():
        how, _, what = key.partition(" ")
        what = f"predict {what}" if how == "bind" else what
        if what not in expected:  # a parameter that its layer keeps fixed has a gradient where only the graph is known
            assert how == "imports" and what.endswith("gradient"), key
            continue
        seen.add(what)
        if NETS[name].wrong and key.endswith(NETS[name].wrong) and "theirs" in (maker, user):
            continue
        want = expected[what]
        assert (value.shape, value.dtype) == (want.shape, want.dtype), key
        scale = 1e-3 + np.abs(want).max(initial=0).astype("float64")
        np.testing.assert_allclose(
            value.astype("float64") / scale, want / scale, rtol=0, atol=NETS[name].tolerance, err_msg=key
        )
    assert seen == set(expected)


@every_row
def test_files_written_again_are_the_same(name, maker, user, between, folders):
    first, again = folders(name, maker), folders(name, maker, *between, user)
    for file in FILES:
        assert (first / file).read_bytes() == (again / file).read_bytes(), file


@with_mxnet
@pytest.mark.parametrize("name", NETS)
def test_both_write_the_same_files(name, folders):
    for file in FILES:
        ours, theirs = ((folders(name, who) / file).read_bytes() for who in ("ours", "theirs"))
        if name in ("constant", "np constants") and file.endswith(
            ".json"
        ):  # its initializer is named after its address in memory
            ours, theirs = (
                b"\n".join(line for line in f.split(b"\n") if b"__init__" not in line) for f in (ours, theirs)
            )
        assert ours == theirs, file


OPTIMIZERS = [
    ("sgd", {"momentum": 0.9, "wd": 1e-3}),
    ("nag", {"momentum": 0.5}),
    ("adam", {"learning_rate": 0.01}),
    ("rmsprop", {"centered": True}),
    ("adagrad", {}),
    ("ftrl", {}),
    ("signum", {}),
]


@with_mxnet
def test_states_of_mxnets_trainers(tmp_path):
    run = subprocess.run(
        [MXNET, str(AGENT), "train", str(tmp_path), repr(OPTIMIZERS)],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert run.returncode == 0, run.stderr[-4000:]
    for name, options in OPTIMIZERS:
        with np.load(tmp_path / f"{name}.npz") as found:
            expected = dict(found)
        trained = agent.train(mx, tmp_path, name, options, resume=True)
        assert set(trained) == set(expected)
        for key, value in trained.items():
            np.testing.assert_allclose(value, expected[key], rtol=1e-5, atol=1e-6, err_msg=f"{name} {key}")


def test_the_agent_runs_alone(tmp_path):
    """As MXNet's Python runs it: nothing but the folder beside it."""
    code = f"import sys, hybridgpu; sys.modules['mxnet'] = hybridgpu; sys.path.insert(0, {str(AGENT.parents[2])!r}); from against_mxnet.exchange import agent; "
    code += f"agent.NETS = {{k: agent.NETS[k] for k in ['mlp']}}; agent.work(hybridgpu, 'make', {str(tmp_path)!r})"
    path = os.pathsep.join(p for p in sys.path if p)
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert run.returncode == 0, run.stderr[-2000:]
    assert sorted(p.name for p in (tmp_path / "mlp").iterdir()) == sorted([*FILES, "inputs.json", "results.npz"])


SPARSE = """
import sys, mxnet as mx
a = mx.nd.array([[0, 1.5, 0, -2], [0, 0, 0, 0], [7, 0, 0, 0]])
empty = mx.nd.zeros((3, 2))
found = {"a": a, "a csr": a.tostype("csr"), "a rows": a.tostype("row_sparse"), "empty": empty}
found.update({"empty csr": empty.tostype("csr"), "empty rows": mx.nd.sparse.zeros("row_sparse", (3, 2))})
mx.nd.save(sys.argv[1], found)
"""


@with_mxnet
def test_sparse_arrays_of_mxnet(tmp_path):
    file = str(tmp_path / "sparse.params")
    subprocess.run([MXNET, "-c", SPARSE, file], check=True, timeout=120)
    found = mx.nd.load(file)
    for name, value in found.items():
        np.testing.assert_array_equal(value.asnumpy(), found[name.split()[0]].asnumpy())
