# SPDX-License-Identifier: Apache-2.0
"""Calls of np that the real MXNet has answered, as expressions, made from tables.

In an expression ``np`` is the module and ``a(type, shape)`` an array whose values follow from its arguments; quarters and
whole numbers, so that every float type holds them. ``record_numpy_calls.py`` beside this file runs them in MXNet.
"""

import zlib

TYPES = {"f2": "float16", "f4": "float32", "f8": "float64", "i1": "int8", "u1": "uint8", "i4": "int32", "i8": "int64"}
TYPES["b1"] = "bool"
FLOATS, WHOLE = ("f2", "f4", "f8"), ("i1", "u1", "i4", "i8", "b1")


def values(onp, kind, shape, low=-3, high=3):
    """The values of ``a(kind, shape, low, high)``."""
    rng = onp.random.RandomState(zlib.crc32(repr((kind, tuple(shape), low, high)).encode()) % (1 << 31))
    if kind == "b1":
        return rng.randint(0, 2, shape).astype("bool")
    if kind in FLOATS:
        return (rng.randint(4 * low, 4 * high + 1, shape) / 4.0).astype(TYPES[kind])
    return rng.randint(max(low, 0) if kind == "u1" else low, high + 1, shape).astype(TYPES[kind])


UNARY = (
    "absolute abs fabs negative sign rint ceil floor trunc fix square sqrt cbrt exp expm1 log log10 log2 log1p sin cos tan "
    "arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh degrees radians reciprocal logical_not isnan isinf "
    "isposinf isneginf isfinite bitwise_not invert around"
).split()
BINARY = (
    "add subtract multiply divide mod power maximum minimum arctan2 hypot copysign ldexp lcm bitwise_and bitwise_or "
    "bitwise_xor equal not_equal greater greater_equal less less_equal"
).split()
PAIRS = [(k, k) for k in TYPES] + [
    *[("f4", k) for k in ("f2", "f8", "i4", "b1")],
    *[("i4", k) for k in ("f2", "f4", "i1", "i8", "u1", "b1")],
    *[("i1", "u1"), ("b1", "i8"), ("i8", "f2"), ("u1", "f8"), ("f8", "i8")],
]
SMOOTH = "absolute negative square exp sin cos arctan tanh sinh arcsinh reciprocal degrees radians sign floor".split()


def elementwise():
    for name in UNARY:
        for kind in TYPES:
            yield f"np.{name}(a('{kind}', (2, 6)))"
        yield f"np.{name}(1)"
    yield from (f"np.{name}(a('f4', {shape}))" for name in ("sin", "isnan", "rint") for shape in ("()", "(0, 3)"))
    for name in BINARY:
        for x, y in PAIRS:
            low = 1 if name in ("power", "mod") and y in WHOLE else -3
            yield f"np.{name}(a('{x}', (2, 4)), a('{y}', (2, 4), {low}, 4))"
        kind = "i4" if name in ("lcm", "bitwise_and", "bitwise_or", "bitwise_xor") else "f4"
        for s, t in (("(2, 1, 4)", "(3, 1)"), ("()", "(2, 3)"), ("()", "()"), ("(0, 3)", "(1, 3)"), ("(2, 3)", "(4,)")):
            yield f"np.{name}(a('{kind}', {s}, 1, 4), a('{kind}', {t}, 1, 4))"
        for kind in TYPES:
            if name == "lcm":
                continue
            for number in ("2", "1.5", "-1"):
                yield f"np.{name}(a('{kind}', (5,)), {number})"
                yield f"np.{name}({number}, a('{kind}', (5,), 1, 5))"
        yield f"np.{name}(2, 3)"
        yield f"np.{name}(a('f4', (2,)), 'x')"
    for decimals in (1, -1):
        yield from (f"np.around(a('{kind}', (6,), -60, 60), {decimals})" for kind in TYPES)
    for kind in TYPES:
        yield f"np.clip(a('{kind}', (2, 6)), 0, 2)"
        yield f"np.where(a('{kind}', (2, 1), 0, 1), a('f4', (3,)), a('f4', (2, 3)))"
        yield f"np.where(a('b1', (2, 1)), a('{kind}', (3,)), a('{kind}', (2, 3)))"
        yield f"np.where(a('b1', (2, 1)), 1.7, a('{kind}', (2, 3)))"
        yield f"np.where(a('b1', (2, 1)), a('{kind}', (3,)), 2)"
        yield f"np.where(a('{kind}', (2, 3), 0, 1), 1.7, 3)"
        yield f"np.nan_to_num(np.divide(a('{kind}', (4,)), a('{kind}', (4,), 0, 0)))"
    yield from (
        "np.clip(a('f4', (5,)), None, 1)",
        "np.clip(a('f4', (5,)), -1, None)",
        "np.clip(a('f4', (2,)), None, None)",
    )
    yield from (
        "np.where(a('b1', (2,)), a('f4', (2,)), a('i4', (2,)))",
        "np.where(True, 1, 2)",
        "np.sin(a('f4', (2,)), foo=1)",
    )
    yield from (
        "np.sin(a('f4', (2,)), dtype='int8')",
        "np.add(a('f4', (2,)), 1, where=False)",
        "np.sin('x')",
        "np.sin([1])",
    )


