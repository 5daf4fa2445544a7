# SPDX-License-Identifier: Apache-2.0
"""Where NumPy's interface is found, and that its arrays and the legacy ones do not mix."""

import inspect
import subprocess
import sys

import numpy as onp
import pytest

import hybridgpu as mx
from hybridgpu import nd, np, npx, sym


@pytest.fixture
def a():
    return nd.ones((2, 3)).as_np_ndarray()


def test_one_function_in_every_namespace(a):
    for space in (mx.np, mx.nd.np, mx.nd.numpy):
        assert type(space.add(a, 1)) is np.ndarray
    x = sym.var("x").as_np_ndarray()
    for space in (mx.sym.np, mx.sym.numpy):
        assert type(space.add(x, 1)).__name__ == "_Symbol"
    assert mx.np.add.__name__ == "add" and mx.np.add.__module__ == "hybridgpu.numpy"


@pytest.mark.parametrize(
    "statement",
    [
        "import hybridgpu.numpy",
        "import hybridgpu.numpy_extension",
        "from hybridgpu import np, npx",
        "import hybridgpu.numpy.random, hybridgpu.numpy.linalg",
        "import hybridgpu.ndarray.numpy.random, hybridgpu.symbol.numpy_extension",
        "from hybridgpu.ndarray import np, npx",
        "from hybridgpu.symbol import np, npx",
        "from hybridgpu.numpy_extension import relu",
    ],
)
def test_import_statements(statement):
    exec(statement)


def test_what_completion_and_help_show():
    for space, own in ((np, {"sum", "array", "linalg", "ndarray"}), (npx, {"relu", "set_np", "image"})):
        listed = {n for n in dir(space) if not n.startswith("__")}
        assert own <= listed and not listed & {"Any", "Functions", "sys", "_functions", "_table"}
        assert all(hasattr(space, n) for n in listed)
    assert {n for n in dir(np.linalg) if not n.startswith("__")} >= {"norm", "svd"}
    assert str(inspect.signature(np.random.normal)) == "(loc=0.0, scale=1.0, size=None, dtype=None, ctx=None, out=None)"


def test_operators_are_declared_at_the_first_use():
    script = (
        "import sys, hybridgpu as mx; from hybridgpu import gluon; mx.nd.ones((1,)).sum();"
        "assert 'hybridgpu.ops.numpy' not in sys.modules; {};"
        "assert 'hybridgpu.ops.numpy' in sys.modules"
    )
    for use in ("mx.np.add", "mx.nd._internal._npi_add", "mx.sym.np.add"):
        subprocess.run([sys.executable, "-c", script.format(use)], check=True)


def test_legacy_and_np_arrays_do_not_mix(a):
    b = nd.ones((2, 3))
    x, y = sym.var("x").as_np_ndarray(), sym.var("y")
    numpy, legacy = "can only accept MXNet numpy ndarrays", "can only accept legacy ndarrays"
    rows = [
        (lambda: np.sum(b), f"Operator `_np_sum` registered in backend is known as `sum`.*{numpy}"),
        (lambda: np.sum(a, out=b), numpy),
        (lambda: npx.relu(b), f"Operator `_npx_relu` registered in backend is known as `relu`.*{numpy}"),
        (lambda: nd.relu(a), f"Operator `relu` registered in backend is known as `relu`.*{legacy}"),
        (lambda: nd.relu(b, out=a), "can only write to legacy ndarrays"),
        (lambda: np.add(a, b), "type <class '.*NDArray'> not supported"),
        (lambda: np.add(a, "x"), "type <class 'str'> not supported"),
        (lambda: sym.relu(x), legacy),
        (lambda: sym.npx.relu(y), numpy),
    ]
    for call, message in rows:
        with pytest.raises(TypeError, match=message):
            call()
    with pytest.raises(AssertionError, match="Argument a must have NDArray type, but got "):
        np.sum([1, 2])


NUMPY = "type <class 'numpy.ndarray'> not supported\n"
NO_ARRAY = "Argument {} must have NDArray type, but got "


@pytest.mark.parametrize(
    ("code", "text"),
    [
        *((code.format(op), NUMPY) for op in "+ - * / % ** & | ^ == <".split() for code in ("a {} o", "o {} a")),
        *((f"o {op} a", NUMPY) for op in ("+=", "-=", "*=", "/=")),
        *((f"a {op} o", NUMPY) for op in ("+=", "-=", "*=", "/=")),
        ("onp.subtract(o, a)", NUMPY),
        ("np.maximum(o, a)", NUMPY),
        ("np.where(a, a, o)", NUMPY),
        ("np.where(a, o, a)", NUMPY),
        ("np.where(a, o, 1)", NUMPY),
        ("np.exp(o)", NUMPY),
        ("a @ o", NO_ARRAY.format("b")),
        ("o @ a", NO_ARRAY.format("a")),
        ("np.dot(a, o)", NO_ARRAY.format("b")),
        ("np.dot(o, a)", NO_ARRAY.format("a")),
        ("onp.dot(a, o)", NO_ARRAY.format("b")),
        ("a.dot(o)", NO_ARRAY.format("b")),
        ("np.sum(o)", NO_ARRAY.format("a")),
        ("np.concatenate([a, o])", "Positional arguments must have NDArray type, but got "),
        ("npx.relu(o)", NO_ARRAY.format("data")),
    ],
)
def test_arrays_of_numpy_are_refused_alike(code, text):
    """With a TypeError that names them, whichever side they are on; MXNet's functions raise AssertionError, which it is, too."""
    scope = {"np": np, "npx": npx, "onp": onp, "a": np.ones((2, 2)), "o": onp.ones((2, 2), "float32")}
    with pytest.raises(TypeError) as error:
        exec(code, scope)
    assert str(error.value).startswith(text)
    assert isinstance(error.value, AssertionError) == text.startswith(("Argument", "Positional"))
    assert "Make it an array first: mx.np.array(values, dtype=values.dtype). (" in str(error.value)


def test_both_kinds_share_memory_and_history():
    b = nd.ones((3,))
    b.attach_grad()
    with mx.autograd.record():
        y = np.add(b.as_np_ndarray(), 1).as_nd_ndarray() * 2
    y.backward()
    assert type(y) is nd.NDArray and b.grad.asnumpy().tolist() == [2, 2, 2]
    shared = b.as_np_ndarray()
    b[:] = 7
    assert shared.asnumpy().tolist() == [7, 7, 7] and shared.as_np_ndarray() is shared


def test_gradients_are_np_arrays(a):
    a.attach_grad()
    with mx.autograd.record():
        y = np.sum(npx.relu(np.add(a, 1)))
    assert y.shape == ()
    y.backward()
    assert type(a.grad) is np.ndarray and a.grad.asnumpy().tolist() == [[1, 1, 1]] * 2


def test_functions_of_operators_take_their_keywords():
    """In nd.np and sym.np: ``data`` where the operator calls it so, ``out``, and ``attr`` of a Symbol's node."""
    with mx.util.np_shape(True), mx.util.np_array(True):
        x = mx.np.array([1.0, 2.0])
        out = mx.np.zeros((4,))
        assert mx.nd.np.repeat(data=x, repeats=2, out=out) is out
        assert out.asnumpy().tolist() == [1, 1, 2, 2]
        s = mx.sym.var("x").as_np_ndarray()
        for made in (mx.sym.np.all(data=s, attr={"__layout__": "a"}), mx.sym.npx.relu(s, attr={"__layout__": "a"})):
            assert made.attr("__layout__") == "a"
        assert mx.sym.np.sum(s).attr("__layout__") is None
