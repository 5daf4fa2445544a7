# SPDX-License-Identifier: Apache-2.0
"""What type checkers know of functions that are made at run time: stubs from records and definitions."""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest
from docs.test_docs import load

import hybridgpu as mx

PACKAGE = Path(mx.__file__).parent

#: a line -> the type of its expression, after the prefix ``hybridgpu.``; or the error that it is
LINES = {
    "nd.relu(a)": "ndarray.ndarray.NDArray",
    "mx.nd.sum(a, axis=(0, 1), keepdims=True)": "ndarray.ndarray.NDArray",
    "nd.FullyConnected(a, b, no_bias=True, num_hidden=3)": "ndarray.ndarray.NDArray",
    "nd.concat(a, b, dim=0)": "ndarray.ndarray.NDArray",
    "nd.maximum(a, 0.0)": "ndarray.ndarray.NDArray",
    "nd.contrib.box_nms(a)": "ndarray.ndarray.NDArray",
    "nd.linalg.gemm2(a, b)": "ndarray.ndarray.NDArray",
    "nd.random.normal(0, 1, shape=(2, 3), ctx=mx.cpu())": "ndarray.ndarray.NDArray",
    "mx.random.uniform(shape=(2,))": "ndarray.ndarray.NDArray",
    "a.exp().split_v2(2)": "Any",
    "a.exp().sum(axis=0)": "ndarray.ndarray.NDArray",
    "1.0 - a * b": "ndarray.ndarray.NDArray",
    "np.sum(x, axis=1)": "ndarray.numpy.array.ndarray",
    "np.sin(x) + 1": "ndarray.numpy.array.ndarray",
    "np.sqrt(2.0)": "float",
    "np.add(1, x)": "ndarray.numpy.array.ndarray",
    "np.split(x, 2)": "list[ndarray.numpy.array.ndarray]",
    "np.linalg.svd(x)[0]": "ndarray.numpy.array.ndarray",
    "np.random.uniform(0, 1, size=(2, 3))": "ndarray.numpy.array.ndarray",
    "npx.softmax(x, axis=-1)": "ndarray.numpy.array.ndarray",
    "x.mean(axis=0).reshape(-1).T[0]": "ndarray.numpy.array.ndarray",
    "nd.np.exp(x)": "ndarray.numpy.array.ndarray",
    "sym.FullyConnected(s, num_hidden=3)": "symbol.symbol.Symbol",
    "(1.0 - s) * sym.relu(s)": "symbol.symbol.Symbol",
    "sym.np.sum": "def (a: symbol.numpy.symbol._Symbol,",
    "gluon.Trainer({}, 'sgd').learning_rate": "float",
    "gluon.nn.Dense(3).explain(a)": "runtime.reports.explain.Explanation",
    "gluon.rnn.LSTM(3).explain(a)": "runtime.reports.explain.Explanation",
    "mx.optimizer.Adam(learning_rate=0.1)": "optimizer.adaptive.Adam",
    "np.random.choice(5, size=3)": "ndarray.numpy.array.ndarray",
    "[sample for sample in gluon.data.SimpleDataset([1])]": "list[Any]",
    "mx.lr_scheduler.FactorScheduler(stp=3)": 'Unexpected keyword argument "stp" for "FactorScheduler"',
    "nd.relu()": 'Missing positional argument "data" in call to "relu"',
    "nd.one_hot(a)": 'Missing positional argument "depth" in call to "one_hot"',
    "np.sum(x, axs=1)": 'Unexpected keyword argument "axs" for "sum"; did you mean "axis"?',
    "np.sum([1, 2])": 'Argument 1 to "sum" has incompatible type "list[int]"; expected "ndarray"',
    "nd.sum(a, axis='x')": 'Argument "axis" to "sum" has incompatible type "str"',
    "nd.rellu(a)": 'Module has no attribute "rellu"',
    "np.summ(x)": 'Module has no attribute "summ"',
    "a.rellu()": '"NDArray" has no attribute "rellu"',
    "x.reshap(3)": '"ndarray" has no attribute "reshap"',
    "mx.gluom": 'Module has no attribute "gluom"',
    "nd.relu(s)": 'Argument 1 to "relu" has incompatible type "Symbol"; expected "NDArray"',
}
HEAD = """
import hybridgpu as mx
from hybridgpu import autograd, gluon, nd, np, npx, sym
from hybridgpu.gluon import nn

a, b = nd.ones((2, 3)), nd.array([[1, 2, 3]])
x = np.array([[1, 2, 3], [4, 5, 6]])
s = sym.var("s")
"""
#: a program of a user's, in which there is nothing to find
PROGRAM = """
from typing import Any


class Net(gluon.HybridBlock):
    def __init__(self, units: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.body = nn.HybridSequential()
            self.body.add(nn.Dense(units, activation="relu"), nn.Dropout(0.5))
            self.out = nn.Dense(2)

    def forward(self, x: np.ndarray) -> np.ndarray:
        h: np.ndarray = self.body(np.tanh(x) * 0.5)
        return npx.log_softmax(self.out(h), axis=-1)


def train(data: np.ndarray, label: np.ndarray) -> float:
    net = Net(8)
    net.initialize(mx.init.Xavier(), ctx=mx.cpu())
    net.hybridize(static_alloc=True)
    loss = gluon.loss.SoftmaxCrossEntropyLoss(from_logits=True)
    schedule = mx.lr_scheduler.FactorScheduler(step=10, factor=0.9)
    trainer = gluon.Trainer(net.collect_params(), mx.optimizer.Adam(learning_rate=0.01, lr_scheduler=schedule))
    metric = mx.metric.Accuracy()
    for _ in range(3):
        with autograd.record():
            total: np.ndarray = loss(net(data), label).mean()
        total.backward()
        trainer.step(1)
        metric.update([label], [net(data)])
    return float(total.item()) + float(np.sqrt(np.sum(data**2)))


@mx.hybridize
def scaled(x: np.ndarray, k: float = 2.0) -> np.ndarray:
    return np.where(x > 0, x * k, np.zeros_like(x)).astype("float32")


npx.set_np()
print(train(np.random.normal(size=(4, 3)), np.array([0, 1, 0, 1])), scaled(x), nd.random.uniform(shape=(2,)).asnumpy())
"""
#: modules whose every public name a checker has to know
SPACES = (
    "mx mx.nd mx.nd.contrib mx.nd.linalg mx.nd.image mx.nd.random mx.nd.np mx.nd.npx mx.sym mx.sym.contrib mx.sym.linalg "
    "mx.sym.image mx.sym.random mx.sym.np mx.sym.npx mx.np mx.np.random mx.np.linalg mx.npx mx.npx.random mx.npx.image "
    "mx.random mx.gluon mx.gluon.nn mx.gluon.rnn mx.gluon.loss mx.gluon.data mx.gluon.data.vision mx.gluon.utils "
    "mx.autograd mx.optimizer mx.metric mx.init mx.lr_scheduler mx.io mx.image mx.kv mx.mod mx.contrib mx.util"
).split()