def elementwise_gradients():
    yield from (f"np.{name}(np.multiply(a('f4', (2, 3), 1, 2), 0.5))" for name in SMOOTH)
    for name in ("add", "subtract", "multiply", "divide", "mod", "power", "arctan2", "hypot", "copysign", "ldexp"):
        yield f"np.{name}(a('f4', (2, 1, 3), 1, 3), a('f4', (2, 1), 1, 3))"
        yield f"np.{name}(a('f4', (3,), 1, 3), 1.5)"
        yield f"np.{name}(1.5, a('f4', (3,), 1, 3))"
    for name in ("add", "subtract", "multiply", "mod", "power", "divide"):
        yield f"np.{name}(a('f4', (2, 3), 1, 3), a('i4', (3,), 1, 3))"
        yield (
            f"np.{name}(a('f2', (2, 3), 1, 3), a('f8', (3,), 1, 3))" if name != "divide" else "np.add(a('f4', (2,)), 1)"
        )
    for name in ("maximum", "minimum"):
        yield f"np.{name}(a('f4', (4, 3), 0, 1), a('f4', (3,), 0, 1))"
    yield "np.where(a('b1', (2, 1)), a('f4', (3,)), a('f4', (2, 3)))"
    yield "np.where(a('b1', (2, 1)), 2, a('f4', (2, 3)))"
    yield "np.where(a('b1', (2, 3)), a('f4', (3,)), 2)"
    yield "np.clip(a('f4', (3, 4)), -1, 1)"
    yield "np.nan_to_num(a('f4', (5,)))"


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


ARRAYS = "a('f4', (2, 3)), a('f4', (2, 3))"


