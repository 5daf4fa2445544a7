# SPDX-License-Identifier: Apache-2.0
"""Reading and writing parts of arrays with random keys: traced and eager give the same, or refuse alike."""

import random

import numpy as onp
import pytest

import hybridgpu as mx
from hybridgpu import gluon, nd

SHAPES = [(4,), (3, 5), (2, 3, 4), (1, 4, 1)]


def bound(rng, extent):
    return rng.choice([None, None, rng.randint(-extent - 1, extent + 1)])


def part(rng, extent, advanced):
    kind = rng.choice(["slice", "slice", "integer", "whole"] + ["list", "array"] * advanced)
    if kind == "slice":
        return slice(bound(rng, extent), bound(rng, extent), rng.choice([None, 1, 2, -1, -2]))
    if kind == "integer":
        return rng.randint(-extent, extent - 1)
    if kind == "whole":
        return slice(None)
    values = [rng.randint(-extent, extent - 1) for _ in range(2)]
    return values if kind == "list" else onp.array(values)


def key_for(rng, shape, advanced):
    parts = [part(rng, d, advanced) for d in shape[: rng.randint(1, len(shape))]]
    if rng.random() < 0.3:
        parts.insert(rng.randint(0, len(parts)), None)
    if rng.random() < 0.3 and len([p for p in parts if p is not None]) < len(shape):
        parts.insert(rng.randint(0, len(parts)), Ellipsis)
    return tuple(parts) if len(parts) > 1 or rng.random() < 0.5 else parts[0]


def outcome(call):
    try:
        return call()
    except (IndexError, ValueError, mx.MXNetError) as e:
        return type(e)


@pytest.fixture(params=["nd", "np"])
def interface(request):
    if request.param == "nd":
        yield nd.array
        return
    mx.npx.set_np()
    yield mx.np.array
    mx.npx.reset_np()


@pytest.mark.parametrize("advanced", [False, True], ids=["slices", "arrays"])
def test_random_keys(interface, advanced, no_compiler):
    rng = random.Random(23)
    read = 0
    for number in range(120):
        shape = rng.choice(SHAPES)
        key = key_for(rng, shape, advanced)
        values = onp.arange(onp.prod(shape), dtype=onp.float32).reshape(shape)

        def body(x, key=key):
            part = x[key] * 2
            y = x + 0
            y[key] = 100
            z = x + 0
            z[key] = x[key] + 0.5
            return part, y, z

        expected = outcome(lambda: [r.asnumpy() for r in body(interface(values))])
        got = outcome(lambda: [r.asnumpy() for r in mx.hybridize(body)(interface(values))])
        if isinstance(expected, type):
            assert got is expected or isinstance(got, type), (number, shape, key, got)
            continue
        assert not isinstance(got, type), (number, shape, key, got)
        read += 1
        for a, b in zip(got, expected, strict=True):
            assert a.shape == b.shape, (number, shape, key)
            onp.testing.assert_array_equal(a, b, err_msg=f"{number} {shape} {key}")
    assert read > 60


def test_random_views(interface, no_compiler):
    """Parts of parts: writing into one shows in all that share its memory."""
    rng = random.Random(23)
    for number in range(60):
        shape = rng.choice(SHAPES[1:])
        keys = [rng.randint(-shape[0], shape[0] - 1), slice(bound(rng, shape[1]), bound(rng, shape[1]))]
        rng.shuffle(keys)
        flat = rng.random() < 0.5
        values = onp.arange(onp.prod(shape), dtype=onp.float32).reshape(shape)

        def body(x, keys=tuple(keys), flat=flat):
            y = x + 0
            view = y.reshape((-1,)) if flat else y
            found = [view]
            for key in keys:
                if len(found[-1].shape):
                    found.append(found[-1][key])
            for k, v in enumerate(found[1:]):
                v[...] = -k - 1 if k % 2 else v + 50
            y += 1
            return y, *found

        expected = outcome(lambda: [r.asnumpy() for r in body(interface(values))])
        got = outcome(lambda: [r.asnumpy() for r in mx.hybridize(body)(interface(values))])
        if isinstance(expected, type):  # of np a part of no axes, which takes () alone
            continue
        assert not isinstance(got, type), (number, shape, keys, got)
        for a, b in zip(got, expected, strict=True):
            onp.testing.assert_array_equal(a, b, err_msg=f"{number} {shape} {keys} {flat}")


NUMBERS = {
    "integer": lambda x: x[1],
    "integers": lambda x: x.reshape((1, 3))[0, 1],
    "positions": lambda x: x[onp.array(1)],
    "row": lambda x: [row + 1 for row in x][1],
    "loop": lambda x: mx.nd.contrib.foreach(lambda row, state: (row + state, state), x, x[1])[0],
}


@pytest.mark.parametrize("semantics", [(0, 0), (0, 1), (1, 0), (1, 1)], ids=lambda s: f"shape{s[0]}-array{s[1]}")
@pytest.mark.parametrize("name", NUMBERS)
def test_one_element_has_the_shape_that_it_has_without_a_trace(name, semantics, no_compiler):
    shape, array = semantics
    with mx.np_shape(shape), mx.np_array(array):
        for x in (nd.arange(3), nd.arange(3).as_np_ndarray()):
            expected, got = NUMBERS[name](x), mx.hybridize(NUMBERS[name])(x)
            assert (type(got), got.shape) == (type(expected), expected.shape)
            assert got.asnumpy().tolist() == expected.asnumpy().tolist()


