# SPDX-License-Identifier: Apache-2.0
"""Statements that programs of MXNet begin with, and what a new process has before anything else was imported."""

from __future__ import annotations

import ast
import importlib.util
import json
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import hybridgpu as mx
from hybridgpu.frontend.module_aliases import PATHS

#: statement -> what its name is
STATEMENTS = {
    "from hybridgpu.contrib.ndarray import MultiBoxPrior as found": "mx.nd.contrib.MultiBoxPrior",
    "from hybridgpu.contrib.symbol import MultiBoxPrior as found": "mx.sym.contrib.MultiBoxPrior",
    "from hybridgpu.contrib import nd as found": "mx.nd.contrib",
    "import hybridgpu.contrib.ndarray as found": "mx.nd.contrib",
    "from hybridgpu.ndarray.contrib import foreach as found": "mx.nd.contrib.foreach",
    "from hybridgpu.symbol.contrib import foreach as found": "mx.sym.contrib.foreach",
    "from hybridgpu.ndarray.linalg import gemm2 as found": "mx.nd.linalg.gemm2",
    "from hybridgpu.symbol.linalg import gemm2 as found": "mx.sym.linalg.gemm2",
    "from hybridgpu.ndarray.image import to_tensor as found": "mx.nd.image.to_tensor",
    "from hybridgpu.ndarray.op import relu as found": "mx.nd.op.relu",
    "from hybridgpu.symbol.op import relu as found": "mx.sym.op.relu",
    "from hybridgpu.ndarray.random import uniform as found": "mx.nd.random.uniform",
    "from hybridgpu.ndarray._internal import _plus_scalar as found": "mx.nd._internal._plus_scalar",
    "import hybridgpu.symbol.contrib as found": "mx.sym.contrib",
    "from hybridgpu.gluon.nn.basic_layers import Dense as found": "mx.gluon.nn.Dense",
    "from hybridgpu.gluon.nn.conv_layers import MaxPool2D as found": "mx.gluon.nn.MaxPool2D",
    "from hybridgpu.gluon.nn.activations import PReLU as found": "mx.gluon.nn.PReLU",
    "from hybridgpu.gluon.contrib.nn.basic_layers import SyncBatchNorm as found": "mx.gluon.contrib.nn.SyncBatchNorm",
    "from hybridgpu.gluon.rnn.rnn_cell import ResidualCell as found": "mx.gluon.rnn.ResidualCell",
    "from hybridgpu.gluon.rnn.rnn_cell import LSTMCell as found": "mx.gluon.rnn.LSTMCell",
    "from hybridgpu.rnn.rnn_cell import FusedRNNCell as found": "mx.rnn.FusedRNNCell",
    "from hybridgpu.rnn.rnn import load_rnn_checkpoint as found": "mx.rnn.load_rnn_checkpoint",
    "from hybridgpu.image.image import ImageIter as found": "mx.image.ImageIter",
    "from hybridgpu.image.detection import ImageDetIter as found": "mx.image.ImageDetIter",
    "from hybridgpu.io.io import NDArrayIter as found": "mx.io.NDArrayIter",
    "from hybridgpu.kvstore.base import KVStoreBase as found": "mx.kv.KVStoreBase",
    "import hybridgpu.kvstore.kvstore as found": "mx.kv",
    "from hybridgpu.ndarray.utils import load_frombuffer as found": "mx.nd.load_frombuffer",
    "from hybridgpu.optimizer.optimizer import Adam as found": "mx.optimizer.Adam",
    "found = mx.image.image.CreateAugmenter": "mx.image.CreateAugmenter",
    "import pydoc; found = pydoc.locate('hybridgpu.ndarray.array')": "mx.nd.array",
    "import pydoc; found = pydoc.locate('hybridgpu.ndarray.ndarray.NDArray')": "mx.nd.NDArray",
    "import pydoc; found = pydoc.locate('hybridgpu.gluon.nn.conv_layers.Conv2D')": "mx.gluon.nn.Conv2D",
    "from hybridgpu.ndarray.ndarray import maximum as found": "mx.nd.maximum",
    "from hybridgpu.symbol.symbol import maximum as found": "mx.sym.maximum",
    "from hybridgpu.gluon.data.dataloader import _MultiWorkerIter as found": "mx.gluon.data.worker_queues.MultiWorkerIter",
    "from hybridgpu.model import _create_kvstore as found": "mx.module.kvstore_update._create_kvstore",
    "found = mx.metric.ndarray": "mx.nd",
    "found = mx.gluon.nn.basic_layers.Dense": "mx.gluon.nn.Dense",
}


