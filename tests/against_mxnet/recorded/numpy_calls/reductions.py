# SPDX-License-Identifier: Apache-2.0
"""Reductions of np, and their gradients."""

from .values import TYPES

AXES = (
    "",
    ", axis=1",
    ", axis=-1",
    ", axis=(0, 2)",
    ", axis=(-1, 0), keepdims=True",
    ", keepdims=True",
    ", axis=()",
    ", axis=3",
)


def reductions():
    for name in ("sum", "prod", "max", "min", "mean", "std", "var", "any", "all"):
        for kind in TYPES:
            yield f"np.{name}(a('{kind}', (3, 4), 0, 2), axis=0)"
            yield f"np.{name}(a('{kind}', (3, 4), 0, 2))"
            if name in ("sum", "prod", "mean", "std", "var"):
                yield f"np.{name}(a('{kind}', (3, 2), 0, 2), axis=1, dtype='float64')"
                yield f"np.{name}(a('{kind}', (3, 2), 0, 2), axis=1, dtype='int32')"
        yield from (f"np.{name}(a('f4', (2, 3, 4)){axes})" for axes in AXES)
        yield from (f"np.{name}(a('f4', {shape}))" for shape in ("()", "(1,)", "(0, 3)", "(3, 0)"))
        yield from (f"np.{name}(a('f4', {shape}), axis=1)" for shape in ("(0, 3)", "(3, 0)", "(3,)"))
        yield f"np.{name}(a('f4', (2, 3)), (0, 0))"
        yield f"np.{name}(a('f4', ()), axis=0)"
    for name in ("sum", "prod", "mean", "var"):
        yield f"np.{name}(a('f4', (9, 3), 0, 2), axis=0, dtype='float16')"
        yield f"np.{name}(a('f2', (9, 3), 0, 2), axis=0)"
    yield from (
        "np.var(a('f4', (2, 3)), axis=0, ddof=2)",
        "np.var(a('f4', (2, 3)), axis=(), ddof=1)",
        "np.std(a('f4', (2,)), ddof=2)",
    )
    yield from ("np.clip(1.5, 0, 1)", "np.squeeze(a('f4', ()), 0)", "np.squeeze(a('f4', ()), -1)")
    yield from ("np.sum(a('f4', (2, 3)), 0, None, True)", "np.sum(a('f4', (2, 3)), axis=0, initial=1.5)")
    yield from ("np.sum(a('i4', (2, 3)), dtype='bool')", "np.sum(a('f4', (2, 3)), axis=0, where=True)")
    yield from (
        "np.sometrue(a('f4', (2, 3)), axis=0)",
        "np.product(a('f4', (2, 3)), axis=0)",
        "np.amax(a('f4', (2, 3)))",
    )
    yield from (
        "np.amin(a('f4', (2, 3)), 0)",
        "np.var(a('f4', (5, 3)), axis=0, ddof=1)",
        "np.std(a('f4', (5, 3)), ddof=2)",
    )
    yield from ("np.std(a('f4', (1, 3)), axis=0, ddof=1)", "np.mean(a('f4', (2, 3)), axis=0, dtype='float16')")
    yield from (
        "np.sum([1, 2])",
        "np.mean([1, 2])",
        "np.sum(a('f4', (2,)), axs=1)",
        "np.sum(a('f4', (2,)), dtype='uint8')",
    )
    for name in ("argmax", "argmin"):
        yield from (f"np.{name}(a('{kind}', (3, 4), -2, 2), axis=1)" for kind in TYPES)
        yield from (f"np.{name}(a('f4', (2, 3, 4)){axis})" for axis in ("", ", 0", ", -1", ", 3"))
        yield from (f"np.{name}(a('f4', {shape}))" for shape in ("()", "(0, 3)"))
        yield from (f"np.{name}(a('f4', {shape}), 1)" for shape in ("(0, 3)", "(3, 0)"))
    for kind in TYPES:
        yield f"np.average(a('{kind}', (3, 4)))"
        yield f"np.average(a('{kind}', (3, 4)), axis=0, weights=a('{kind}', (3,), 1, 3))"
        yield f"np.cumsum(a('{kind}', (3, 4)))"
        yield f"np.cumsum(a('{kind}', (3, 4)), axis=1)"
        yield f"np.cumsum(a('{kind}', (3, 2)), axis=0, dtype='float64')"
        yield f"np.diff(a('{kind}', (3, 4)))"
    yield from ("np.average(a('f4', (3, 4)), weights=a('f4', (3, 4), 1, 2), returned=True)", "np.cumsum(a('f4', ()))")
    yield from ("np.average(a('f4', (3, 4)), axis=1, returned=True)", "np.average(a('f4', (3, 4)), (0, 1))")
    yield from (
        "np.average(a('f4', (3, 4)), weights=a('f4', (3,), 1, 2))",
        "np.average(a('f4', (3, 4)), 1, a('f4', (3,)))",
    )
    yield from ("np.cumsum(a('f4', (2, 3)), 2)", "np.cumsum(a('f4', (0, 3)), 0)", "np.cumsum(a('f4', (0, 3)))")
    yield from ("np.diff(a('f4', (3, 4)), 2)", "np.diff(a('f4', (3, 4)), 1, 0)", "np.diff(a('f4', (3, 4)), 5)")
    yield from (
        "np.diff(a('f4', (3, 4)), 0)",
        "np.diff(a('f4', (3, 4)), -1)",
        "np.diff(a('f4', (3, 4)), axis=2)",
        "np.diff(a('f4', ()))",
    )


def reductions_gradients():
    for name in ("sum", "mean", "prod", "max", "min", "std", "var"):
        yield f"np.{name}(a('f4', (3, 4)))"
        yield f"np.{name}(a('f4', (2, 3, 4)), axis=(0, 2))"
        yield f"np.{name}(a('f4', (2, 3, 4)), axis=1, keepdims=True)"
    yield from ("np.cumsum(a('f4', (3, 4)), axis=1)", "np.cumsum(a('f4', (3, 4)))", "np.diff(a('f4', (3, 4)), 2)")
    yield from ("np.average(a('f4', (3, 4)), 0, a('f4', (3,), 1, 2))", "np.average(a('f4', (3, 4)), 1)")
    yield from (
        "np.sum(a('i4', (3, 4)), axis=0)",
        "np.mean(a('f2', (3, 4)), axis=0)",
        "np.var(a('f4', (5, 3)), axis=0, ddof=1)",
    )