def shapes():
    f = "a('f4', (2, 3, 4))"
    for shape in ("-1", "(6, 4)", "(-1, 4)", "(2, -1, 2)", "(4, 7)", "()", "(0, -1)", "(-1, -1)", "(-2, 24)", "24"):
        yield f"np.reshape({f}, {shape})"
    yield from (
        "np.reshape(a('f4', (1, 1)), ())",
        "np.reshape(a('f4', ()), (1, 1))",
        "np.reshape(a('f4', (0, 3)), (3, 0))",
    )
    yield from (
        "np.reshape(a('f4', (2, 3)), (3, 2), order='F')",
        "np.reshape(a('f4', (0, 3)), (-1, 3))",
        "np.reshape([1], 1)",
    )
    for shape in (
        "(-2, -1)",
        "(-3, 4)",
        "(-4,)",
        "(-2, -5)",
        "(-2, -6, 1, -1, -4)",
        "(-6, 2, -1, -5)",
        "(-1, 4)",
        "(-5, -2)",
    ):
        yield f"npx.reshape({f}, {shape})"
    yield from (f"npx.reshape({f}, (-4, 2, 2), reverse=True)", f"npx.reshape({f}, (-5, -2), reverse=True)")
    yield from (
        "npx.reshape(a('f4', (2, 1, 3)), (-2, -3, -2))",
        "npx.reshape(a('f4', (2, 3)), (-2, -3))",
        f"npx.reshape({f}, (5, 5))",
    )
    yield from (
        "npx.reshape(a('f4', (0, 3)), (-1, 3))",
        "npx.reshape(a('f4', (2, 3)), (-7,))",
        "npx.reshape(a('f4', (6,)), (-6, 4, 2))",
    )
    yield from (
        f"np.transpose({f}{axes})" for axes in ("", ", (1, 0, 2)", ", (-1, 0, 1)", ", (0, 1)", ", (0, 0, 1)", ", None")
    )
    yield from (f"np.transpose(a('i4', {shape}))" for shape in ("()", "(3,)", "(0, 3)"))
    yield from (f"np.swapaxes({f}, {axes})" for axes in ("0, 2", "0, -1", "1, 1", "0, 3"))
    yield from (
        f"np.moveaxis({f}, {axes})"
        for axes in ("0, -1", "2, 0", "(0, 1), (2, 0)", "(0, 1), (-1, -2)", "0, 3", "(0, 1), 2", "(0, 0), (1, 2)")
    )
    yield from (f"np.squeeze(a('f4', (1, 2, 1)){axis})" for axis in ("", ", 0", ", (0, 2)", ", -1", ", 1", ", 3"))
    yield from ("np.squeeze(a('f4', (1, 1)))", "np.squeeze(a('f4', ()))", "np.squeeze(a('f4', (1, 0)))")
    yield from (f"np.expand_dims(a('f4', (2, 3)), {axis})" for axis in (0, 2, -1, -3, 3, 4))
    yield "np.expand_dims(a('f4', ()), 0)"
    yield from (
        f"np.broadcast_to(a('i4', (1, 3)), {shape})" for shape in ("(2, 3)", "(4, 2, 3)", "(2, 4)", "(1, 3)", "(3,)")
    )
    yield from (
        "np.broadcast_to(a('f4', ()), (2,))",
        "np.broadcast_to(2, (2, 2))",
        "np.broadcast_arrays(a('f4', (2, 1)), a('f4', (3,)))",
    )
    for axis in ("", ", axis=1", ", axis=-1", ", axis=None", ", axis=2"):
        yield f"np.concatenate([{ARRAYS}]{axis})"
        yield f"np.stack([{ARRAYS}]{axis})"
        yield f"np.append({ARRAYS}{axis})"
    for name in ("concatenate", "stack", "vstack", "hstack", "dstack", "column_stack", "row_stack"):
        yield from (f"np.{name}([a('{kind}', (2, 3)), a('{kind}', (2, 3), 0, 1)])" for kind in TYPES)
        yield from (f"np.{name}([a('f4', {s}), a('f4', {s}, 0, 1)])" for s in ("()", "(3,)", "(0, 3)", "(2, 3, 4)"))
        yield f"np.{name}([a('f4', (2, 3)), a('f4', (3, 3))])"
        yield f"np.{name}([a('f4', (2, 3)), a('i4', (2, 3))])"
        yield f"np.{name}([a('f4', (2, 3))])"
        yield f"np.{name}((a('f4', (2, 1)), a('f4', (2, 1))))"
    yield from (
        "np.column_stack([a('f4', (2,)), a('f4', (2, 3))])",
        "np.concatenate([a('f4', (2, 3)), a('f4', (2, 2))], axis=1)",
    )
    for parts in ("2", "3", "(1, 3)", "[2]", "(5,)", "()"):
        yield from (
            f"np.{name}(a('f4', (4, 6, 2)), {parts})" for name in ("split", "array_split", "hsplit", "vsplit", "dsplit")
        )
        yield f"np.split(a('f4', (4, 6)), {parts}, axis=1)"
        yield f"np.array_split(a('f4', (4, 6)), {parts}, axis=-1)"
    yield from (
        "np.hsplit(a('f4', (4,)), 2)",
        "np.hsplit(a('f4', ()), 2)",
        "np.vsplit(a('f4', (4,)), 2)",
        "np.dsplit(a('f4', (4, 2)), 2)",
    )
    yield from (
        "np.split(a('f4', (0, 2)), 7)",
        "np.array_split(a('f4', (0, 2)), (1, 3))",
        "np.split(a('f4', (4, 2)), (3, 1))",
    )
    yield from ("np.split(a('f4', (4,)), 2.5)", "np.array_split(a('f4', (7,)), 3)")
    yield from (f"np.tile(a('i4', (2, 3)), {reps})" for reps in ("2", "(2, 2)", "(2, 1, 2)", "()", "(0, 2)"))
    yield from ("np.tile(a('f4', ()), 3)", "np.tile(2, 3)")
    yield from (f"np.repeat(a('f4', (2, 3)), {n})" for n in ("2", "2, 1", "2, axis=-2", "0", "2, 2", "-1"))
    for shift in ("1", "-2", "1, 0", "1, -1", "(1, 2), (0, 1)", "(1, 2), 0", "7, 1", "1, (0, 1)", "(1, 2)", "1, 2"):
        yield f"np.roll(a('f4', (3, 4)), {shift})"
    yield from ("np.roll(a('f4', ()), 1)", "np.roll(a('f4', (0, 2)), 1)")
    yield from (
        f"np.rot90(a('f4', (2, 3)){k})"
        for k in ("", ", 2", ", 3", ", -1", ", 4", ", 1, (1, 0)", ", 1, (0, 0)", ", 1, (0, 2)")
    )
    yield from (f"np.flip({f}{axis})" for axis in ("", ", 0", ", (0, -1)", ", 3", ", ()"))
    yield from (
        "np.flipud(a('f4', (2, 3)))",
        "np.fliplr(a('f4', (2, 3)))",
        "np.flip(a('f4', ()))",
        "np.fliplr(a('f4', (3,)))",
    )
    for name in ("atleast_1d", "atleast_2d", "atleast_3d"):
        yield from (f"np.{name}(a('f4', {s}))" for s in ("()", "(3,)", "(2, 3)", "(2, 3, 4)", "(0,)"))
        yield f"np.{name}(a('f4', ()), a('i4', (3,)))"
    yield from ("np.ravel(a('f4', (2, 3)))", "np.ravel(a('f4', ()))", "np.ravel(a('f4', (2, 3)), 'F')", "np.ravel(2)")
    for k in ("", ", 1", ", -1", ", 5", ", k=-4"):
        yield f"np.diag(a('f4', (3,)){k})"
        yield f"np.diag(a('f4', (3, 4)){k})"
        yield f"np.diagflat(a('f4', (2, 2)){k})"
        yield f"np.tril(a('f4', (3, 4)){k})"
    yield from (
        "np.diag(a('f4', ()))",
        f"np.diag({f})",
        "np.diagflat(a('f4', ()))",
        "np.tril(a('f4', (3,)))",
        f"np.tril({f}, 1)",
    )
    yield from ("np.tril(a('b1', (3, 3)))", "np.diag(a('b1', (3,)))", "np.tril(a('f4', ()))", "np.diag(a('f4', (0,)))")
    for ends in ("", ", 1", ", -1", ", 0, 1, 2", ", 0, -1, 0", ", 5", ", 0, 0, 0"):
        yield f"np.diagonal({f}{ends})"
        yield f"np.trace({f}{ends})"
    yield from ("np.trace(a('f4', (3,)))", "np.diagonal(a('f4', (3,)))", "np.diag_indices_from(a('f4', (3, 3)))")
    yield from (
        "np.diag_indices_from(a('f4', (3, 4)))",
        "np.trace(a('i4', (3, 3)))",
        "np.trace(a('b1', (3, 3)))",
        "np.trace(a('i1', (3, 3)))",
    )
    yield from (f"np.copy(a('{kind}', (2, 3)))" for kind in TYPES)
    yield from (
        "np.shape(a('f4', (2, 3)))",
        "np.unravel_index(a('i4', (4,), 0, 11), (3, 4))",
        "np.unravel_index(7, (3, 4))",
    )
    yield from (f"np.resize(a('f4', (2, 3)), {shape})" for shape in ("(4, 4)", "(2,)", "7", "(0, 2)"))


