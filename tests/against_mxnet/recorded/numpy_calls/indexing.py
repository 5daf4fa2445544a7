# SPDX-License-Identifier: Apache-2.0
"""Gather, scatter, sorting and indices of np, and their gradients."""

from .values import TYPES


def indexing():
    f = "a('f4', (3, 4))"
    for at in ("a('i4', (2,), -2, 2)", "a('f4', (2, 2), 0, 2)", "a('i8', (), 0, 2)", "a('i4', (0,), 0, 1)"):
        yield from (
            f"np.take({f}, {at}{rest})"
            for rest in (", 0", ", 1", ", -1, 'clip'", ", 0, mode='wrap'", "", ", None, 'clip'")
        )
    yield from (f"np.take({f}, a('i4', (3,), -9, 9), 0, '{mode}')" for mode in ("clip", "wrap", "raise", "foo"))
    yield from (f"np.take(a('{kind}', (4,)), a('i4', (2,), 0, 3))" for kind in TYPES)
    for name in ("sort", "argsort"):
        yield from (f"np.{name}(a('{kind}', (3, 5), -2, 2))" for kind in TYPES)
        yield from (f"np.{name}(a('f4', (3, 5)){axis})" for axis in (", 0", ", None", ", -2", ", 2", ", order='a'"))
        yield from (f"np.{name}(a('f4', {shape}))" for shape in ("(0,)", "(0, 3)", "(1,)"))
    for kind in ("f2", "f4", "f8", "i4", "i8", "u1", "i1"):
        yield f"np.dot(a('{kind}', (2, 3)), a('{kind}', (3, 2)))"
        yield f"np.matmul(a('{kind}', (2, 3)), a('{kind}', (3, 2)))"
        yield f"np.tensordot(a('{kind}', (2, 3)), a('{kind}', (3, 2)), 1)"
        yield f"np.dot(a('{kind}', (3,)), a('{kind}', (3,), 0, 2))"
    pairs = (
        "(), ()",
        "(3,), (3,)",
        "(2, 3), (3,)",
        "(3,), (3, 2)",
        "(2, 2, 3), (3,)",
        "(2, 2, 3), (3, 4)",
        "(2, 3), (2, 3, 4)",
    )
    pairs += (
        "(), (3,)",
        "(2, 3), ()",
        "(2, 3), (2,)",
        "(2, 3), (4, 2)",
        "(3, 2, 4), (2, 4, 5)",
        "(0, 3), (3, 2)",
        "(2, 0), (0, 3)",
    )
    pairs += (
        "(2, 2, 3), (2, 3, 2)",
        "(2, 1, 2, 3), (3, 3, 2)",
        "(3,), (2, 3, 2)",
        "(0,), (0,)",
        "(2, 2, 3), (3, 3, 2)",
    )
    for pair in pairs:
        x, y = eval(pair)
        yield from (
            f"np.{name}(a('f4', {x}), a('f4', {y}, 0, 3))" for name in ("dot", "matmul", "inner", "outer", "vdot")
        )
    for rest in (
        "",
        ", 1",
        ", 0",
        ", ([1, 0], [0, 1])",
        ", (1, 0)",
        ", ((1,), (0,))",
        ", ([0], [1])",
        ", ((0, 1), (0,))",
        ", 3",
        ", (-1, 0)",
    ):
        yield f"np.tensordot(a('f4', (2, 3)), a('f4', (3, 2)){rest})"
    yield from (
        "np.tensordot(a('f4', (2, 3, 4)), a('f4', (4, 3, 2)), ([1, 2], [1, 0]))",
        "np.tensordot(a('f4', (2, 3)), a('f4', (2, 3)))",
    )
    yield from (
        "np.dot(a('f4', (2, 3)), 2)",
        "np.dot(a('f4', (2,)), a('f8', (2,)))",
        "np.matmul(a('f4', (2, 2)), a('f8', (2, 2)))",
        "np.dot(2, 3)",
    )
    yield from ("np.tensordot(a('f4', (0, 3)), a('f4', (3, 2)), 1)", "np.tensordot(a('f4', ()), a('f4', ()), 0)")


def indexing_gradients():
    yield from ("np.take(a('f4', (3, 4)), a('i4', (5,), 0, 2), 0)", "np.take(a('f4', (3, 4)), a('i4', (2, 2), 0, 11))")
    yield from ("np.sort(a('f4', (3, 5)))", "np.take(a('f4', (3, 4)), a('i4', (5,), -9, 9), 1, 'wrap')")
    for pair in (
        "(3,), (3,)",
        "(2, 3), (3,)",
        "(2, 2, 3), (3, 4)",
        "(2, 3), (3, 4)",
        "(), (3,)",
        "(2, 3), ()",
        "(), ()",
    ):
        x, y = eval(pair)
        yield f"np.dot(a('f4', {x}), a('f4', {y}, 0, 3))"
    for pair in (
        "(2, 3), (3, 4)",
        "(3,), (3, 2)",
        "(2, 2, 3), (3,)",
        "(2, 1, 2, 3), (3, 3, 2)",
        "(2, 2, 3), (2, 3, 2)",
    ):
        x, y = eval(pair)
        yield f"np.matmul(a('f4', {x}), a('f4', {y}, 0, 3))"
    yield from (
        "np.tensordot(a('f4', (2, 3, 4)), a('f4', (4, 3, 2)), ([1, 2], [1, 0]))",
        "np.tensordot(a('f4', (2, 3)), a('f4', (3, 2)), 1)",
    )
    yield from (
        "np.inner(a('f4', (2, 3)), a('f4', (4, 3)))",
        "np.outer(a('f4', (2,)), a('f4', (3,)))",
        "np.vdot(a('f4', (2, 3)), a('f4', (2, 3)))",
    )
