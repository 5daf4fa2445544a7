# SPDX-License-Identifier: Apache-2.0
"""Runtime arguments: dynamic extents, strides and offsets, so that one text serves every batch size.

Besides the outermost extent, which every kernel takes, these are the extent of the outermost sum (gradients of
weights and biases and the statistics of BatchNorm add over the batch), one over the elements of a mean, and where in an
array a slice of its outer axis begins, or a part that is padded or joined.
"""

from __future__ import annotations

from math import prod

from ...core.dataclass import dataclass, field
from ...core.dtypes import DType
from ..ir.dims import Dim, nominal
from ..ir.dynamic_constants import DynamicFloat, Reciprocal, value_bits
from ..ir.indexing import Expr, Quotient, Remainder, Var
from ..size_buckets import worth_argument
from .scalar import ScalarProgram

__all__ = [
    "OPAQUE_ZERO",
    "RuntimeArgs",
    "dynamic_axes",
    "dynamic_columns",
    "dynamic_in_tiles",
    "dynamic_lengths",
    "dynamic_outer",
    "dynamic_outer_reduction",
    "dynamic_row",
    "dynamic_transposed",
    "is_outermost",
    "likely_dynamic",
    "reduces_batch_axis",
    "reduces_outermost",
]

#: name, in CPU kernels, of a 0 that the compiler knows nothing of
OPAQUE_ZERO = "opaque_zero"
_MAX_LITERAL = 8  #: an extent that may be a length up to which it is a literal, …
_FEATURE_MULTIPLE = 16  #: … and what the others are multiples of that may be: features are, mostly


@dataclass
class RuntimeArgs:
    """The runtime arguments of one kernel.

    Attributes:
        values: name -> value, in the order of the parameters.
        lines: C text of what follows from them, at the head of the kernel.
        uses_opaque_zero: statements name OPAQUE_ZERO.
    """

    values: dict[str, int] = field(default_factory=dict)
    lines: dict[str, None] = field(default_factory=dict)
    uses_opaque_zero: bool = False
    _floats: dict[tuple[bool, int, DType], str] = field(default_factory=dict)

    @property
    def definitions(self) -> tuple[str, ...]:
        """The statements at the head of the kernel."""
        zero = [f"const Index {OPAQUE_ZERO} = hg::opaque(0);"] if self.uses_opaque_zero else []
        return (*self.lines, *zero)

    def extent(self, var: Var) -> str:
        """The parameter that holds the extent of ``var``."""
        name = f"n_{var.name}"
        self.values[name] = var.extent
        return name

    def named(self, name: str, value: int) -> str:
        """The parameter ``name``, which holds ``value`` from now on, whatever it has held."""
        self.values[name] = value
        return name

    def by_value(self, what: str, value: int) -> str:
        """The parameter of a kind that holds ``value``: positions of equal value share one.

        The kinds: *start*, where in an array a kernel begins; *boundary*, where along the outermost axis something else
        begins; *extent* of an inner axis, where a position is taken apart once a row; *last* place along an axis; *draw*,
        which of its graph's random draws one is; *x_stride* along a variable x, and *stride* of the outer part of a position.

        A position has no other name: it is what is left of offsets that were added up and simplified. Sharing keeps
        parameters few and texts equal. It is right at any size: a dimension's comparison is a guard of its template, and a
        number that differs from another one at a further size makes a text with two parameters, another kernel.
        """
        argument = next((name for name, n in self.values.items() if name.startswith(what) and n == value), None)
        if argument is None:
            argument = f"{what}{len(self.values)}"
            self.values[argument] = value
        return argument

    def constant_array(self, name: str, text: str, dtype: DType) -> str:
        """An array ``name`` of one constant."""
        self.lines[f"const {dtype.storage} {name}[1] = {{{text}}};"] = None
        return name

    def dynamic_float(self, value: DynamicFloat, dtype: DType) -> str:
        """The parameter that holds the bits of a number of elements, or of one over it."""
        is_reciprocal = isinstance(value, Reciprocal)
        key = is_reciprocal, value.count, dtype
        if key not in self._floats:
            what = "reciprocal" if is_reciprocal else "count"
            name = self._floats[key] = f"{what}{len(self._floats)}"
            self.values[name] = value_bits(value, dtype)
        return self._floats[key]