NP_KEYS = [True, False, (True, 0), (0, True), (slice(None), False), (True, True), (None, True), None, (None, Ellipsis)]
NP_KEYS += [
    onp.array(True),
    onp.bool_(True),
    [True, False],
    (Ellipsis, None, 1),
    9,
    (0, 9),
    (0, 0, 0),
    slice(3, 1),
    "a",
    1.5,
]
NP_VALUES = {
    "a number": 7,
    "a row": onp.ones(3),
    "too long": onp.ones(7),
    "too many axes": onp.ones((2, 2, 3)),
    "nan": None,
}


@pytest.mark.parametrize("key", NP_KEYS, ids=repr)
def test_keys_of_np_select_write_and_are_refused_as_without_a_trace(key, no_compiler):
    def written(value):
        def body(x):
            x[key] = value
            return x * 1

        return body

    bodies = [lambda x: x[key] * 2, lambda x: list(x[key].shape) and x + x[key].sum()]
    for body in (*bodies, *map(written, NP_VALUES.values())):
        found = []
        for call in (body, mx.hybridize(body)):
            x = mx.np.arange(6).reshape(2, 3)
            try:
                result = call(x).asnumpy()
                found.append((result.shape, str(result.tolist()), str(x.asnumpy().tolist())))
            except (IndexError, ValueError, TypeError, NotImplementedError, mx.MXNetError) as e:
                found.append((type(e), str(e).split(" (")[0].split("\n")[0]))
        if found[0][0] is mx.MXNetError and isinstance(
            key, bool
        ):  # a trace knows no masks: its words are those of parts
            found = [(kind, "") for kind, _ in found]
        assert found[1] == found[0]


def test_an_array_of_no_axes_has_no_elements_to_go_through(no_compiler):
    with mx.np_shape():
        total = mx.hybridize(lambda x: x + len(list(x.sum())))
        assert total(mx.np.ones((2,))).asnumpy().tolist() == [1, 1]


def wrote(key, value):
    def body(x):
        y = x * 1
        y[key] = value(x) if callable(value) else value
        return y

    return body


def wrote_views(x):
    y = x * 1
    row, last, flat = y[1], y[-1:], y.reshape((-1,))
    row += 1
    last[:] = 0
    flat[0] = 7
    return y


ALL = slice(None)
#: what names no extent, of arrays of shape (n, 3, 2)
OF_ANY_EXTENT = {
    "column": lambda x: x[:, 0],
    "last column": lambda x: x[:, -1],
    "last row": lambda x: x[-1],
    "one element": lambda x: x[-1, 0, 1],
    "last of the last axis": lambda x: x[..., -1:],
    "new axis": lambda x: x[:, None],
    "new axis behind": lambda x: x[..., None],
    "column and new axis": lambda x: x[:, -1, :, None],
    "all but the first": lambda x: x[1:],
    "all but the last": lambda x: x[:-1],
    "the last two": lambda x: x[-2:],
    "at most a hundred": lambda x: x[:100],
    "of a hundred": lambda x: x[-100:],
    "every second": lambda x: x[::2],
    "backwards": lambda x: x[::-1],
    "backwards from the last": lambda x: x[100:0:-1],
    "columns backwards": lambda x: x[:, -1:-3:-1],
    "positions": lambda x: x[:, [0, 2]],
    "rows and columns": lambda x: x[1:, 1] + x[:-1, 2],
    "reshape": lambda x: x.reshape((-1, 2)),
    "a number written": wrote((ALL, 0), 5),
    "a column written": wrote((ALL, 0), lambda x: x[:, 1]),
    "a row written": wrote(ALL, lambda x: x[0]),
    "a row written into a column": wrote((ALL, 0), lambda x: x[0, 1]),
    "an element written": wrote((ALL, -1), lambda x: x[:1, 0, :1]),
    "every second written": wrote(slice(None, None, 2), 0),
    "the last written": wrote(-1, lambda x: x[0]),
    "a new axis written": wrote((ALL, None), lambda x: x[:, None] + 1),
    "positions written": wrote((ALL, [0, 1]), lambda x: x[:, 1:]),
    "views": wrote_views,
}
#: with nd's methods
OF_ANY_EXTENT_ND = {
    "codes": lambda x: x.reshape((0, -1)),
    "joined axes": lambda x: x.reshape((-3, 0)),
    "numbers": lambda x: x.reshape(-1, 6),
    "reversed codes": lambda x: x.reshape((-1, 0), reverse=True),
    "flat": lambda x: x.flatten(inplace=True),
    "like": lambda x: x.mean(axis=1, keepdims=True).broadcast_like(x),
    "shape like": lambda x: x.reshape((-1,)).reshape_like(x),
}
_ROWS = [("nd", b) for b in OF_ANY_EXTENT | OF_ANY_EXTENT_ND] + [("np", b) for b in OF_ANY_EXTENT]


@pytest.mark.parametrize(("interface", "name"), _ROWS, indirect=["interface"])
def test_the_file_of_a_trace_holds_for_extents_that_its_keys_do_not_name(interface, name, tmp_path, no_compiler):
    body = (OF_ANY_EXTENT | OF_ANY_EXTENT_ND)[name]

    class Net(gluon.HybridBlock):
        def forward(self, x):
            return body(x)

    def numbers(rows):
        return interface(onp.arange(rows * 6, dtype=onp.float32).reshape(rows, 3, 2))

    net, path = Net(), str(tmp_path / "net")
    net.hybridize()
    net(numbers(4))
    net.export(path)
    again = gluon.SymbolBlock.imports(f"{path}-symbol.json", ["data"], f"{path}-0000.params")
    for rows in (4, 7, 2):
        onp.testing.assert_array_equal(again(numbers(rows)).asnumpy(), body(numbers(rows)).asnumpy())
