# SPDX-License-Identifier: Apache-2.0
"""Inference with unknown extents, in both directions."""

from __future__ import annotations

import pytest

import hybridgpu as mx
from hybridgpu import sym


def var(name, shape):
    return sym.var(name, shape=shape)


def split_and_add():
    a = var("a", (0, 15, 0))
    return sym.SliceChannel(a, num_outputs=3)[1] + var("c", (3, 5, 2))


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: var("a", (0, 10)) + var("b", (12, 0)), {"a": (12, 10), "b": (12, 10)}),
        (
            lambda: sym.FullyConnected(var("a", (0, 10)), num_hidden=21, name="fc") + var("c", (5, 0)),
            {"a": (5, 10), "c": (5, 21), "fc_weight": (21, 10)},
        ),
        (split_and_add, {"a": (3, 15, 2)}),
        (
            lambda: var("d", (2, 0)) + sym.Concat(var("a", (0, 10)), var("b", (0, 5)), dim=1),
            {"a": (2, 10), "b": (2, 5), "d": (2, 15)},
        ),
        (lambda: sym.transpose(var("a", (0, 3))) + var("b", (3, 4)), {"a": (4, 3)}),
        (lambda: sym.tanh(var("a", (0, 0))) + var("b", (3, 4)), {"a": (3, 4)}),
        (lambda: sym.expand_dims(var("a", (0, 2)), axis=1) + var("b", (7, 1, 2)), {"a": (7, 2)}),
    ],
)
def test_extents_follow_both_ways(make, expected):
    s = make()
    shapes, _, _ = s.infer_shape()
    found = dict(zip(s.list_arguments(), shapes, strict=True))
    assert {k: found[k] for k in expected} == expected


x, y = sym.var("x"), sym.var("y")


@pytest.mark.parametrize(
    ("make", "given", "expected"),
    [
        (lambda: sym.np.dot(x, y), [(64, 1000), (-1, 100)], [(64, 1000), (1000, 100)]),
        (lambda: sym.np.dot(x, y), [(64, -1), (7, 100)], [(64, 7), (7, 100)]),
        (lambda: sym.np.dot(x, y), [(64, 1000), (-1,)], [(64, 1000), (1000,)]),
        (lambda: sym.np.dot(x, y), [(-1, 1000), (-1, 100)], [(-1, 1000), (1000, 100)]),
        (lambda: sym.np.dot(x, y), [(2, 3, 5), (4, -1, 7)], [(2, 3, 5), (4, 5, 7)]),
        (lambda: sym.np.matmul(x, y), [(64, 1000), (-1, 100)], [(64, 1000), (1000, 100)]),
        (lambda: sym.np.tensordot(x, y, axes=([1], [0])), [(64, 1000), (-1, 100)], [(64, 1000), (1000, 100)]),
        (lambda: sym.np.concatenate([x, y], axis=0), [(64, 1000), (3, -1)], [(64, 1000), (3, 1000)]),
        (lambda: x + y, [(64, 1000), (-1, 1000)], [(64, 1000), (-1, 1000)]),  # 1 or 64
        (lambda: sym.np.dot(x, y), [(64, -1), (-1, 100)], [(64, -1), (-1, 100)]),
    ],
)
def test_extents_that_another_input_has(make, given, expected, monkeypatch):
    with mx.util.np_shape():
        for name in "xy":
            monkeypatch.setitem(globals(), name, sym.var(name).as_np_ndarray())
        assert make().infer_shape_partial(x=given[0], y=given[1])[0] == expected


