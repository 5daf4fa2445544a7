# SPDX-License-Identifier: Apache-2.0
"""Exact simplification: constants, common subexpressions, dead code, algebra, views of views.

A rule is a function ``(b, node, inputs) -> Node | None`` in the table of its primitive: ``inputs``
are the already simplified operands, and None means that the rule does not apply. Only identities
that hold for every value (NaN, infinities and signed zeros included) are here; small integer powers
become products, which round within the error of ``pow`` itself, and the sum of one element is that
element, also where it is -0 (a longer sum of zeros starts from +0). What a convolution pads with is no factor
either: see :mod:`.conv_rewrites`.

Lowerings and derivatives are written for their meaning: they multiply by ones, add up zeros, and transpose what is transposed
again. What is left of that would be kernels and traffic, and would hide from the passes after this one the patterns that
they match, so it runs first, and always.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ....core.dtypes import bool_
from ...ir.graph import Builder, Graph, Node, to_scalar
from ...ir.types import tensor_type
from ...primitives import TABLE
from ...primitives.views import SIMPLE_VIEWS
from ..recompute_hints import NO_RECOMPUTE
from ..rewrite import rewrite
from . import conv_rewrites, disjoint_windows

if TYPE_CHECKING:
    from ...pass_context import PassContext

__all__ = ["run", "simplify"]

Rule = Callable[[Builder, Node, Sequence[Node]], Node | None]
RULES: dict[str, list[Rule]] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register a rule for primitives."""

    def register(function: Rule) -> Rule:
        for name in names:
            RULES.setdefault(name, []).append(function)
        return function

    return register


def run(graph: Graph, ctx: PassContext) -> Graph:
    """``graph`` simplified; see :func:`simplify`, which other modules call without a context."""
    return simplify(graph)


def simplify(graph: Graph) -> Graph:
    """An equal graph with fewer or cheaper nodes; inputs and outputs keep their positions."""
    return rewrite(graph, lambda b, node, new: _rewrite(b, node, [new[i] for i in node.inputs]))


def _rewrite(b: Builder, node: Node, inputs: Sequence[Node]) -> Node:
    """``node`` over new operands, simplified until no rule applies (each makes it cheaper, so this ends)."""
    while True:
        replacement = _step(b, node, inputs)
        if replacement is None:
            return b.reapply(node, inputs)
        if replacement is node or not replacement.inputs:
            return replacement
        node, inputs = replacement, replacement.inputs


def _step(b: Builder, node: Node, inputs: Sequence[Node]) -> Node | None:
    """The result of the first rule that applies to a node."""
    folded = _fold(b, node, inputs)
    if folded is not None:
        return folded
    for apply in RULES.get(node.prim.name, ()):
        replacement = apply(b, node, inputs)
        if replacement is not None:
            return replacement
    return None


def _is(node: Node, value: float) -> bool:
    """True for a constant equal to ``value``, sign of zero included."""
    if node.prim.name != "full":
        return False
    constant = node.params["value"]
    return bool(constant == value) and math.copysign(1, constant) == math.copysign(1, value)


#: primitives that make something of nothing, and what
_EMPTY = {
    **{"sum": 0, "prod": 1, "amax": float("-inf"), "amin": float("inf"), "argmax": 0, "argmin": 0},
    **{"dot": 0, "conv": 0, "scatter_add": 0, "scatter_along": 0},
}


def _fold(b: Builder, node: Node, inputs: Sequence[Node]) -> Node | None:
    """Evaluate what depends on constants only, and whatever has no elements or sums none up."""
    if node.size == 0 and node.prim.family != "leaf":
        return b.full(node.shape, 0, node.dtype)
    if node.prim.name in _EMPTY and inputs[0].size == 0:
        value = _EMPTY[node.prim.name]
        if not node.dtype.is_float and abs(value) == float("inf"):
            lowest, highest = (
                (0, 1) if node.dtype is bool_ else (np.iinfo(node.dtype.np).min, np.iinfo(node.dtype.np).max)
            )
            value = lowest if value < 0 else highest
        return b.full(node.shape, value, node.dtype)
    if not inputs or any(i.prim.name != "full" for i in inputs):
        return None
    if node.prim.family == "elementwise":
        arrays = [np.asarray(i.params["value"], i.dtype.evaluated.np) for i in inputs]
        scalar = tensor_type((), node.dtype.evaluated)
        with np.errstate(all="ignore"):
            value = node.prim.evaluate(np, arrays, node.params, scalar)
        return b.full(node.shape, value.item(), node.dtype)
    if node.prim.name in SIMPLE_VIEWS:
        return b.full(node.shape, inputs[0].params["value"], node.dtype)
    return None