def shapes_gradients():
    f = "a('f4', (2, 3, 4))"
    yield from (
        f"np.reshape({f}, (6, 4))",
        f"npx.reshape({f}, (-5, -2))",
        f"np.transpose({f}, (2, 0, 1))",
        f"np.moveaxis({f}, 0, -1)",
    )
    yield from (
        "np.broadcast_to(a('f4', (1, 3)), (2, 2, 3))",
        f"np.concatenate([{ARRAYS}], axis=1)",
        f"np.stack([{ARRAYS}], axis=1)",
    )
    yield from (f"np.{name}([{ARRAYS}])" for name in ("vstack", "hstack", "dstack", "column_stack"))
    yield from (
        "np.hstack([a('f4', (3,)), a('f4', (2,))])",
        "np.array_split(a('f4', (7, 2)), 3)",
        "np.hsplit(a('f4', (4, 6)), (1, 3))",
    )
    yield from (
        "np.tile(a('f4', (2, 3)), (2, 2))",
        "np.repeat(a('f4', (2, 3)), 2, 1)",
        "np.roll(a('f4', (3, 4)), (1, 2), (0, 1))",
    )
    yield from (
        "np.rot90(a('f4', (2, 3)))",
        f"np.flip({f}, (0, 2))",
        "np.diag(a('f4', (3, 4)), 1)",
        "np.diag(a('f4', (3,)), 1)",
    )
    yield from (
        f"np.diagonal({f}, 0, 2, 1)",
        f"np.trace({f})",
        "np.diagflat(a('f4', (2, 2)))",
        "np.tril(a('f4', (3, 4)))",
    )
    yield from (
        "np.squeeze(a('f4', (1, 2)))",
        "np.expand_dims(a('f4', (2,)), 0)",
        "np.atleast_3d(a('f4', (2, 3)))",
        "np.ravel(a('f4', (2, 3)))",
    )