def is_outermost(program: ScalarProgram, var: Var) -> bool:
    """True if ``var`` is the outermost axis of whatever varies with it, and no condition mentions it.

    Then nothing but the end of its loop depends on its extent.
    """
    if any(var in c.expr.vars for s in program.scalars for c in s.conditions):
        return False
    return all(_outermost(e, var) for e in program.expressions() if var in e.vars)


def _outermost(e: Expr, var: Var) -> bool:
    step = e.coefficient(var)
    return step > 0 and all(abs(c) < step and var not in a.vars for a, c in e.terms if a is not var)


def dynamic_outer_reduction(program: ScalarProgram, rows: list[Var], columns: bool) -> Var | None:
    """The outermost variable of what is reduced, if its extent may be an argument; None if it is better a literal."""
    first = program.reduced[0]
    if not worth_argument(first.extent):
        return None
    if not columns and len(program.reduced) == 1:  # elements of one row are an array as a whole, or one of many rows
        return first if prod(v.extent for v in rows) == 1 else None
    return first if is_outermost(program, first) else None


def dynamic_axes(program: ScalarProgram, inner: Var, tested: frozenset[Var] = frozenset()) -> frozenset[str]:
    """Dynamic axes around the loop over ``inner``: their extents, and the strides that follow from them, are arguments.

    A recurrent layer's batch or time is such an inner axis, or the length of a sentence: rows of features follow each
    other in any order, and only these have a length that is worth a literal. Where parts of a join or pad begin along
    variables that are ``tested`` is a literal, and so it is along any other one where something may be a sentence.
    """
    tests, around = _condition_terms(program), [v for v in program.vars if v is not inner]
    joined = any(tests <= {((v, 1),)} for v in program.vars) and any(likely_dynamic(v.extent) for v in around)
    known = joined or tests <= {((v, 1),) for v in tested if v is not inner}
    if not worth_argument(inner.extent) or len(around) < 2 or not known or not _contiguous_along(program, inner):
        return frozenset()
    return frozenset(v.name for v in around)


def dynamic_outer(program: ScalarProgram) -> frozenset[str]:
    """Dynamic axes of what is made of vectors alone on the CPU, one along the innermost axis.

    A mask of positions and lengths is. Elsewhere loops over short rows are faster of a length that is a literal, as it is until
    it is known to change.
    """
    inner = program.vars[-1]
    if (
        len(program.vars) < 2
        or nominal(inner.extent) < _FEATURE_MULTIPLE
        or not likely_dynamic(inner.extent)
        or _condition_terms(program)
    ):
        return frozenset()
    loads = [s.offset.vars for s in program.scalars if s.op == "load" and s.offset is not None]
    rows = type(inner.extent) is not Dim and any(inner in vs and len(vs) > 1 for vs in loads)
    if rows or not _contiguous_along(program, inner):
        return frozenset()
    return frozenset(v.name for v in program.vars)


def dynamic_in_tiles(program: ScalarProgram, across: Var, along: Var, bit_copied: bool) -> frozenset[str]:
    """Dynamic axes of a CPU kernel that walks two of its axes in tiles.

    Where something is computed in a tile, its innermost loop is one of whole vectors whose number is a literal. Where
    elements are ``bit_copied`` and nothing else, there is no such loop.
    """
    if any(s.conditions for s in program.scalars) or not all(e.affine for e in program.expressions()):
        return frozenset()
    fits = likely_dynamic(across.extent) and not likely_dynamic(along.extent)
    any_of_both = bit_copied and (likely_dynamic(across.extent) or likely_dynamic(along.extent))
    return frozenset(v.name for v in program.vars) if fits or any_of_both else frozenset()


def dynamic_row(program: ScalarProgram) -> Var | None:
    """The reduced axis of rows on the CPU, if its length is dynamic; None if that is better a literal.

    The scores of attention are as long as a sentence. Rows of whole vectors, most of which are features, are walked in
    whole blocks; of others nothing is lost, and all of them have one text. Of rows that gather, as the losses of a sentence
    pick what each word was, the length is a literal until it is known to change.
    """
    if program.column_sums or len(program.reduced) != 1 or any(s.conditions for s in program.scalars):
        return None
    row = program.reduced[0]
    if nominal(row.extent) < _FEATURE_MULTIPLE or not likely_dynamic(row.extent):
        return None
    known = type(row.extent) is Dim and not any(map(_has_div_or_mod, program.expressions()))
    return row if known or _contiguous_along(program, row) else None