# -- arithmetic


@rule("add")
def _add(b: Builder, node: Node, inputs: Sequence[Node]) -> Node | None:
    x, y = inputs
    if _is(y, -0.0) or (node.dtype.is_integer and _is(y, 0)):
        return x
    if _is(x, -0.0) or (node.dtype.is_integer and _is(x, 0)):
        return y
    if y.prim.name == "neg":
        return b.sub(x, y.inputs[0])
    if x.prim.name == "neg":
        return b.sub(y, x.inputs[0])
    return None


@rule("sub")
def _sub(b: Builder, node: Node, inputs: Sequence[Node]) -> Node | None:
    x, y = inputs
    if _is(y, 0.0):
        return x
    if y.prim.name == "neg":
        return b.add(x, y.inputs[0])
    return None


@rule("mul")
def _mul(b: Builder, node: Node, inputs: Sequence[Node]) -> Node | None:
    for x, y in (inputs, inputs[::-1]):
        if _is(y, 1):
            return x
        if _is(y, -1) and node.dtype.kind != "u":
            return b.neg(x)
    return None


@rule("div")
def _div(b: Builder, node: Node, inputs: Sequence[Node]) -> Node | None:
    x, y = inputs
    if _is(y, 1):
        return x
    if y.prim.name == "full" and node.dtype.is_float:
        value = y.params["value"]
        # multiplying by the inverse of a power of two rounds alike, if the element type holds the inverse
        if abs(math.frexp(value)[0]) == 0.5 and to_scalar(1 / value, node.dtype) == 1 / value:
            return b.mul(x, 1 / value)
    return None


@rule("pow")
def _pow(b: Builder, node: Node, inputs: Sequence[Node]) -> Node | None:
    x, y = inputs
    if y.prim.name != "full":
        return None
    value = y.params["value"]
    if value == 1:
        return x
    if value == 0:
        return b.full(node.shape, 1, node.dtype)
    if value == -1:
        return b.div(1.0, x)
    if value in (2, 3, 4):
        square = b.mul(x, x)
        return square if value == 2 else b.mul(square, x if value == 3 else square)
    return None


@rule("neg")
def _neg(b: Builder, node: Node, inputs: Sequence[Node]) -> Node | None:
    return inputs[0].inputs[0] if inputs[0].prim.name == "neg" else None


@rule("abs")
def _abs(b: Builder, node: Node, inputs: Sequence[Node]) -> Node | None:
    x = inputs[0]
    if node.dtype.kind == "u":  # where a negation wraps, so this comes first
        return x
    if x.prim.name == "neg":
        return b.abs(x.inputs[0])
    return x if x.prim.name == "abs" else None


# -- comparison, selection, casts

_NEGATED = {"eq": "ne", "ne": "eq"}  # the ordered ones are not each other's negation for NaN


@rule("logical_not")
def _not(b: Builder, node: Node, inputs: Sequence[Node]) -> Node | None:
    x = inputs[0]
    if x.prim.name == "logical_not":
        return x.inputs[0]
    return b.apply(TABLE[_NEGATED[x.prim.name]], x.inputs, x.params) if x.prim.name in _NEGATED else None


@rule("ne")
def _ne(b: Builder, node: Node, inputs: Sequence[Node]) -> Node | None:
    x, y = inputs
    if _is(y, 0) and x.prim.name == "cast" and x.inputs[0].dtype is bool_:
        return x.inputs[0]  # the truth of a truth value written as a number
    return None


@rule("select")
def _select(b: Builder, node: Node, inputs: Sequence[Node]) -> Node | None:
    condition, x, y = inputs
    if x is y:
        return x
    if condition.prim.name == "full":
        return x if condition.params["value"] else y
    if condition.prim.name == "logical_not":
        return b.select(condition.inputs[0], y, x)
    return None