def creation():
    names = [*TYPES.values()]
    for name in ("zeros", "ones"):
        yield from (f"np.{name}((2, 3), '{kind}')" for kind in names)
        yield from (
            f"np.{name}({shape})" for shape in ("3", "()", "(0, 2)", "(2,), order='F'", "(-1,)", "(2,), dtype='foo'")
        )
        yield from (f"np.{name}_like(a('{kind}', (2, 3)))" for kind in TYPES)
        yield from (f"np.{name}_like(a('f4', {shape}), 'int32')" for shape in ("(2, 3)", "()", "(0, 2)"))
    for value in ("2", "2.5", "True", "a('f4', ())", "a('f4', (3,))"):
        yield f"np.full((2, 3), {value})"
        yield f"np.full((2, 3), {value}, 'int32')"
        yield from (f"np.full_like(a('{kind}', (2, 3)), {value})" for kind in TYPES if "a(" not in value)
        yield f"np.full_like(a('f4', (2, 3)), {value}, dtype='int8')" if "a(" not in value else f"np.full((), {value})"
    yield from ("np.full((), 1.5)", "np.full_like(a('f4', ()), 1.5)", "np.full((2,), 2, order='F')")
    for args in (
        "5",
        "2, 7",
        "1, 2, 0.25",
        "5, 1, -1.5",
        "0",
        "3, 1",
        "5, None, 2",
        "2.5",
        "1, 5, 0",
        "0, 1, 0.1",
        "3, 3",
    ):
        yield f"np.arange({args})"
        yield f"np.arange({args}, dtype='int32')"
    yield from (f"np.arange(4, dtype='{kind}')" for kind in names)
    for args in (
        "0, 1",
        "0, 1, 5",
        "2, 3, 4, endpoint=False",
        "5, 1, 3",
        "1, 2, 1",
        "1, 2, 0",
        "0, 1, 5, retstep=True",
        "1, 2, -1",
    ):
        yield f"np.linspace({args})"
    yield from (f"np.linspace(0, 10, 7, dtype='{kind}')" for kind in names)
    yield from ("np.linspace(0, 1, 3, axis=1)", "np.linspace([0], 1)", "np.linspace(0, 1, 3, True, True)")
    for args in (
        "0, 2",
        "0, 2, 5",
        "0, 3, 4, base=2.0",
        "1, 2, 3, endpoint=False",
        "0, 1, 3, dtype='int32'",
        "1, 2, 1",
        "0, 1, 0",
    ):
        yield f"np.logspace({args})"
    for args in (
        "3",
        "2, 3",
        "3, 3, 1",
        "3, 2, -1",
        "2, None, 0, 'int32'",
        "0",
        "-1",
        "2.5",
        "3, 4, 9",
        "2, dtype='bool'",
    ):
        yield f"np.eye({args})"
    yield from (f"np.identity({args})" for args in ("3", "0", "2, 'int32'", "2.5", "-1", "2, 'bool'"))
    yield from (
        f"np.indices({args})"
        for args in ("(2, 3)", "(2,)", "(0, 2)", "(2, 3), 'float32'", "()", "3", "[2, 2], 'int64'")
    )
    for args in ("", ", indexing='ij'", ", sparse=True", ", copy=False", ", indexing='x'", ", foo=1"):
        yield f"np.meshgrid(a('f4', (2,)), a('f4', (3,)){args})"
    yield from ("np.meshgrid(a('f4', (2,)), a('i4', (3,)), a('f4', (2,)))", "np.meshgrid(a('f4', (2,)))")
    yield from (
        "np.empty_like(a('i4', (0, 3)))",
        "np.empty_like(a('f4', (0, 3)), 'int8')",
        "np.empty_like(a('f4', (2,)), order='F')",
    )
    yield from (
        "np.empty_like(a('f4', (2,)), subok=True)",
        "np.empty((0, 3))",
        "np.empty((0,), 'int32')",
        "np.empty((0,), order='F')",
    )


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


CALLS = {
    "elementwise": elementwise,
    "reductions": reductions,
    "shapes": shapes,
    "creation": creation,
    "indexing": indexing,
}
GRADIENTS = {
    "elementwise": elementwise_gradients,
    "reductions": reductions_gradients,
    "shapes": shapes_gradients,
    "indexing": indexing_gradients,
}