@pytest.mark.parametrize("statement", STATEMENTS)
def test_namespaces_are_modules(statement):
    names = {"mx": mx}
    exec(statement, names)
    assert names["found"] is eval(STATEMENTS[statement], names)


@pytest.mark.parametrize("statement", ["from hybridgpu.ndarray.contrib import Nope", "import hybridgpu.ndarray.nope"])
def test_names_that_are_not_there(statement):
    with pytest.raises(ImportError):
        exec(statement, {})


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        (
            "from hybridgpu.contrib import onnx as o",
            "'onnx'\nIn MXNet it is the exchange of networks with ONNX. Write net.export(path)",
        ),
        (
            "from hybridgpu.io import LibSVMIter",
            "'LibSVMIter'\nIn MXNet it is an iterator over text files of sparse rows. Write mx.io.NDArrayIter(data, label, batch_size) with a dense",
        ),
        (
            "from hybridgpu.io import ImageDetRecordIter",
            " with boxes. Write mx.image.ImageDetIter(batch_size, data_shape",
        ),
        ("from hybridgpu.io import ImageRecordUInt8Iter", "batch_size, dtype='uint8'). (<string>:1)"),
        ("import hybridgpu.contrib.svrg_optimization", "reduced variance. Write mx.mod.Module with"),
        (
            "import importlib; importlib.import_module('hybridgpu.amp')",
            "'amp'\nWrite mx.contrib.amp. (<string>:1)",
        ),
        ("import hybridgpu.amp", "'amp'\nWrite mx.contrib.amp"),
        ("from hybridgpu import gluom", "module 'hybridgpu' has no attribute 'gluom'; did you mean gluon?"),
        ("from hybridgpu.gluon.nn import Linear", "'Linear'\nWrite nn.Dense"),
        ("from hybridgpu import nothing_like_it", "cannot import name 'nothing_like_it' from 'hybridgpu'"),
        ("import hybridgpu.nothing_like_it", "No module named 'hybridgpu.nothing_like_it'"),
    ],
)
def test_import_statements_say_what_attributes_say(statement, text):
    with pytest.raises(ImportError) as caught:
        exec(statement, {})
    assert text in str(caught.value)


@pytest.mark.parametrize(
    "name",
    ["np", "npx", "gluom", "nothing_like_it", "contrib.onnx", "gluon.nn.Linear", "ndarray.register", "np.random"],
)
def test_who_asks_for_a_module_is_told_that_there_is_none(name):
    module = f"hybridgpu.{name}"
    assert mx._WhatToWrite.find_spec(module, mx.__path__) is None
    if name == "np.random":  # as of any package: the parent is imported first
        with pytest.raises(ModuleNotFoundError, match="No module named 'hybridgpu.np'"):
            importlib.util.find_spec(module)
    else:
        assert importlib.util.find_spec(module) is None


def test_completion_knows_what_is_imported_later():
    for name in ("Trainer", "loss", "data"):
        assert name in dir(mx.gluon) and getattr(mx.gluon, name)


