# SPDX-License-Identifier: Apache-2.0
"""Elementwise functions of np, and their gradients."""

from .values import TYPES, WHOLE

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