def dynamic_transposed(program: ScalarProgram, row: Var) -> frozenset[str]:
    """Dynamic axes of short rows of whole vectors on the CPU, of which a tile is transposed.

    Words follow each other along ``row``, and something else, such as a mean's gradient, is one for all of a sentence.
    """
    rows = [v for v in program.vars if v not in program.reduced]
    if len(rows) < 2 or len(program.reduced) != 1 or not _contiguous_along(program, program.reduced[0]):
        return frozenset()
    known = likely_dynamic(row.extent) and _condition_terms(program) <= {
        ((row, 1),)
    }  # (of a pad: the gradient of one word)
    return frozenset(v.name for v in rows) | {"at"} if known else frozenset()


def dynamic_columns(program: ScalarProgram, lane: Var, outer: Var | None = None) -> frozenset[str]:
    """Dynamic axes around ``lane``, along which neighbours are reduced side by side.

    Means over the words of a sentence are such reductions, and gradients of a bias of each word's features or of a table
    of positions. Those of few elements, as of windows, are written out. Where parts of a join lie side by side, and in sums
    over the batch, the variable ``outer``, something else may be a sentence.
    """
    tests, around = _condition_terms(program), [v for v in program.vars if v is not lane]
    known = type(lane.extent) is Dim
    sentences = known or any(likely_dynamic(v.extent) for v in around if v is not outer)
    if (tests or outer) and not (sentences and tests <= {((lane, 1),)}):
        return frozenset()
    long = (
        outer
        or nominal(program.reduced[0].extent) > _MAX_LITERAL
        or any(likely_dynamic(v.extent) for v in program.reduced)
    )
    if not (long or known) or not _contiguous_along(program, lane):
        return frozenset()
    for e in program.expressions():
        if any(lane in e.vars and 0 < e.coefficient(v) < lane.extent for v in program.reduced):  # windows overlap
            return frozenset()
    return frozenset(v.name for v in around)


def _condition_terms(program: ScalarProgram) -> set[tuple[tuple[object, int], ...]]:
    """The terms of conditions: where operands of concats and pads begin."""
    return {c.expr.terms for s in program.scalars for c in s.conditions}


def _contiguous_along(program: ScalarProgram, v: Var) -> bool:
    """True if what follows each other along ``v`` lies side by side or in one place, and no position is taken apart."""
    return all(e.coefficient(v) in (0, 1) and not _has_div_or_mod(e) for e in program.expressions())


def _has_div_or_mod(e: Expr) -> bool:
    """Whether an index has quotients or remainders of positions in it."""
    return any(isinstance(a, (Quotient, Remainder)) for a, _ in e.terms)


def dynamic_lengths(rows: int, columns: int, terms: int) -> set[int]:
    """The extents of a batch of products on the CPU that are arguments, although loops run along them.

    They may be the length of a sentence, as in attention: an extent that occurs twice is one where every word sees every
    word, and there is a row for each. Loops over whole vectors of a head's features are better written out, and so are
    those of a few iterations.
    """
    extents = [rows, columns, terms]
    return {e for e in extents if likely_dynamic(e) or (e > _FEATURE_MULTIPLE and (e == rows or extents.count(e) > 1))}


def likely_dynamic(extent: int) -> bool:
    """True if an extent is known to change, or, before there is another signature, may be the length of a sentence rather
    than a number of features: it is of no whole vectors.

    The guess stays beside dimensions, which are known from the second signature on: an argument costs nothing in a loop
    that has a rest anyway, and with it the second length of a sentence finds its kernels compiled.
    """
    if type(extent) is Dim:
        return nominal(extent) > _MAX_LITERAL
    return extent > _MAX_LITERAL and extent % _FEATURE_MULTIPLE != 0


def reduces_batch_axis(program: ScalarProgram) -> bool:
    """True if reductions take in the outermost axis.

    Else a lone row is one of a batch of one, and is added up as the rows of any batch are.
    """
    return all(0 in r.node.params["axes"] for r in program.reductions)


def reduces_outermost(left: tuple[int, int], right: tuple[int, int], terms: int) -> bool:
    """True if a product adds along the outer axis of both operands, as a weight's gradient adds over the batch.

    ``left`` and ``right`` are their strides in memory, row and column.
    """
    return left[0] <= left[1] != 1 and right[1] < right[0] and worth_argument(terms)
