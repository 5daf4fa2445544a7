# SPDX-License-Identifier: Apache-2.0
"""npx: operators that no legacy operator stands for (reshape with npx's codes, nonzero, constraint_check), and the functions.

A function of npx is an operator with the alias ``_npx_`` and its name, most of them in the records of legacy operators.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from ...base import MXNetError, ParameterError
from ...compiler.ir import Builder, Node
from ...core.dtypes import bool_, i64
from ..functions import bind
from ..params import Bool, Shape, Text, Values
from ..record import OPERATORS, Operator, operator, sample, shape_text
from .application import NPX, np_function, npx_function
from .derive import no_gradient

__all__: list[str] = []


# -- reshape


def _extents(shape: Sequence[int], p: Values) -> list[int]:
    """The extents that the codes of ``newshape`` describe, before their number is compared; -1 stands where it stood."""
    source, codes = list(shape), list(p.newshape)
    for code in codes:
        if code < -6:
            raise MXNetError(
                f"Check failed: param.newshape[i] >= -6 ({code} vs. -6) : Dimension size must be greater than or equal to -6"
            )
    if codes.count(-1) > 1:
        raise MXNetError("Check failed: !has_unknown_dim_size: Can only specify one unknown dimension")
    if p.reverse:
        source.reverse()
        codes.reverse()
    out: list[int] = []
    at = k = 0

    def take() -> int:
        nonlocal at
        if at >= len(source):
            raise MXNetError(
                f"Check failed: src_inx < src.ndim() ({at} vs. {len(source)}) : Unmatching dimension of proposed new shape"
            )
        at += 1
        return source[at - 1]

    while k < len(codes):
        code = codes[k]
        if code == -1:
            out.append(-1)
            at += 1
        elif code == -2:
            out.append(take())
        elif code == -3:
            extent = take() if at < len(source) else None
            if extent is None:
                raise MXNetError(
                    f"Check failed: i >= 0 && i < ndim(): index = {at} must be in range [0, {len(source)})"
                )
            if extent != 1:
                raise MXNetError(
                    f"Check failed: src[src_inx] == 1 ({extent} vs. 1) : -3 index should only be used to skip dimension "
                    "size 1"
                )
        elif code == -4:
            out += source[at:]
            at = len(source)
        elif code == -5:
            if at + 1 >= len(source):
                raise MXNetError(
                    f"Check failed: src_inx < src.ndim()-1 ({at} vs. {len(source) - 1}) : Not enough dimensions left for "
                    "the product"
                )
            out.append(take() * take())
        elif code == -6:
            if k + 2 >= len(codes):
                raise MXNetError(f"Check failed: i + 2 < target.ndim() ({k + 2} vs. {len(codes)}) : ")
            out += _split(take(), *codes[k + 1 : k + 3])
            k += 2
        else:
            out.append(code)
            at += 1
        k += 1
    if p.reverse:
        out.reverse()
    return out


def _split(whole: int, first: int, second: int) -> tuple[int, int]:
    """The factors of an extent, of which one may be -1."""
    if first == -1 and second:
        first = whole // second
    elif second == -1 and first:
        second = whole // first
    if first * second != whole:
        raise MXNetError(
            "Check failed: d1 * d2 == static_cast<dim_t>(d0) || static_cast<dim_t>(d0) == dim_t(-1): "
            f"Split dims {first}, {second} do not divide original dim {whole}"
        )
    return first, second


@operator(
    "_npx_reshape _npi_reshape",
    "a",
    params={
        "newshape": Shape(
            doc="extents; -1 infers, -2 copies, -3 drops an extent of 1, -4 copies the rest, -5 merges two, -6 splits one"
        ),
        "reverse": Bool(False, "match the codes from the right"),
        "order": Text("C", "only C: the last index changes fastest"),
    },
    same_size=True,
    samples=(
        sample([(2, 3, 4)], {"newshape": (-2, -1)}),
        sample([(8, 3, 3, 2)], {"newshape": (-6, 2, -1, -4)}),
        sample([(8, 3, 8)], {"newshape": (-4, -1, 2, -6), "reverse": True}),
        sample([(1, 3, 4)], {"newshape": (-3, -5)}),
        sample([()], {"newshape": (1, 1)}),
        sample([(0, 3)], {"newshape": (-1,)}),
    ),
)
def reshape(b: Builder, p: Values, a: Node) -> Node:
    """The same elements under another shape, with the codes of npx."""
    out = _extents(a.shape, p)
    text = f"Cannot reshape array of shape {shape_text(a.shape)} into shape {shape_text(p.newshape)} , reverse = {p.reverse:d}"
    if -1 in out:
        known_size = -prod(out)
        if not known_size:
            raise MXNetError(f"Check failed: known_dim_size_prod != 0 (0 vs. 0) : {text}")
        if a.size % known_size:
            raise MXNetError(f"Check failed: src.Size() % known_dim_size_prod == 0: {text}")
        out[out.index(-1)] = a.size // known_size
    if prod(out) != a.size:
        sizes = f"src.Size() == target_size ({a.size} vs. {prod(out)})"
        if any(code < -1 for code in p.newshape):
            sizes = f"(*output).Size() == src.Size() ({prod(out)} vs. {a.size})"
        raise MXNetError(f"Check failed: {sizes} : {text}")
    return b.reshape(a, out)


# -- what depends on values


def _positions(xp: Any, p: Values, x: Any) -> list[Any]:
    return [xp.stack(xp.nonzero(x if x.ndim else x.reshape(1)), axis=-1).astype(xp.int64)]


@operator(
    "_npx_nonzero _npi_nonzero",
    "x",
    result_dtype=lambda p, d: i64,
    eager=_positions,
    eager_gradient=no_gradient,
    differentiable=False,
    samples=(sample([(2, 3)]), sample([()]), sample([(0, 2)])),
)
def nonzero(b: Builder, p: Values, x: Node) -> Node:
    """The positions of elements that are not zero, one a row. How many there are depends on values, so a program ends here."""
    raise MXNetError(
        "nonzero: the shape of the result depends on values, which a graph of fixed shapes does not have\n"
        "Call it on arrays, or multiply by the mask instead."
    )


def _checked(xp: Any, p: Values, x: Any) -> list[Any]:
    if x.dtype != bool:
        raise MXNetError(
            f"Check failed: in_attrs->at(0) == mshadow: :kBool: constraint_check takes booleans, not {x.dtype}"
        )
    if not x.all():
        raise ParameterError(f"Check failed: red_output == true (0 vs. 1) : {p.msg}")
    return [xp.ones((), bool)]


@operator(
    "_npx_constraint_check",
    "input",
    params={"msg": Text("Constraint violated.", "message of the error")},
    result_dtype=lambda p, d: bool_,
    eager=_checked,
    eager_gradient=no_gradient,
    samples=(sample([(0, 3)]),),
    differentiable=False,
)
def constraint_check(b: Builder, p: Values, input: Node) -> Node:
    """True if all booleans are; otherwise an error."""
    raise MXNetError(
        "constraint_check: whether it raises an error depends on values, which a graph does not look at\n"
        "Call it on arrays."
    )


# -- functions


def _as_operator(op: Operator, spelled: str) -> Callable[..., Any]:
    """The function that is one operator: inputs, then attributes."""

    def function(F: Any, *args: Any, **kwargs: Any) -> Any:
        call = bind(op, args, kwargs)
        return F.invoke(spelled, call.inputs, call.attributes, call.out, call.name)

    whole = op.signature()
    first = inspect.Parameter("F", inspect.Parameter.POSITIONAL_ONLY)
    function.__signature__ = whole.replace(parameters=[first, *whole.parameters.values()])  # type: ignore[attr-defined]
    function.__doc__ = op.docstring()
    function.operator = op  # type: ignore[attr-defined]
    return function


for _spelled, _op in list(OPERATORS.items()):
    _name = _spelled.removeprefix("_npx_")
    if _name != _spelled:
        _name = f"image.{_name.removeprefix('_image_')}" if _name.startswith("_image_") else _name
        if _name not in NPX:
            npx_function(_name)(_as_operator(_op, _spelled))


@np_function("nonzero")
def np_nonzero(F: Any, a: Any) -> tuple[Any, ...]:
    """The positions of elements that are not zero, an array an axis."""
    columns = F.invoke("_np_transpose", (F.invoke("_npi_nonzero", (a,)),))
    return tuple(columns[k] for k in range(len(columns)))