@rule("cast")
def _cast(b: Builder, node: Node, inputs: Sequence[Node]) -> Node | None:
    x, target = inputs[0], node.params["dtype"]
    if x.dtype is target:
        return x
    if x.prim.name != "cast":
        return None
    source = x.inputs[0].dtype
    # bool to number to bool, or widening a float twice, loses nothing on the way
    if (source is bool_ and target is bool_) or (
        source.is_float and x.dtype.is_float and target.is_float and source.size < x.dtype.size <= target.size
    ):
        return b.cast(x.inputs[0], target)
    return None


@rule("stop_gradient", "custom_gradient")
def _gradient_marks(b: Builder, node: Node, inputs: Sequence[Node]) -> Node | None:
    return inputs[0]  # derivatives have been taken by now


@rule("copy")
def _copy(b: Builder, node: Node, inputs: Sequence[Node]) -> Node | None:
    # materialize makes the copies that are needed
    return None if NO_RECOMPUTE in node.params else inputs[0]


# -- views


@rule("reshape", "broadcast", "transpose", "slice", "reverse")
def _behind_narrow(b: Builder, node: Node, inputs: Sequence[Node]) -> Node | None:
    """The rule that narrowing comes last, so that other rules see views of what it narrows."""
    x = inputs[0]
    if x.prim.name != "round_to":
        return None
    view = b.apply(node.prim, x.inputs, node.params)
    return b.round_to(_rewrite(b, view, view.inputs), node.dtype)


@rule("reshape")
def _reshape(b: Builder, node: Node, inputs: Sequence[Node]) -> Node | None:
    x = inputs[0]
    runs = _runs(x.shape, node.shape) if x.prim.name == "transpose" else None
    if runs:  # axes that were neighbours before they were moved are joined there: what moves has fewer axes
        joined = [x.params["perm"][i:j] for i, j in runs]
        if any(len(r) > 1 for r in joined) and all(r == tuple(range(r[0], r[0] + len(r))) for r in joined):
            order = sorted(range(len(joined)), key=lambda k: joined[k][0])
            merged = b.reshape(x.inputs[0], tuple(node.shape[k] for k in order))
            return b.transpose(merged, [order.index(k) for k in range(len(joined))])
    return b.reshape(x, node.shape)


def _runs(shape: tuple[int, ...], merged: tuple[int, ...]) -> list[tuple[int, int]] | None:
    """For each extent of ``merged`` the axes of ``shape`` that it joins (first, behind the last).

    None if ``merged`` is anything but neighbours joined.
    """
    runs, at = [], 0
    for extent in merged:
        start, size = at, 1
        while at < len(shape) and (size < extent or at == start):
            size *= shape[at]
            at += 1
        if size != extent or at == start:
            return None
        runs.append((start, at))
    return runs if at == len(shape) else None


@rule("broadcast")
def _broadcast(b: Builder, node: Node, inputs: Sequence[Node]) -> Node | None:
    x = inputs[0]
    return b.broadcast(x.inputs[0] if x.prim.name == "broadcast" else x, node.shape)


@rule("transpose")
def _transpose(b: Builder, node: Node, inputs: Sequence[Node]) -> Node | None:
    x, perm = inputs[0], node.params["perm"]
    if x.prim.name == "transpose":
        inner = x.params["perm"]
        return b.transpose(x.inputs[0], [inner[p] for p in perm])
    moved = [p for p in perm if x.shape[p] != 1]
    if moved == sorted(moved):  # only axes of extent 1 change places
        return b.reshape(x, node.shape)
    if x.prim.name == "reverse":  # reversed last: so each of the two meets its like
        turned = b.transpose(x.inputs[0], perm)
        axes = tuple(k for k, p in enumerate(perm) if p in x.params["axes"])
        return b.reverse(_rewrite(b, turned, turned.inputs), axes=axes)
    return None


@rule("slice")
def _slice(b: Builder, node: Node, inputs: Sequence[Node]) -> Node | None:
    x, p = inputs[0], node.params
    if x.prim.name == "concat" and node.size:
        part = _part(x, p["begin"], p["end"], p["step"])
        if part is not None:
            return b.slice(*part, p["step"])
    return b.slice(x, p["begin"], p["end"], p["step"])