#: what a process begins with -> the error that it ends with
CUSTOM = {
    "mx.nd.Custom(mx.nd.ones((2,)), op_type='nope')": "MXNetError: Check failed: Cannot find custom operator nope",
    "mx.sym.Custom(mx.sym.var('x'), op_type='nope')": "MXNetError: Check failed: Cannot find custom operator nope",
    "mx.nd.op.Custom(mx.nd.ones((2,)), op_type='nope')": "MXNetError: Check failed: Cannot find custom operator nope",
    "assert 'Custom' in dir(mx.nd) and 'operator' not in vars(mx); raise SystemExit('all is well')": "all is well",
}


@pytest.mark.parametrize("program", CUSTOM)
def test_custom_operators_in_a_new_process(program):
    done = subprocess.run([sys.executable, "-c", f"import hybridgpu as mx; {program}"], capture_output=True, text=True)
    assert CUSTOM[program] in done.stderr


def test_a_file_with_a_custom_operator_in_a_new_process(tmp_path):
    file = tmp_path / "custom.json"
    nodes = [
        {"op": "null", "name": "x", "inputs": []},
        {"op": "Custom", "name": "c", "attrs": {"op_type": "here"}, "inputs": [[0, 0, 0]]},
    ]
    file.write_text(json.dumps({"nodes": nodes, "arg_nodes": [0], "heads": [[1, 0, 0]]}))
    program = "import sys, hybridgpu as mx; mx.sym.load(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", program, str(file)], capture_output=True, text=True)
    assert done.stderr.endswith("custom operator here\nRegister it first, with @mx.operator.register('here').\n")


def test_no_module_imports_another_by_a_name_that_import_linter_does_not_see():
    """But those that import what stands below them before it is needed, or start it as a program."""
    folder = Path(mx.__file__).parent
    files = {f: ".".join(f.relative_to(folder.parent).with_suffix("").parts) for f in folder.rglob("*.py")}
    named = {
        (files[f], node.value)
        for f in files
        for node in ast.walk(ast.parse(f.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and node.value in files.values()
    }
    assert {module for module, _ in named} <= {"hybridgpu.runtime.background", "hybridgpu.cli.bench.children"}, named


def test_paths_of_mxnet_have_no_file_here():
    """One that has is found anyway: it is to be taken out of the table."""
    folder = Path(mx.__file__).parent
    assert [p for p in PATHS if (folder / f"{p.replace('.', '/')}.py").exists()] == []


def test_what_is_put_in_place_of_a_name_of_a_divided_module():
    """It takes the place of the name where it is defined, and goes again."""
    from unittest import mock

    from hybridgpu.gluon.nn import basic

    first = basic.Dense
    with mock.patch("hybridgpu.gluon.nn.basic_layers.Dense", 3):
        assert mx.gluon.nn.basic_layers.Dense == basic.Dense == 3
    assert mx.gluon.nn.basic_layers.Dense is basic.Dense is first
    mx.gluon.nn.basic_layers.of_a_program = 4
    assert mx.gluon.nn.basic_layers.of_a_program == 4 and not hasattr(basic, "of_a_program")
    del mx.gluon.nn.basic_layers.of_a_program
    assert not hasattr(mx.gluon.nn.basic_layers, "of_a_program")
    assert {"Dense", "BatchNorm"} <= {*dir(mx.gluon.nn.basic_layers)}


def test_a_package_that_is_one_file():
    import hybridgpu.kvstore.base

    assert hybridgpu.kvstore.base is mx.kvstore and mx.kvstore.__spec__.name == "hybridgpu.kvstore"


def test_a_name_that_is_nowhere_is_an_attribute_error_of_every_package() -> None:
    """Also where the package imports modules at their first use, which asks the import system, which asks the package."""
    found = [m.name for m in pkgutil.walk_packages(mx.__path__, f"{mx.__name__}.") if m.ispkg]
    assert len(found) > 20
    for name in found:
        package = importlib.import_module(name)
        with pytest.raises(AttributeError, match="has no attribute 'surely_not_here'"):
            package.surely_not_here  # noqa: B018
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module(f"{name}.surely_not_here")
