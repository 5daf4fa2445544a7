# SPDX-License-Identifier: Apache-2.0
"""Functions of np that change shapes, join and split, and their gradients."""

from .values import TYPES

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
