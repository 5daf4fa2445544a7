# SPDX-License-Identifier: Apache-2.0
"""What programs are found by: two that differ in anything that matters are never mixed up."""

from __future__ import annotations

import numpy as np
import pytest

import hybridgpu as mx
from hybridgpu.attribute import AttrScope
from hybridgpu.base import MXNetError
from hybridgpu.compiler.ir import tensor_type
from hybridgpu.compiler.program import Program
from hybridgpu.dtypes import f32
from hybridgpu.ops import OPERATORS
from hybridgpu.ops.record import operator
from hybridgpu.runtime import program
from hybridgpu.runtime.program import compiled
from hybridgpu.symbol.compose import make_node
from hybridgpu.symbol.lowering import structure

pytestmark = pytest.mark.usefixtures("compiler")


def test_every_record_of_ours_is_covered_by_the_hash_of_the_sources():
    assert {op.name for op in OPERATORS.values() if op.identity} == set()


def test_an_operator_declared_outside_and_declared_again():
    """Its source is not ours to hash: neither this process nor the next may run the old one's program."""
    for factor in (2, 3):
        operator("_outside", same_shape=True)(lambda b, p, data, factor=factor: data * factor)
        try:
            y = make_node(OPERATORS["_outside"], "_outside", [mx.sym.var("x")], {}, "y", None)
        finally:
            del OPERATORS["_outside"]
        (result,) = y.eval(ctx=mx.cpu(), x=mx.nd.array([1, -2]))
        np.testing.assert_array_equal(result.asnumpy(), [factor, -2 * factor])


def test_numpy_shape_semantics():
    """An extent of 0 is unknown without them, and the other operand tells it."""
    symbol = mx.sym.zeros(shape=(0, 3), name="z") + mx.sym.var("x")
    types = [tensor_type((2, 3), f32)]
    assert compiled(symbol, types, False, mx.cpu()).outputs == types
    with mx.util.np_shape(True), pytest.raises(MXNetError, match="Incompatible attr"):
        compiled(symbol, types, False, mx.cpu())


_GRAPHS = {  # text that makes y of x, and the lines that it has
    "kernels": ("y = sym.exp(x)\ny = sym.softmax(y) * 2", 2),
    "a weight kept in panels": ("y = sym.FullyConnected(x, w, no_bias=True, num_hidden=128,\n  name='layer')", 1),
    "a library step": ("y = sym.topk(sym.relu(x), k=2)", 1),
    "a loop": ("y, _ = sym.contrib.foreach(\n  lambda a, s: (sym.exp(a) + s,\n  s * 2), x, s)", 3),
}


def _made_at(line, text):
    """The symbol of a text of _GRAPHS that begins on a line of a file."""
    names = {"sym": mx.sym, "x": _variable("x"), "w": _variable("w"), "s": _variable("s")}
    AttrScope._subgraph_names.clear()  # as in a new process
    with mx.name.NameManager():
        exec(compile("\n" * (line - 1) + text, "moved.py", "exec"), names)
    return names["y"]


def _variable(name):
    symbol = mx.sym.var(name)
    symbol._heads[0][0].line = ""
    return symbol


@pytest.mark.parametrize("graph", _GRAPHS)
def test_lines_of_the_user_that_move(graph, monkeypatch):
    """Programs are found again when a script is edited, and tell of the lines as they are now."""
    text, lines = _GRAPHS[graph]
    old, new = _made_at(9, text), _made_at(99, text)
    shapes = {"x": (8, 64), "w": (128, 64), "s": (64,)}
    types = [tensor_type(shapes[n], f32) for n in new.list_inputs()]
    weights = frozenset(k for k, n in enumerate(new.list_inputs()) if n == "w")

    def made(symbol):
        return compiled(symbol, types, False, mx.cpu(), weights, constant=weights)

    before = repr(made(old).program)
    found = made(new)
    assert found.cache == "disk"
    told = repr(found.program)
    assert all(f"moved.py:{99 + k}" in told for k in range(lines)) and "moved.py:9'" not in told

    monkeypatch.setattr(program, "_stored", lambda *_: None)
    program._memory.clear()
    compiled_anew = made(new)
    assert compiled_anew.cache == "none" and repr(compiled_anew.program) == told
    assert told != before


def test_nodes_that_come_to_lie_on_lines_of_their_own():
    one, two = _made_at(1, "y = sym.exp(sym.relu(x))"), _made_at(1, "y = sym.relu(x)\ny = sym.exp(y)")
    assert structure(one).hash != structure(two).hash


@pytest.mark.parametrize(
    ("text", "moved"),
    [
        ("tanh  t0 a.py:1", "tanh  t0 a.py:2"),
        ("a.py:1", "a.py:2"),
        ("t0 my a.py:1", "t0 your a.py:3"),
        ("t0 ya.py:1", "t0 ya.py:1"),
        ("t0 a.py:1 -> f32", "t0 a.py:1 -> f32"),
        ("t0 a.py:12", "t0 a.py:12"),
        ("t0 a.py:1\n\tt1 b.py:9\n\nt2\ta.py:1\n", "t0 a.py:2\n\tt1 a.py:1\n\nt2\ta.py:2\n"),
        ("", ""),
    ],
)
def test_lines_are_words_at_the_end(text, moved):
    """At that of every line of a printed graph; one that has moved to another's place is not moved with that again."""
    lines = {"a.py:1": "a.py:2", "my a.py:1": "your a.py:3", "b.py:9": "a.py:1"}
    program = Program("p", "cpu", [], [], [], [], [], [], 0, graph=text, lines=[*lines, "c.py:5"])
    program.relocate(lines)
    assert program.graph == moved and program.lines == [*lines.values(), "c.py:5"]


def test_devices_of_one_kind(two_gpus):
    """Kernels that were loaded for one GPU do not run on another."""
    symbol, types = mx.sym.exp(mx.sym.var("x")), [tensor_type((4,), f32)]
    first, second = (compiled(symbol, types, False, mx.gpu(k)) for k in range(2))
    assert first.device is two_gpus[0] and second.device is two_gpus[1]
    assert compiled(symbol, types, False, mx.gpu(0)) is first


@pytest.fixture
def two_gpus(cuda_driver):
    """Two emulated GPUs with one driver."""
    from emulated import EmulatedDevice

    from hybridgpu.backends import devices

    old = devices._gpu_factory
    made = {}

    def factory(number):
        made[number] = EmulatedDevice(number, cuda_driver)
        return made[number]

    devices.use_gpu_devices(factory)
    yield made
    devices.use_gpu_devices(old)