@pytest.mark.parametrize(
    ("make", "given", "expected"),
    [
        (lambda: sym.dot(x, y), {"x": (0, 3, 4), "y": (4, 5)}, (0, 3, 5)),
        (lambda: sym.batch_dot(x, y), {"x": (0, 3, 4), "y": (0, 4, 5)}, (0, 3, 5)),
        (lambda: sym.batch_dot(x, y), {"x": (0, 3, 4), "y": (0, 0, 5)}, ()),
        (lambda: sym.transpose(x, axes=(0, 3, 2, 1)), {"x": (0, 3, 224, 220)}, (0, 220, 224, 3)),
        (lambda: sym.pick(x, y, axis=1), {"x": (0, 3, 3), "y": (0, 3)}, (0, 3)),
        (lambda: sym.sum(x, axis=1), {"x": (0, 3, 0)}, (0, 0)),
        (lambda: sym.slice_axis(x, axis=0, begin=0, end=5), {"x": (10, 0)}, (5, 0)),
        (lambda: sym.slice_axis(x, axis=-1, begin=0, end=5), {"x": (10, 0)}, (10, 0)),
        (lambda: sym.slice_axis(x, axis=1, begin=2, end=None), {"x": (0, 7)}, (0, 5)),
        (lambda: sym.sin(x), {}, ()),
        (lambda: sym.where(sym.var("c"), x, y), {"c": (0, 2), "x": (0, 2), "y": (0, 2)}, ()),
        (lambda: sym.where(sym.var("c"), x, y), {"c": (0,), "x": (2, 2), "y": (2, 2)}, ()),
        (lambda: sym.where(sym.var("c"), x, y), {"c": (3,), "y": (3, 2)}, (3, 2)),
    ],
)
@pytest.mark.parametrize("np_shape", [False, True])
def test_partial_results(make, given, expected, np_shape):
    unknown = -1 if np_shape else 0
    given = {k: tuple(d or unknown for d in s) for k, s in given.items()}
    with mx.np_shape(np_shape):
        _, (got,), _ = make().infer_shape_partial(**given)
    assert got == (None if np_shape and expected == () else tuple(d or unknown for d in expected))


def test_branches_follow_from_the_result_of_where_but_the_condition_does_not():
    chosen = sym.where(sym.var("c"), x, y) + sym.var("z", shape=(3, 2))
    assert chosen.infer_shape_partial()[0] == [(), (), (), (3, 2)]
    assert chosen.infer_shape(c=(3,))[0] == [(3,), (3, 2), (3, 2), (3, 2)]


@pytest.mark.parametrize("name", ["normal", "uniform", "gamma", "exponential", "poisson", "randn", "randint"])
@pytest.mark.parametrize("shape", [None, (), (0, 4)])
def test_random_numbers_as_many_as_needed(name, shape):
    parameters = (1, 5) if name == "randint" else ()
    given = {} if shape is None else {"shape": shape}
    draw = getattr(sym.random, name)
    drawn = draw(*shape or ()) if name == "randn" else draw(*parameters, **given)
    total = drawn + x
    dtype = "int32" if name == "randint" else "float32"
    assert total.infer_shape(x=(3, 4)) == ([(3, 4)], [(3, 4)], [])
    values = total.eval(x=mx.nd.zeros((3, 4), dtype=dtype))[0].asnumpy()
    assert values.shape == (3, 4)
    assert len(set(values.ravel().tolist())) > 1
    with pytest.warns(UserWarning, match="Cannot decide shape"):
        assert drawn.infer_shape() == (None, None, None)
    with pytest.raises(mx.MXNetError, match="inferring shapes failed"):
        drawn.eval()


def test_contradictions_name_the_node():
    s = sym.elemwise_add(var("a", (0, 3)), var("b", (2, 4)), name="total")
    with pytest.raises(mx.MXNetError, match=r"Error in operator total: Shape inconsistent"):
        s.infer_shape()


def test_np_shape_is_written_and_read():
    with mx.np_shape():
        assert '"is_np_shape": ["int", 1]' in sym.sin(x).tojson()
    old = (var("w", (3, 0)) + 1).tojson()
    assert "is_np_shape" not in old
    with mx.np_shape():  # 0 meant unknown when it was written
        assert sym.load_json(old).infer_shape(w=(3, 5))[1] == [(3, 5)]


def test_a_split_into_one_part_is_a_list_too():
    with mx.util.np_shape():
        (part,) = sym.np.split(sym.var("x").as_np_ndarray(), 1)
        assert part.infer_shape(x=(2, 3))[1] == [(2, 3)]