def _part(
    x: Node, begin: tuple[int, ...], end: tuple[int, ...], step: tuple[int, ...]
) -> tuple[Node, tuple[int, ...], tuple[int, ...]] | None:
    """The one operand of a concatenation that a slice of it sees, and where; None if it sees several."""
    axis, start = x.params["axis"], 0
    last = begin[axis] + (end[axis] - begin[axis] - 1) // step[axis] * step[axis]
    for part in x.inputs:
        stop = start + part.shape[axis]
        if start <= begin[axis] and last < stop:
            first = (*begin[:axis], begin[axis] - start, *begin[axis + 1 :])
            return part, first, (*end[:axis], min(end[axis], stop) - start, *end[axis + 1 :])
        start = stop
    return None


@rule("concat")
def _concat(b: Builder, node: Node, inputs: Sequence[Node]) -> Node | None:
    axis = node.params["axis"]
    filled = [i for i in inputs if i.shape[axis]]
    return b.concat(filled, axis) if 0 < len(filled) < len(inputs) else None


@rule("pad")
def _pad(b: Builder, node: Node, inputs: Sequence[Node]) -> Node | None:
    return inputs[0] if node.shape == inputs[0].shape else None


@rule("round_to")
def _narrow(b: Builder, node: Node, inputs: Sequence[Node]) -> Node | None:
    return b.round_to(inputs[0], node.dtype)


@rule("reverse")
def _reverse(b: Builder, node: Node, inputs: Sequence[Node]) -> Node | None:
    x, axes = inputs[0], set(node.params["axes"])
    if all(node.shape[a] <= 1 for a in axes):
        return x
    if x.prim.name == "reverse":
        rest = axes ^ set(x.params["axes"])
        return b.reverse(x.inputs[0], axes=tuple(sorted(rest))) if rest else x.inputs[0]
    return None


rule("reverse")(conv_rewrites.cancel_reversal)


@rule("scatter_set")
def _scatter_set(b: Builder, node: Node, inputs: Sequence[Node]) -> Node | None:
    data, updates, _ = inputs
    return data if updates.size == 0 else None


@rule("conv")
def _conv(b: Builder, node: Node, inputs: Sequence[Node]) -> Node | None:
    """Zeros around the operand are the convolution's own pads."""
    x, params = inputs[0], node.params
    if x.prim.name != "pad" or x.params["value"] != 0 or any(s != 1 for s in params["base_dilate"]):
        return None
    ends = [*x.params["low"][:2], *x.params["high"][:2]]
    if any(ends):
        return None
    wider = {k: tuple(p + q for p, q in zip(params[k], x.params[k][2:], strict=True)) for k in ("low", "high")}
    return b.conv(x.inputs[0], inputs[1], **{**params, **wider})


rule("conv")(conv_rewrites.trim_kernel)
rule("conv")(conv_rewrites.swap_operands)
rule("sum")(disjoint_windows.fold_as_view)


# -- sums pass by the zeros around what they add up, such as the gradient of a slice


@rule("sum")
def _sum_of_padded(b: Builder, node: Node, inputs: Sequence[Node]) -> Node | None:
    x, axes = inputs[0], node.params["axes"]
    if x.prim.name == "reshape":
        runs = _runs(x.inputs[0].shape, x.shape)
        x, axes = x.inputs[0], tuple(k for a in axes for k in range(*runs[a])) if runs else ()
    if x.prim.name != "pad" or x.params["value"] != 0:
        return None
    padded = [a for a in range(x.ndim) if x.params["low"][a] or x.params["high"][a]]
    if not set(padded) <= set(axes):
        return None
    total = b.apply(node.prim, x.inputs, {**node.params, "axes": axes})
    return b.reshape(total, node.shape)


# -- reductions over axes of extent 1 do nothing


@rule("sum", "prod", "amax", "amin", "argmax", "argmin")
def _reduce(b: Builder, node: Node, inputs: Sequence[Node]) -> Node | None:
    x, axes = inputs[0], node.params["axes"]
    nontrivial = tuple(a for a in axes if x.shape[a] != 1)
    if nontrivial == axes:
        return None
    if not nontrivial:
        if node.prim.name in ("argmax", "argmin"):
            return b.full(node.shape, 0, node.dtype)
        return b.cast(b.reshape(x, node.shape), node.dtype)
    y = b.apply(node.prim, (x,), {**node.params, "axes": nontrivial})
    return b.reshape(y, node.shape)
