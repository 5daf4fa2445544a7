# SPDX-License-Identifier: Apache-2.0
"""Products of np that sum over axes: dot, matmul, tensordot and what is made of them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ...base import MXNetError, integer_types
from ...compiler.ir import Builder, Node
from ...compiler.ir.graph import broadcast_shapes
from ...hints.op_errors import refusal
from ..linear import need_float
from ..params import Int, Shape, Values
from ..record import operator, sample, shape_text
from .application import np_function
from .ufuncs import check_keywords

__all__ = ["contracted"]


def _inconsistent(x: Node, expected: Sequence[int], of_a: Sequence[str], of_b: Sequence[str]) -> MXNetError:
    """The error for axes that are summed over and differ in size."""
    pairs = " and ".join(f"{p} as long as {q}" for p, q in zip(of_a, of_b, strict=True))
    return refusal(
        f"Shape inconsistent, Provided = {shape_text(x.shape)}, inferred shape={shape_text(expected)}",
        f"The sum of products needs {pairs}: transpose one of them, such as b.T.",
    )


def contracted(b: Builder, x: Node, y: Node, x_axes: Sequence[int], y_axes: Sequence[int]) -> Node:
    """The sum over pairs of axes; the other axes of x come first.

    Raises:
        MXNetError: the axes do not fit.
    """
    if len(x_axes) != len(y_axes):
        raise MXNetError(
            f"Check failed: a_axes_summed.ndim() == b_axes_summed.ndim() ({len(x_axes)} vs. {len(y_axes)}) : "
            "axes of a and b differ in number"
        )
    for axes, node, word in ((x_axes, x, "a"), (y_axes, y, "b")):
        for k in axes:
            if not -node.ndim <= k < node.ndim:
                raise MXNetError(f"Check failed: axis {k} is out of bounds for {word} of {node.ndim} dimensions")
    xs, ys = [k % x.ndim for k in x_axes], [k % y.ndim for k in y_axes]
    if [x.shape[k] for k in xs] != [y.shape[k] for k in ys]:
        expected = list(x.shape)
        for k, other in zip(xs, ys, strict=True):
            expected[k] = y.shape[other]
        raise _inconsistent(
            x, expected, [f"axis {k} of a ({x.shape[k]})" for k in xs], [f"axis {k} of b ({y.shape[k]})" for k in ys]
        )
    of_x, of_y = ([k for k in range(n.ndim) if k not in axes] for n, axes in ((x, xs), (y, ys)))
    left, right = tuple(x.shape[k] for k in of_x), tuple(y.shape[k] for k in of_y)
    if not xs:
        shape = (*left, *right)
        one = b.broadcast(b.reshape(x, (*left, *(1,) * len(right))), shape)
        return one * b.broadcast(y, shape)
    depth = prod(x.shape[k] for k in xs)
    product = b.dot(
        b.reshape(b.transpose(x, [*of_x, *xs]), (prod(left), depth)),
        b.reshape(b.transpose(y, [*ys, *of_y]), (depth, prod(right))),
    )
    return b.reshape(product, (*left, *right))


@operator(
    "_np_dot",
    "a b",
    samples=tuple(
        sample(shapes)
        for shapes in (
            [(3, 4), (4, 5)],
            [(7,), (7,)],
            [(2, 3), (3,)],
            [(3,), (3, 2)],
            [(2, 2, 3), (2, 3, 4)],
            [(), (2, 3)],
            [(2, 3), ()],
            [(), ()],
            [(0, 3), (3, 2)],
            [(2, 0), (0, 3)],
        )
    ),
)
def dot(b: Builder, p: Values, x: Node, y: Node) -> Node:
    """The sum over the last axis of a and the last but one (of vectors the only one) of b."""
    need_float(x)
    if not x.ndim or not y.ndim:
        shape = x.shape or y.shape
        return b.broadcast(x, shape) * b.broadcast(y, shape)
    return contracted(b, x, y, (-1,), (-2 if y.ndim > 1 else -1,))


@operator(
    "_npi_matmul",
    "a b",
    samples=tuple(
        sample(shapes)
        for shapes in (
            [(3, 4), (4, 5)],
            [(7,), (7,)],
            [(2, 3), (3,)],
            [(3,), (2, 3, 2)],
            [(2, 2, 3), (2, 3, 4)],
            [(2, 1, 2, 3), (3, 3, 2)],
            [(2, 3, 4), (4, 5)],
            [(0, 3), (3, 2)],
        )
    ),
)
def matmul(b: Builder, p: Values, x: Node, y: Node) -> Node:
    """Matrix products of the last two axes; the others broadcast. Vectors are a row on the left, a column on the right."""
    need_float(x)
    for word, node in (("a", x), ("b", y)):
        if not node.ndim:
            raise MXNetError(
                f"Check failed: {word}_ndim != 0 (0 vs. 0) : Multiplication by scalars is not allowed.\nWrite a * b."
            )
    if x.shape[-1] != y.shape[-2 if y.ndim > 1 else -1]:
        expected = (*x.shape[:-1], y.shape[-2 if y.ndim > 1 else -1])
        row = f"axis {max(y.ndim - 2, 0)} of b ({expected[-1]})"
        raise _inconsistent(x, expected, [f"axis {x.ndim - 1} of a ({x.shape[-1]})"], [row])
    if y.ndim <= 2:  # one product, however many leading axes
        return contracted(b, x, y, (-1,), (0,))
    left = b.reshape(x, (1, *x.shape)) if x.ndim == 1 else x
    try:
        lead = broadcast_shapes([left.shape[:-2], y.shape[:-2]])
    except ValueError:
        raise MXNetError(
            f"Check failed: a_shape[pa] == b_shape[pb]: Could not be broadcast: {shape_text(x.shape)} and "
            f"{shape_text(y.shape)}"
        ) from None
    product = b.dot(*(b.broadcast(n, (*lead, *n.shape[-2:])) for n in (left, y)))
    return b.reshape(product, (*lead, y.shape[-1])) if x.ndim == 1 else product


@operator(
    "_npi_tensordot",
    "a b",
    params={"a_axes_summed": Shape(doc="axes of a"), "b_axes_summed": Shape(doc="axes of b, in the same order")},
    samples=(
        sample([(2, 3, 4), (4, 3, 2)], {"a_axes_summed": (1, 2), "b_axes_summed": (1, 0)}),
        sample([(2, 3), (4, 3)], {"a_axes_summed": (-1,), "b_axes_summed": (-1,)}),
        sample([(2,), (3,)], {"a_axes_summed": (), "b_axes_summed": ()}),
    ),
)
def tensordot(b: Builder, p: Values, x: Node, y: Node) -> Node:
    """The sum over pairs of axes."""
    need_float(x)
    return contracted(b, x, y, p.a_axes_summed, p.b_axes_summed)


@operator(
    "_npi_tensordot_int_axes",
    "a b",
    params={"axes": Int(doc="how many of the last axes of a and the first of b")},
    samples=(
        sample([(2, 3, 4), (3, 4, 5)], {"axes": 2}),
        sample([(2, 3), (3,)], {"axes": 1}),
        sample([(2,), (3,)], {"axes": 0}),
        sample([(), ()], {"axes": 0}),
    ),
)
def tensordot_int_axes(b: Builder, p: Values, x: Node, y: Node) -> Node:
    """The sum over the last axes of a and the first of b."""
    need_float(x)
    if not 0 <= p.axes <= min(x.ndim, y.ndim):
        raise MXNetError(
            f"Check failed: axes >= 0 && axes <= min(a.ndim(), b.ndim()): tensordot over {p.axes} axes of "
            f"{shape_text(x.shape)} and {shape_text(y.shape)}"
        )
    return contracted(b, x, y, range(x.ndim - p.axes, x.ndim), range(p.axes))


# -- functions


@np_function("dot")
def dot_of(F: Any, a: Any, b: Any, out: Any = None, name: str | None = None, **kwargs: Any) -> Any:
    """The sum over the last axis of a and the last but one (of vectors the only one) of b."""
    return F.invoke("_np_dot", (a, b), kwargs or None, out, name)


@np_function("matmul")
def matmul_of(F: Any, a: Any, b: Any, out: Any = None, **kwargs: Any) -> Any:
    """Matrix products of the last two axes; the others broadcast."""
    if kwargs:
        check_keywords(kwargs, "matmul", False)
    return F.invoke("_npi_matmul", (a, b), None, out)


@np_function("tensordot")
def tensordot_of(F: Any, a: Any, b: Any, axes: Any = 2) -> Any:
    """The sum over so many last axes of a and first ones of b, or over pairs of axes."""
    if isinstance(axes, integer_types):
        return F.invoke("_npi_tensordot_int_axes", (a, b), {"axes": axes})
    if len(axes) != 2:
        raise ValueError("Axes must consist of two arrays.")
    of_a, of_b = ([k] if isinstance(k, integer_types) else list(k) for k in axes)
    if len(of_a) != len(of_b):
        raise MXNetError(
            f"Check failed: a_axes_summed.ndim() == b_axes_summed.ndim() ({len(of_a)} vs. {len(of_b)}) : Axes length "
            "mismatch"
        )
    return F.invoke("_npi_tensordot", (a, b), {"a_axes_summed": of_a, "b_axes_summed": of_b})


@np_function("inner")
def inner(F: Any, a: Any, b: Any) -> Any:
    """The sum over the last axes."""
    return F.invoke("_npi_tensordot", (a, b), {"a_axes_summed": (-1,), "b_axes_summed": (-1,)})


def _flat(F: Any, x: Any) -> Any:
    return F.invoke("_np_reshape", (x,), {"newshape": (-1,), "order": "C"})


@np_function("outer")
def outer(F: Any, a: Any, b: Any) -> Any:
    """Products of all pairs of elements."""
    return tensordot_of(F, _flat(F, a), _flat(F, b), 0)


@np_function("vdot")
def vdot(F: Any, a: Any, b: Any) -> Any:
    """The sum of the products of corresponding elements."""
    return tensordot_of(F, _flat(F, a), _flat(F, b), 1)
