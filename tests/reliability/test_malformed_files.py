# SPDX-License-Identifier: Apache-2.0
"""Files of somebody else, used to the end: names that are none, damaged models and states, links in place of files.

``tests/io`` reads damaged files; here what was read is compiled, called, explained, dumped and written again.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
from random import Random

import numpy as np
import pytest
from malformed_files import graph, mutate_bytes, mutate_json

import hybridgpu as mx
from hybridgpu import autograd, gluon, nd, sym
from hybridgpu.base import MXNetError
from hybridgpu.gluon import nn

NAMES = {
    "empty": "", "a way out": "../../x", "a place": "/etc/passwd", "NUL": "a\0b", "long": "n" * 300, "a megabyte": "n" * 10**6,
    "end of a comment": "*/ #error", "line break": "a\nb", "backslash": "\\", "continued line": "a\\\nb", "quotes": "\"q'",
    "no ASCII": "\u6f22\U0001f600", "right to left": "\u202e", "format": "%s{0}{{", "kind": "arg:x", "Python": "__class__",
    "structure": "0.weight", "HTML": "<script>alert(1)</script>", "blank": " ", "terminal": "\x1b[31m", "shell": "$(touch x)",
}  # fmt: skip


@pytest.fixture
def here(tmp_path, monkeypatch):
    (tmp_path / "deep" / "er").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "deep" / "er")
    return tmp_path


@pytest.mark.parametrize("name", NAMES)
def test_names(name, here, monkeypatch, capfd, compiler):
    name = NAMES[name]
    for file in ("p.params", "p.safetensors"):
        nd.save(file, {name: nd.full((2,), 7)})
        assert {k: v.asnumpy().tolist() for k, v in nd.load(file).items()} == {name: [7, 7]}
    x = ("null", "x", [], None)
    text = graph([
        x, ("null", f"{name}w", [], None),
        ("FullyConnected", name, [[0, 0, 0], [1, 0, 0]], {"num_hidden": "3", "no_bias": "True"}),
        ("exp", f"{name}e", [[2, 0, 0]], None), ("sum", f"{name}s", [[3, 0, 0]], {"axis": "1"}),
    ])  # fmt: skip
    out = sym.load_json(text)
    assert sym.load_json(out.tojson()).tojson() == out.tojson()
    monkeypatch.setenv("HYBRIDGPU_DUMP", "dump")
    monkeypatch.setenv("HYBRIDGPU_DEBUG", "4")
    block = gluon.SymbolBlock(out, [sym.var("x")])
    block.initialize(mx.init.One())
    block.hybridize()
    data = nd.ones((2, 4))
    np.testing.assert_allclose(block(data).asnumpy(), 3 * np.exp(4), rtol=1e-5)
    with autograd.record():
        y = block(data)
    y.backward()
    explained = block.explain(data)
    assert str(explained)
    for kernel in explained.kernels:
        head, *lines = kernel.source.splitlines()
        comments = [line for line in lines if line.startswith("//   ")]
        assert head == "// computes" and len(comments) == len(kernel.operators)
        assert not any(line.endswith("\\") for line in comments)
        assert lines[len(comments)].startswith("HG_KERNEL"), "a name that became text"
    block.export("exported")
    again = gluon.SymbolBlock.imports("exported-symbol.json", ["x"], "exported-0000.params")
    np.testing.assert_allclose(again(data).asnumpy(), 3 * np.exp(4), rtol=1e-5)
    capfd.readouterr()
    found = sorted(os.listdir("."))
    assert found == ["dump", "exported-0000.params", "exported-symbol.json", "p.params", "p.safetensors"]
    assert sorted(os.listdir(here)) == ["deep"] and os.listdir(here / "deep") == ["er"]


# -- models and states in which something is wrong


def small(prefix="net_"):
    net = nn.HybridSequential(prefix=prefix)
    with net.name_scope():
        net.add(nn.Dense(3, in_units=4, activation="relu"), nn.BatchNorm(in_channels=3), nn.Dense(2, in_units=3))
    net.initialize()
    return net


def trained(net):
    trainer = gluon.Trainer(net.collect_params(), "adam")
    with autograd.record():
        loss = net(nd.ones((2, 4))).sum()
    loss.backward()
    trainer.step(1)
    return trainer


COUNTS = [60, pytest.param(5000, marks=pytest.mark.exhaustive)]


@pytest.mark.filterwarnings("ignore:.*not used by any computation")
@pytest.mark.parametrize("count", COUNTS)
def test_damaged_models(count, here):
    """Block.load takes a damaged file for another net's or says that it is damaged; nothing hangs, nothing is half done."""
    net = small()
    net.hybridize()
    x = nd.ones((2, 4))
    net(x)
    net.save("good")
    text = (here / "deep" / "er" / "good-model.json").read_bytes()
    os.link("good-model.params", "bad-model.params")
    net = small()
    said = set()
    for k in range(count):
        rng = Random(k)
        bad = mutate_bytes(text, rng) if k % 2 else json.dumps(mutate_json(json.loads(text), rng)).encode()
        with open("bad-model.json", "wb") as f:
            f.write(bad)
        names = [net.name, *(c.name for c in net._children.values())]
        try:
            net.load("bad")
            net(x)
            net = small()
        except MXNetError as e:
            said.add("bad-model.json is not what Block.save wrote" in str(e))
            if "is not what Block.save wrote" in str(e):
                assert [net.name, *(c.name for c in net._children.values())] == names
        except (KeyError, AssertionError, ValueError):  # another net's, or one of other arguments
            net = small()
    assert True in said


