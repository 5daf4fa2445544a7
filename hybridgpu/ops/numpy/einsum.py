# SPDX-License-Identifier: Apache-2.0
"""np.einsum: sums of products over labelled axes, as matrix products, elementwise products and reductions, which fuse.

Two operands at a time, the pair with the smallest result first. A pair that shares an axis that nobody else needs is a
matrix product; other pairs are products of broadcast operands.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

from ...base import MXNetError
from ...compiler.ir import Builder, Node
from ...core.dtypes import bool_, i32
from ..params import Int, Text, Values
from ..record import operator, sample
from .application import np_function

__all__: list[str] = []

#: an operand: its axes by label; those that ``...`` stands for are '0', '1', … from the right
_Operand = tuple[Node, str]


def _fail(check: str, text: str) -> MXNetError:
    return MXNetError(f"Check failed: {check}{' ' if text.startswith('(') else ': '}{text}")


def _terms(subscripts: str, count: int) -> tuple[list[str], str | None]:
    """The subscripts of each operand, and those of the result if they are given; '.' stands for an ellipsis.

    Raises:
        MXNetError: they are malformed.
    """
    text = subscripts.replace(" ", "")
    left, arrow, right = text.partition("->")
    parts = left.split(",")
    for part in [*parts, right] if arrow else parts:
        dots = part.count(".")
        if dots and (dots != 3 or "..." not in part):
            raise _fail("std: :count(sub.begin(), sub.end(), '.') == 3", f"({dots} vs. 3) : Invalid Ellipses")
        for c in part.replace(".", ""):
            if not (c.isascii() and c.isalpha()):
                raise _fail("einsum_symbols_set.test(c)", f"Character {c} is not a valid symbol.")
    if len(parts) != count:
        raise MXNetError(
            f"Check failed: std: :count(ret[0].begin(), ret[0].end(), ',') + 1 == shapes.size() ({len(parts)} vs. {count}) : "
            "Number of einsum subscripts must be equal to the number of operands."
        )
    parts = [part.replace("...", ".") for part in parts]
    if not arrow:
        return parts, None
    for c, times in Counter(right.replace(".", "")).items():
        if times > 1:
            raise _fail(
                "memchr(subscripts + i + 1, label, length - i - 1) == nullptr",
                f"einstein sum subscripts string includes output subscript '{c}' multiple times",
            )
        if c not in left:
            raise _fail("input_subscripts_set.test(c)", f"Output character {c} did not appear in the input")
    return parts, right.replace("...", ".")


def _labelled(parts: Sequence[str], result: str | None, data: Sequence[Node]) -> tuple[list[str], str]:
    """Labels of the axes of each operand and of the result.

    Raises:
        MXNetError: an operand has another number of axes.
    """
    labels, most = [], 0
    for k, (part, x) in enumerate(zip(parts, data, strict=True)):
        named = len(part.replace(".", ""))
        free = x.ndim - named
        if free < 0 or (free and "." not in part):
            raise _fail(
                "sh.ndim() == term.length()",
                f"({x.ndim} vs. {named}) : Einstein sum subscript {part.replace('.', '...')} does not contain the correct "
                f"number of indices for operand {k}.",
            )
        most = max(most, free)
        labels.append(part.replace(".", _free_labels(free)))
    if result is None:
        times = Counter(itertools.chain.from_iterable(part.replace(".", "") for part in parts))
        result = "." + "".join(sorted(c for c, n in times.items() if n == 1))
    return labels, result.replace(".", _free_labels(most))


def _free_labels(count: int) -> str:
    """Labels of the axes that an ellipsis stands for, which are matched from the right."""
    return "".join(chr(ord("0") + k) for k in range(count - 1, -1, -1))


def _extents(labels: Sequence[str], data: Sequence[Node]) -> dict[str, int]:
    """The extent of each label; operands may have 1 instead.

    Raises:
        MXNetError: two others.
    """
    extents: dict[str, int] = {}
    for k, (names, x) in enumerate(zip(labels, data, strict=True)):
        for c, d in zip(names, x.shape, strict=True):
            extent = extents.setdefault(c, d)
            if extent == 1:
                extents[c] = d
            elif d not in (1, extent):
                raise _fail(
                    "dim == 1 || dim == dimension_dict[static_cast<int>(c)]",
                    f"Size of label '{c}' for operand  {k} ({d}) does not match previous terms ({extent}).",
                )
    return extents


# -- one operand


def _without_repeats(b: Builder, x: Node, names: str, extents: dict[str, int]) -> _Operand:
    """Diagonals where a label is repeated; axes of extent 1 that stand for longer ones go."""
    for c in sorted({c for c in names if names.count(c) > 1}):
        axes = [k for k, n in enumerate(names) if n == c]
        n = extents[c]
        rest = [k for k in range(x.ndim) if k not in axes]
        lead = tuple(x.shape[k] for k in rest)
        x = b.broadcast(b.transpose(x, [*rest, *axes]), (*lead, *(n,) * len(axes)))
        flat = b.reshape(x, (*lead, n ** len(axes)))
        step = sum(n**k for k in range(len(axes))) if n > 1 else 1
        zero = (0,) * len(lead)
        x = b.slice(flat, (*zero, 0), flat.shape, (*(1,) * len(lead), step))
        names = "".join(names[k] for k in rest) + c
    remaining = [k for k, c in enumerate(names) if x.shape[k] == extents[c]]
    x = b.reshape(x, tuple(x.shape[k] for k in remaining))
    return x, "".join(names[k] for k in remaining)


def _summed(b: Builder, operand: _Operand, needed: Iterable[str]) -> _Operand:
    """Without the axes that nobody needs."""
    x, names = operand
    axes = tuple(k for k, c in enumerate(names) if c not in needed)
    if not axes:
        return operand
    return b.sum(x, axes), "".join(c for c in names if c in needed)


def _arranged(b: Builder, operand: _Operand, names: str) -> Node:
    """The operand with its axes in this order; those it lacks have extent 1."""
    x, own = operand
    x = b.transpose(x, [own.index(c) for c in names if c in own])
    left = iter(x.shape)
    return b.reshape(x, tuple(next(left) if c in own else 1 for c in names))


# -- two operands


def _product(b: Builder, first: _Operand, second: _Operand, needed: set[str], extents: dict[str, int]) -> _Operand:
    """The product of two operands, summed over what nobody else needs."""
    first = _summed(b, first, needed | set(second[1]))
    second = _summed(b, second, needed | set(first[1]))
    x, y = first[1], second[1]
    batch = "".join(c for c in x if c in y and c in needed)
    inner = "".join(c for c in x if c in y and c not in needed)
    rows = "".join(c for c in x if c not in y)
    columns = "".join(c for c in y if c not in x)
    sizes = [prod(extents[c] for c in part) for part in (batch, rows, inner, columns)]
    result = batch + rows + columns
    if inner and first[0].dtype.is_float and sizes[1] * sizes[3] > 1 and 0 not in sizes:
        lead = (sizes[0],) if batch else ()
        left = b.reshape(_arranged(b, first, batch + rows + inner), (*lead, sizes[1], sizes[2]))
        right = b.reshape(_arranged(b, second, batch + inner + columns), (*lead, sizes[2], sizes[3]))
        return b.reshape(b.dot(left, right), tuple(extents[c] for c in result)), result
    every = result + inner
    shape = tuple(extents[c] for c in every)
    z = b.broadcast(_arranged(b, first, every), shape) * b.broadcast(_arranged(b, second, every), shape)
    return _summed(b, (z, every), set(result))


def _cheapest_pair(operands: Sequence[_Operand], result: str, extents: dict[str, int]) -> tuple[int, int]:
    """Positions of the two operands whose product adds least to what they are."""

    def cost(pair: tuple[int, int]) -> tuple[int, int]:
        others = set(result).union(*(names for k, (_, names) in enumerate(operands) if k not in pair))
        both = set(operands[pair[0]][1]) | set(operands[pair[1]][1])
        grown = prod(extents[c] for c in both & others) - sum(prod(operands[k][0].shape) for k in pair)
        return grown, prod(extents[c] for c in both)

    return min(itertools.combinations(range(len(operands)), 2), key=cost)


@operator(
    "_npi_einsum",
    "*data",
    params={
        "num_args": Int(doc="number of operands", low=1),
        "subscripts": Text("", "labels of the axes of each operand, and of the result"),
        "optimize": Int(0, "accepted: the order of the products is always chosen"),
    },
    count_param="num_args",
    samples=(
        sample([(3, 4), (4, 5), (5,)], {"num_args": 3, "subscripts": "ij,jk,k->i"}),
        sample([(2, 1, 3, 4), (2, 4, 3), (3,)], {"num_args": 3, "subscripts": "...ij,...ji,i"}),
        sample([(3, 3), (3,), (3,)], {"num_args": 3, "subscripts": "ii,i,i->i"}),
        sample([(2, 3), (2, 3), ()], {"num_args": 3, "subscripts": "bi,bi,->b"}),
        sample([(0, 3), (3, 2), (2,)], {"num_args": 3, "subscripts": "ij,jk,k"}),
    ),
    domain=(-1.0, 1.0),
)
def einsum(b: Builder, p: Values, *data: Node) -> Node:
    """Sum of products over labelled axes, in Einstein's notation."""
    labels, result = _labelled(*_terms(p.subscripts, len(data)), data)
    extents = _extents(labels, data)
    dtype = data[0].dtype
    if dtype is bool_:  # and, or
        data = tuple(b.cast(x, i32) for x in data)
    operands = [_without_repeats(b, x, names, extents) for x, names in zip(data, labels, strict=True)]
    while len(operands) > 1:
        pair = _cheapest_pair(operands, result, extents)
        others = [o for k, o in enumerate(operands) if k not in pair]
        needed = set(result).union(*(names for _, names in others))
        operands = [*others, _product(b, operands[pair[0]], operands[pair[1]], needed, extents)]
    x = _arranged(b, _summed(b, operands[0], set(result)), result)
    x = b.broadcast(x, tuple(extents[c] for c in result))
    return b.cast(x, dtype) if dtype is bool_ else b.copy(x) if x in data else x


@np_function("einsum")
def np_einsum(F: Any, *operands: Any, **kwargs: Any) -> Any:
    """Sum of products over labelled axes: ``einsum("ij,jk->ik", a, b)``.

    Args:
        operands: the subscripts, then the arrays. ``...`` stands for any axes; without ``->`` the result has the labels
            that occur once, in alphabetical order.
        kwargs: ``out`` receives the result; ``optimize`` is accepted.
    """
    attributes = {
        "subscripts": operands[0],
        "optimize": int(kwargs.get("optimize", False)),
        "num_args": len(operands) - 1,
    }
    return F.invoke("_npi_einsum", operands[1:], attributes, kwargs.get("out"))
