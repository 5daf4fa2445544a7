# SPDX-License-Identifier: Apache-2.0
"""Divisions by a value of the row, whose reciprocal is computed once a row."""

from __future__ import annotations

from collections.abc import Callable

from ...dtypes import f32
from ..ir.graph import Node
from ..ir.indexing import Expr
from ..primitives import TABLE
from .scalar import Scalar, ScalarProgram, Store

__all__ = ["multiply_by_reciprocals", "stored_quotients"]


def multiply_by_reciprocals(program: ScalarProgram) -> None:
    """Fast mode: the elements of a row are multiplied by the reciprocal of what they are divided by."""
    reciprocals: dict[Scalar, Scalar] = {}
    for s in [s for s in program.scalars if _by_row_value(program, s)]:
        node = s.node
        assert node is not None
        s.args = (s.args[0], _reciprocal(program, s, reciprocals))
        s.node = Node(node.builder, TABLE["mul"], node.inputs, {}, node.type, node.index, node.prov)


def stored_quotients(program: ScalarProgram, fits: Callable[[Expr], bool]) -> dict[Scalar, Scalar]:
    """Quotient -> the reciprocal of its divisor, which the program now computes, of those that are only stored.

    All elements of a span can then be divided at once where they are stored (kernels/divide_cuda.h).

    Args:
        fits: if elements at a place are stored as spans.
    """
    used = {a for s in program.scalars for a in s.args}
    used |= {r.operand for r in (*program.reductions, *program.sums, *program.totals)}
    stores: dict[Scalar, list[Store]] = {}
    for store in program.stores:
        stores.setdefault(store.value, []).append(store)
    found: dict[Scalar, Scalar] = {}
    reciprocals: dict[Scalar, Scalar] = {}
    for s, at in stores.items():
        alone = (
            len(at) == 1 and s not in used and not at[0].scattered and at[0].node.dtype is f32 and fits(at[0].offset)
        )
        if alone and _by_row_value(program, s):
            found[s] = _reciprocal(program, s, reciprocals)
    return found


def _by_row_value(program: ScalarProgram, s: Scalar) -> bool:
    """True if ``s`` divides every element of a row by a value that the row has before its elements are walked."""
    if s.op != "compute" or s.node is None or s.node.prim.name != "div" or s.dtype.compute != "float":
        return False
    reduced, divisor = set(program.reduced), s.args[1]
    known = divisor.op != "const" and reduced.isdisjoint(divisor.vars)
    return known and not reduced.isdisjoint(s.vars) and s not in program.late()


def _reciprocal(program: ScalarProgram, quotient: Scalar, made: dict[Scalar, Scalar]) -> Scalar:
    """1 / the divisor of ``quotient``, right behind the divisor."""
    divisor = quotient.args[1]
    if divisor not in made:
        one = Scalar("const", f32, value=1.0)
        made[divisor] = Scalar("compute", f32, (one, divisor), quotient.node, vars=divisor.vars)
        at = program.scalars.index(divisor) + 1
        program.scalars[at:at] = [one, made[divisor]]
    return made[divisor]