@pytest.mark.parametrize("count", COUNTS)
def test_damaged_states(count, here):
    """Bytes of states that are cut short or changed: the error names the file, and the trainer keeps what it has."""
    net = small()
    trainer = trained(net)
    trainer.save_states("good.states")
    with open("good.states", "rb") as f:
        good = f.read()
    before = {k: [s.asnumpy() for s in v] for k, v in trainer._updaters[0].states.items()}
    refused = 0
    for k in range(count):
        rng = Random(k)
        at = rng.randrange(len(good))
        bad = good[:at] if k % 2 else good[:at] + b"\xff" + good[at + 1 :]
        with open("bad.states", "wb") as f:
            f.write(bad)
        later = gluon.Trainer(net.collect_params(), "adam")
        later.load_states("good.states")
        try:
            later.load_states("bad.states")
        except (EOFError, pickle.UnpicklingError, AttributeError, ImportError) as e:
            refused += 1
            assert "bad.states does not hold an optimizer's states" in str(e)
            for n, v in later._updaters[0].states.items():
                for a, b in zip(v, before[n], strict=True):
                    np.testing.assert_array_equal(a.asnumpy(), b)
        else:
            assert k % 2 == 0, "a part was taken for the whole"
    assert refused > count // 2


@pytest.mark.filterwarnings("ignore:.*not used by any computation")
@pytest.mark.parametrize("count", COUNTS)
def test_damaged_imports_that_are_called(count, here):
    """What SymbolBlock.imports takes is compiled and called, too."""
    net = small()
    net.hybridize()
    x = nd.ones((2, 4))
    net(x)
    net.export("good")
    with open("good-symbol.json") as f, open("good-0000.params", "rb") as g:
        text, params = json.load(f), g.read()
    called = 0
    for k in range(count):
        rng = Random(k)
        changed = json.dumps(mutate_json(text, rng)) if k % 2 else json.dumps(text)
        with open("bad-symbol.json", "w") as f, open("bad-0000.params", "wb") as g:
            f.write(changed)
            g.write(params if k % 2 else mutate_bytes(params, rng))
        try:
            block = gluon.SymbolBlock.imports("bad-symbol.json", ["data"], "bad-0000.params")
            block(x)
            called += 1
        except (MXNetError, AssertionError, ValueError) as e:
            assert str(e)
    assert called


# -- links in place of files


@pytest.mark.skipif(sys.platform == "win32", reason="links as POSIX has them")
def test_every_writer_writes_through_a_link(here):
    """As open() does, and so MXNet: the link stays one, what it leads to is replaced; a link to nothing makes the file."""
    net = small()
    net.hybridize()
    trainer = trained(net)
    os.mkdir("real")
    writers = {
        "a.params": lambda f: nd.save(f, [nd.ones((2,))]), "a.safetensors": lambda f: nd.save(f, {"a": nd.ones((2,))}),
        "net.params": net.save_parameters, "net.states": trainer.save_states, "s.json": mx.sym.var("x").save,
    }  # fmt: skip
    for name, write in writers.items():
        os.symlink(f"real/{name}", name)
        for _ in range(2):
            write(name)
            assert os.path.islink(name) and os.path.getsize(f"real/{name}") > 0
        os.chmod(f"real/{name}", 0o640)
        write(name)
        assert os.stat(name).st_mode & 0o777 == 0o640
    assert sorted(os.listdir("real")) == sorted(writers)
    os.symlink("real", "folder")
    net.export("folder/exported")
    assert {"exported-symbol.json", "exported-0000.params"} < set(os.listdir("real"))
