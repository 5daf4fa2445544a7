# SPDX-License-Identifier: Apache-2.0
"""Operators and functions of np that join arrays and cut them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...base import MXNetError, integer_types
from ...compiler.ir import Builder, Node
from ...hints.op_errors import differing_types
from ..params import Bool, Int, Param, Shape, Values
from ..record import operator, sample, shape_text
from ..slicing import cut, cut_positions
from .application import np_function

__all__: list[str] = []

_COUNT: dict[str, Param] = {"num_args": Int(doc="Number of inputs to be joined.", low=1)}


# -- joining


def _joined(b: Builder, data: Sequence[Node], axis: int) -> Node:
    """Arrays joined along an axis that all of them have."""
    first = data[0]
    for k, x in enumerate(data):
        if x.dtype is not first.dtype:
            raise differing_types(
                f"Type inconsistent, Provided = {x.dtype.name}, inferred type = {first.dtype.name}",
                ("input 0", first.dtype),
                (f"input {k}", x.dtype),
            )
        if x.ndim != first.ndim or any(
            j != axis and d != e for j, (d, e) in enumerate(zip(x.shape, first.shape, strict=False))
        ):
            expected = shape_text([-1 if j == axis else d for j, d in enumerate(first.shape)])
            raise MXNetError(
                "Check failed: shape_assign(&(*in_shape)[i], dshape): Incompatible input shape: expected "
                f"{expected}, got {shape_text(x.shape)} (input {k})"
            )
    return b.copy(first) if len(data) == 1 else b.concat(list(data), axis)


@operator(
    "_npi_concatenate",
    "*data",
    params={**_COUNT, "axis": Int(0, "axis to join along; None joins the flattened arrays", optional=True)},
    dtypes="*",
    count_param="num_args",
    samples=(
        sample([(2, 3), (1, 3)], {"num_args": 2}),
        sample([(2, 3), (2, 1), (2, 4)], {"num_args": 3, "axis": -1}),
        sample([(2, 3), (4,)], {"num_args": 2, "axis": None}),
        sample([(0, 3), (2, 3)], {"num_args": 2}),
    ),
)
def concatenate(b: Builder, p: Values, *data: Node) -> Node:
    """Arrays joined along an axis, or flattened in a row."""
    if p.axis is None:
        return _joined(b, [b.reshape(x, (x.size,)) for x in data], 0)
    ndim = data[0].ndim
    if not -ndim <= p.axis < ndim:
        raise MXNetError(
            f"Check failed: axis < ndim && axis >= -ndim: axis {p.axis} exceeds the input dimension of {ndim}"
        )
    return _joined(b, data, p.axis % ndim)


@operator(
    "_npi_stack",
    "*data",
    params={"axis": Int(0, "position of the new axis"), **_COUNT},
    same_shape=True,
    count_param="num_args",
    samples=(
        sample([(2, 3)] * 3, {"num_args": 3}),
        sample([(2, 3)] * 2, {"num_args": 2, "axis": -1}),
        sample([()] * 2, {"num_args": 2}),
        sample([(0, 3)] * 2, {"num_args": 2, "axis": 1}),
    ),
)
def stack(b: Builder, p: Values, *data: Node) -> Node:
    """Arrays joined along a new axis."""
    ndim = data[0].ndim + 1
    if not -ndim <= p.axis < ndim:
        raise MXNetError(
            f"Check failed: axis >= 0 && axis < ndim: axis {p.axis} is out of bounds for array of dimension {ndim}"
        )
    axis = p.axis % ndim
    shape = (*data[0].shape[:axis], 1, *data[0].shape[axis:])
    return _joined(b, [b.reshape(x, shape) for x in data], axis)


def _stacked(
    name: str, raised: Callable[[tuple[int, ...]], tuple[int, ...]], axis: int, doc: str, old_dim: bool = False
) -> None:
    """Declare a way to join arrays that first get axes.

    Args:
        raised: a shape -> the shape with these axes.
        axis: to join along; of vectors 0 where they get none.
        old_dim: the record has the attribute ``dim`` of another operator, which it does not read.
    """

    def lower(b: Builder, p: Values, *data: Node) -> Node:
        parts = [b.reshape(x, raised(x.shape)) for x in data]
        return _joined(b, parts, min(axis, parts[0].ndim - 1))

    shapes = ((2, 3), (3,), (), (2, 3, 4), (0, 3))
    operator(
        f"_npi_{name}",
        "*data",
        params={**_COUNT, **({"dim": Int(1, "has no meaning")} if old_dim else {})},
        dtypes="*",
        count_param="num_args",
        samples=tuple(sample([s, s], {"num_args": 2}) for s in shapes),
        doc=doc,
    )(lower)


_stacked("vstack", lambda s: s if len(s) > 1 else (1, *s) if s else (1, 1), 0, "Arrays joined as rows.")
_stacked("hstack", lambda s: s or (1,), 1, "Arrays joined along the second axis, vectors along their only one.", True)
_stacked(
    "dstack",
    lambda s: s if len(s) > 2 else (*s, 1) if len(s) == 2 else (1, *s, 1) if s else (1, 1, 1),
    2,
    "Arrays joined along the third axis.",
    True,
)
_stacked(
    "column_stack",
    lambda s: s if len(s) > 1 else (*s, 1) if s else (1, 1),
    1,
    "Vectors as columns, and matrices, joined along the second axis.",
)


def _sequence(arrays: Any) -> list[Any]:
    if not hasattr(arrays, "__getitem__") and hasattr(arrays, "__iter__"):
        raise ValueError(f"expected iterable for arrays but got {type(arrays)}")
    return list(arrays)


@np_function("concatenate")
def concatenate_of(F: Any, seq: Any, axis: int | None = 0, out: Any = None) -> Any:
    """Arrays joined along an axis; with axis None flattened, in a row."""
    arrays = list(seq)
    return F.invoke("_npi_concatenate", arrays, {"num_args": len(arrays), "axis": axis}, out)


@np_function("append")
def append(F: Any, arr: Any, values: Any, axis: int | None = None) -> Any:
    """Two arrays joined along an axis; with axis None flattened, in a row."""
    return F.invoke("_npi_concatenate", (arr, values), {"num_args": 2, "axis": axis})


@np_function("stack")
def stack_of(F: Any, arrays: Any, axis: int = 0, out: Any = None) -> Any:
    """Arrays joined along a new axis."""
    arrays = _sequence(arrays)
    return F.invoke("_npi_stack", arrays, {"num_args": len(arrays), "axis": axis}, out)


@np_function("vstack")
def vstack(F: Any, arrays: Any, out: Any = None) -> Any:
    """Arrays joined as rows."""
    arrays = _sequence(arrays)
    return F.invoke("_npi_vstack", arrays, {"num_args": len(arrays)}, out)


@np_function("row_stack")
def row_stack(F: Any, arrays: Any) -> Any:
    """Arrays joined as rows."""
    return vstack(F, arrays)


@np_function("column_stack")
def column_stack(F: Any, tup: Any) -> Any:
    """Vectors as columns, and matrices, side by side."""
    return F.invoke("_npi_column_stack", list(tup), {"num_args": len(tup)})


@np_function("hstack")
def hstack(F: Any, arrays: Any) -> Any:
    """Arrays joined along the second axis, vectors along their only one."""
    return F.invoke("_npi_hstack", list(arrays), {"num_args": len(arrays)})


@np_function("dstack")
def dstack(F: Any, arrays: Any) -> Any:
    """Arrays joined along the third axis."""
    return F.invoke("_npi_dstack", list(arrays), {"num_args": len(arrays)})


# -- cutting

_PARTS: dict[str, Param] = {
    "indices": Shape(doc="positions of the cuts, 0 first"),
    "axis": Int(1, "the axis to cut"),
    "squeeze_axis": Bool(False, "drop the axis"),
    "sections": Int(0, "number of parts, 0 to use indices"),
}


def _split(name: str, axis_of: Callable[[Values, int], int], doc: str) -> None:
    def lower(b: Builder, p: Values, data: Node) -> list[Node]:
        axis = axis_of(p, data.ndim)
        return cut(b, data, axis, cut_positions(p.indices, p.sections, data.shape[axis]), p.squeeze_axis)

    operator(
        f"_npi_{name}",
        params=dict(_PARTS),
        outputs=lambda p: p.sections or len(p.indices),
        samples=(
            sample([(4, 6, 5)], {"indices": (0, 2, 4)}),
            sample([(4, 6, 4)], {"indices": (), "sections": 2}),
        ),
        doc=doc,
    )(lower)


_split("hsplit", lambda p, ndim: 1 if ndim > 1 else 0, "Parts along the second axis, of vectors along their only one.")
_split("dsplit", lambda p, ndim: 2, "Parts along the third axis.")


def _cuts(indices_or_sections: Any) -> dict[str, Any]:
    """The attributes that say where to cut.

    Raises:
        ValueError: neither a number of parts nor positions.
    """
    if isinstance(indices_or_sections, integer_types):
        return {"indices": [], "sections": indices_or_sections}
    if isinstance(indices_or_sections, (list, set, tuple)):
        return {"indices": [0, *indices_or_sections], "sections": 0}
    raise ValueError("indices_or_sections must be either int, or tuple / list / set of ints")


def _invoke(F: Any, operator: str, ary: Any, indices_or_sections: Any, axis: int) -> Any:
    attributes = {"axis": axis, "squeeze_axis": False, **_cuts(indices_or_sections)}
    parts = F.invoke(operator, (ary,), attributes)
    return parts if isinstance(parts, list) else [parts]


@np_function("split")
def split(F: Any, ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Parts along an axis: equal ones, or between positions."""
    if not F.symbolic and isinstance(indices_or_sections, integer_types) and ary.shape[axis] % indices_or_sections:
        raise ValueError("array split does not result in an equal division")
    return _invoke(F, "_npi_split", ary, indices_or_sections, axis)


