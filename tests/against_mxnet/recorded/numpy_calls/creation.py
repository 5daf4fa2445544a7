# SPDX-License-Identifier: Apache-2.0
"""Functions of np that make arrays."""

from .values import TYPES


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
