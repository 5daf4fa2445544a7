# SPDX-License-Identifier: Apache-2.0
"""Row reciprocals: of a divisor that is one for all of a row, the reciprocal is computed once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from ...core.dtypes import f32
from ..ir.graph import Node
from ..ir.indexing import Expr
from ..primitives import TABLE
from .scalar import Scalar, ScalarProgram

__all__ = ["multiply_by_reciprocals", "stored_divisions"]


def multiply_by_reciprocals(program: ScalarProgram) -> None:
    """Fast mode: the elements of a row are multiplied by the reciprocal of what they are divided by."""
    reciprocals: dict[Scalar, Scalar] = {}
    for s in [s for s in program.scalars if _divides_by_row_value(program, s)]:
        node = s.node
        assert node is not None
        s.args = (s.args[0], _reciprocal(program, s, reciprocals))
        s.node = Node(node.builder, TABLE["mul"], node.inputs, {}, node.type, node.index, node.prov)


def stored_divisions(program: ScalarProgram, fits: Callable[[Expr], bool]) -> dict[Scalar, tuple[Scalar, Scalar]]:
    """Stored value -> (quotient, the reciprocal of its divisor, which the program now computes).

    The value is the quotient or, in half precision, may be what a cast makes of it; neither is used for anything else. All
    elements of a span can then be divided at once where they are stored (kernels/divide_cuda.h).

    Args:
        fits: if elements at a place are stored as spans.
    """
    uses = Counter(a for s in program.scalars for a in s.args)
    uses.update(r.operand for r in (*program.reductions, *program.column_sums, *program.full_reductions))
    uses.update(store.value for store in program.stores)
    divisions: dict[Scalar, tuple[Scalar, Scalar]] = {}
    reciprocals: dict[Scalar, Scalar] = {}
    for store in program.stores:
        value = quotient = store.value
        if value.dtype.is_half and value.node is not None and value.node.prim.name == "cast":
            quotient = value.args[0]
        alone = uses[value] == uses[quotient] == 1 and not store.scattered
        if (
            alone
            and store.node.dtype is value.dtype
            and fits(store.offset)
            and _divides_by_row_value(program, quotient)
        ):
            divisions[value] = quotient, _reciprocal(program, quotient, reciprocals)
    return divisions


def _divides_by_row_value(program: ScalarProgram, s: Scalar) -> bool:
    """True if ``s`` divides every element of a row by a value that the row has before its elements are walked."""
    if s.op != "compute" or s.node is None or s.node.prim.name != "div" or s.dtype.compute != "float":
        return False
    reduced, divisor = set(program.reduced), s.args[1]
    invariant = divisor.op != "const" and reduced.isdisjoint(divisor.vars)
    return invariant and not reduced.isdisjoint(s.vars) and s not in program.after_reductions()


def _reciprocal(program: ScalarProgram, quotient: Scalar, reciprocals: dict[Scalar, Scalar]) -> Scalar:
    """1 / the divisor of ``quotient``, right behind the divisor."""
    divisor = quotient.args[1]
    if divisor not in reciprocals:
        one = Scalar("const", f32, value=1.0)
        reciprocals[divisor] = Scalar("compute", f32, (one, divisor), quotient.node, vars=divisor.vars)
        at = program.scalars.index(divisor) + 1
        program.scalars[at:at] = [one, reciprocals[divisor]]
    return reciprocals[divisor]