@np_function("array_split")
def array_split(F: Any, ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Parts along an axis, the first ones longer by one if they cannot be equal, or between positions."""
    return _invoke(F, "_npi_split", ary, indices_or_sections, axis)


def _check_axes(F: Any, name: str, ary: Any, least: int) -> None:
    if not F.symbolic and len(ary.shape) < least:
        raise ValueError(f"{name} only works on arrays of {least} or more dimensions")


@np_function("hsplit")
def hsplit(F: Any, ary: Any, indices_or_sections: Any) -> list[Any]:
    """Parts along the second axis, of vectors along their only one."""
    _check_axes(F, "hsplit", ary, 1)
    return _invoke(F, "_npi_hsplit", ary, indices_or_sections, 1)


@np_function("vsplit")
def vsplit(F: Any, ary: Any, indices_or_sections: Any) -> list[Any]:
    """Parts along the first axis."""
    _check_axes(F, "vsplit", ary, 2)
    return split(F, ary, indices_or_sections, 0)


@np_function("dsplit")
def dsplit(F: Any, ary: Any, indices_or_sections: Any) -> list[Any]:
    """Parts along the third axis."""
    _check_axes(F, "dsplit", ary, 3)
    if F.symbolic:
        return _invoke(F, "_npi_dsplit", ary, indices_or_sections, 2)
    return split(F, ary, indices_or_sections, 2)