def found(path: str) -> object:
    value: object = mx
    for part in path.split(".")[1:]:
        value = getattr(value, part)
    return value


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """name of a program -> its lines, each with what mypy says."""
    pytest.importorskip("mypy")
    names = [f"{space}.{name}" for space in SPACES for name in dir(found(space)) if not name.startswith("_")]
    programs = {
        "lines": HEAD + "".join(f"reveal_type({line})\n" for line in LINES),
        "program": HEAD + PROGRAM,
        "names": "import hybridgpu as mx\n\n" + "\n".join(names),
    }
    folder = tmp_path_factory.mktemp("checked")
    for name, text in programs.items():
        (folder / f"{name}.py").write_text(text)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", "", *(str(p) for p in folder.glob("*.py"))]
    lines = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
    result: dict[str, list[tuple[str, str]]] = {name: [] for name in programs}
    for line in lines[:-1]:
        place, number, kind, text = re.fullmatch(r"(.*?):(\d+): (\w+): (.*)", line).groups()
        name = Path(place).stem
        assert name in programs, line
        source = programs[name].splitlines()[int(number) - 1]
        if kind == "error" or text.startswith("Revealed"):
            result[name].append((source, text))
    return result


def test_every_type_and_every_error(said):
    texts: dict[str, list[str]] = {}
    for source, text in said["lines"]:
        own = text.replace("hybridgpu.", "").removeprefix('Revealed type is "')
        texts.setdefault(source.removeprefix("reveal_type(")[:-1], []).append(own)
    for line, wanted in LINES.items():
        assert [text for text in texts[line] if text.startswith(wanted)], (line, texts[line])


def test_a_program_without_faults(said):
    assert said["program"] == []


def test_that_program_runs(tmp_path):
    file = tmp_path / "program.py"
    file.write_text(HEAD + PROGRAM)
    subprocess.run([sys.executable, str(file)], check=True, capture_output=True)


def test_every_public_name_is_known(said):
    assert said["names"] == []


def test_stubs_are_current():
    maker = load("make_stubs")
    made = maker.stubs()
    assert set(PACKAGE.rglob("*.pyi")) == set(made)
    for path, text in made.items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: run python docs/make_stubs.py"


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.pyi")), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_functions_of_stubs_exist(path):
    space = (
        ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        .removesuffix(".functions")
        .replace(".samplers", ".random")
    )
    if path.stem == "operator_methods":
        owner = mx.nd.ones((1,)) if "ndarray" in space else mx.sym.var("x")
    else:
        owner = importlib.import_module(f"hybridgpu.{space}")
    for name in re.findall(r"^ *def (\w+)", path.read_text(encoding="utf-8"), re.M):
        assert name == "__getattr__" or callable(inspect.getattr_static(owner, name, None) or getattr(owner, name))
