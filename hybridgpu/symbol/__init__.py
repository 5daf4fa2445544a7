# SPDX-License-Identifier: Apache-2.0
"""``mx.sym``: graphs, built by the operators that ``mx.nd`` executes."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base import MXNetError, numeric_types
from ..frontend.namespaces import NUMPY_MODULES, Namespace, importable
from ..hints.tracing import in_graph
from ..ops.sample_like import make_zipfian
from . import control_flow, random, updates
from .late_bindings import late
from .node_factory import apply_symbol, compose, make_node, var
from .symbol import Group, Symbol

if TYPE_CHECKING:  # stubs, made from the records
    from . import contrib, image, linalg
    from . import numpy as numpy
    from . import numpy_extension as numpy_extension
    from .functions import *

    np, npx = numpy, numpy_extension
else:
    contrib = Namespace("contrib", apply_symbol, "symbol")
    for _module in (control_flow, updates):
        for _name in _module.__all__:
            setattr(contrib, _name, getattr(_module, _name))
    _zipfian = make_zipfian(random.uniform, lambda x, ctx: x)
    for _name, _function in (("rand_zipfian", _zipfian),):
        setattr(contrib, _name, _function)
    linalg = Namespace("linalg", apply_symbol, "symbol")
    image = Namespace("image", apply_symbol, "symbol")
sparse = Namespace("sparse", apply_symbol, "symbol")
_internal = Namespace("_internal", apply_symbol, "symbol")
op = Namespace("op", apply_symbol, "symbol")
_top = Namespace("", apply_symbol, "symbol")
importable(contrib, linalg, image, sparse, _internal, op)

late.register(
    __name__,
    {
        "..executor.bind": "bind simple_bind",
        "..executor.evaluate": "evaluate",
        ".": "load_json",
        ".graph_json": "write_graph",
        ".inference": "Inference infer_shape infer_type",
        ".methods": "make_method method_names",
        ".node_factory": "compose",
        ".numpy.symbol": "_Symbol",
    },
)

Variable = var

__all__ = [
    "Group",
    "Symbol",
    "Variable",
    "arange",
    "contrib",
    "eye",
    "full",
    "histogram",
    "hypot",
    "image",
    "linalg",
    "linspace",
    "load",
    "load_json",
    "maximum",
    "minimum",
    "ones",
    "op",
    "pow",
    "power",
    "random",
    "sparse",
    "split_v2",
    "var",
    "zeros",
]


def load(fname: str) -> Symbol:
    """The Symbol of a file.

    Raises:
        TypeError: the name is no string.
        MXNetError: the file is missing or no graph.
    """
    if not isinstance(fname, str):
        raise TypeError("fname need to be string")
    try:
        text = Path(fname).read_text(encoding="utf-8")
    except OSError as e:
        raise MXNetError(f'Open "{fname}": {e.strerror}') from None
    except UnicodeDecodeError:
        raise MXNetError(f"{fname} is no JSON: it is not UTF-8 text") from None
    from .graph_json import read_graph

    return Symbol(read_graph(text, fname))


def load_json(json_str: str) -> Symbol:
    """The Symbol of a JSON text."""
    if not isinstance(json_str, str):
        raise TypeError("fname required to be string")
    from .graph_json import read_graph

    return Symbol(read_graph(json_str, "the JSON text"))


def _made(name: str, attributes: dict[str, Any], node: str | None, extra: dict[str, Any] | None = None) -> Symbol:
    from ..ops import OPERATORS

    more = dict(extra or {})  # hidden attributes, such as the layout of a recurrent state, stay with the node
    more.pop("ctx", None)  # which runs where its graph does
    attr = more.pop("attr", None)
    return make_node(OPERATORS[name], name, [], attributes | more, node, attr)


def zeros(shape: Any, dtype: Any = None, name: str | None = None, **kwargs: Any) -> Symbol:
    """Zeros, float32 by default."""
    return _made("_zeros", {"shape": shape, "dtype": dtype or "float32"}, name, kwargs)


def ones(shape: Any, dtype: Any = None, name: str | None = None, **kwargs: Any) -> Symbol:
    """Ones, float32 by default."""
    return _made("_ones", {"shape": shape, "dtype": dtype or "float32"}, name, kwargs)


def full(shape: Any, val: float, dtype: Any = None, name: str | None = None, **kwargs: Any) -> Symbol:
    """One value everywhere."""
    return _made("_full", {"shape": shape, "dtype": dtype or "float32", "value": float(val)}, name, kwargs)


def arange(
    start: float,
    stop: float | None = None,
    step: float = 1.0,
    repeat: int = 1,
    infer_range: bool = False,
    name: str | None = None,
    dtype: Any = None,
    **kwargs: Any,
) -> Symbol:
    """Values at equal distances."""
    attributes = {
        "start": start,
        "stop": stop,
        "step": step,
        "repeat": repeat,
        "infer_range": infer_range,
        "dtype": dtype or "float32",
    }
    return _made("_arange", attributes, name, kwargs)


def linspace(
    start: float, stop: float, num: int, endpoint: bool = True, name: str | None = None, dtype: Any = None
) -> Symbol:
    """``num`` values at equal distances from start to stop."""
    return _made(
        "_linspace", {"start": start, "stop": stop, "num": num, "endpoint": endpoint, "dtype": dtype or "float32"}, name
    )


def eye(N: int, M: int = 0, k: int = 0, dtype: Any = None, name: str | None = None, **kwargs: Any) -> Symbol:
    """Ones on a diagonal."""
    return _made("_eye", {"N": N, "M": M, "k": k, "dtype": dtype or "float32"}, name, kwargs)


def _pair(
    name: str,
    operator: str,
    hint: str,
    scalar: str,
    scalar_hint: str,
    reverse: tuple[str, str],
    python: Any,
    names: tuple[str, str] = ("left", "right"),
) -> Any:
    def combine(lhs: Any, rhs: Any) -> Any:
        if isinstance(lhs, Symbol) and isinstance(rhs, Symbol):
            return compose(operator, hint, [lhs, rhs], {})
        if isinstance(lhs, Symbol) and isinstance(rhs, numeric_types):
            return compose(scalar, scalar_hint, [lhs], {"scalar": rhs})
        if isinstance(rhs, Symbol) and isinstance(lhs, numeric_types):
            return compose(reverse[0], reverse[1], [rhs], {"scalar": lhs})
        if isinstance(lhs, numeric_types) and isinstance(rhs, numeric_types):
            return python(lhs, rhs)
        raise TypeError(
            f"types ({type(lhs)}, {type(rhs)}) not supported{in_graph(rhs if isinstance(lhs, Symbol) else lhs)}"
        )

    if names[0] == "base":

        def function(base: Any, exp: Any) -> Any:
            return combine(base, exp)

    else:

        def function(left: Any, right: Any) -> Any:  # type: ignore[misc]
            return combine(left, right)

    function.__name__ = function.__qualname__ = name
    return function


power = pow = _pair(
    "power",
    "_power",
    "_power",
    "_power_scalar",
    "_powerscalar",
    ("_rpower_scalar", "_rpowerscalar"),
    lambda a, b: a**b,
    ("base", "exp"),
)
maximum = _pair(
    "maximum", "_maximum", "_maximum", "_maximum_scalar", "_maximumscalar", ("_maximum_scalar", "_maximumscalar"), max
)
minimum = _pair(
    "minimum", "_minimum", "_minimum", "_minimum_scalar", "_minimumscalar", ("_minimum_scalar", "_minimumscalar"), min
)
hypot = _pair(
    "hypot",
    "_hypot",
    "_hypot",
    "_hypot_scalar",
    "_hypotscalar",
    ("_hypot_scalar", "_hypotscalar"),
    lambda a, b: (a * a + b * b) ** 0.5,
)


def split_v2(
    ary: Symbol, indices_or_sections: Any, axis: int = 0, squeeze_axis: bool = False, name: str | None = None
) -> Symbol:
    """Split into equal parts (an integer) or at positions (a tuple).

    Raises:
        ValueError: neither of them.
    """
    from ..ops import OPERATORS

    indices: list[int] = []
    sections = 0
    if isinstance(indices_or_sections, int):
        sections = indices_or_sections
    elif isinstance(indices_or_sections, (tuple, list)):
        indices = [0, *indices_or_sections]
    else:
        raise ValueError("indices_or_sections must either int or tuple of ints")
    attributes = {"indices": indices, "axis": axis, "squeeze_axis": squeeze_axis, "sections": sections}
    return make_node(OPERATORS["_split_v2"], "_split_v2", [ary], attributes, name, None)


def histogram(a: Symbol, bins: Any = 10, range: Any = None, name: str | None = None) -> Symbol:
    """Numbers of elements in bins (a number with a range, or a Symbol of edges), and the edges."""
    from ..ops import OPERATORS

    op = OPERATORS["_histogram"]
    if isinstance(bins, Symbol):
        return make_node(op, "_histogram", [a, bins], {}, name, None)
    if not isinstance(bins, int):
        raise ValueError("bins argument should be either an integer or an NDArray")
    if range is None:
        raise ValueError("null range is not supported in symbol mode")
    return make_node(op, "_histogram", [a, None], {"bin_cnt": bins, "range": tuple(range)}, name, None)


if not TYPE_CHECKING:  # which would no longer find names that are not there

    def __getattr__(name: str) -> Any:
        if name in NUMPY_MODULES:
            value: Any = import_module(f".{NUMPY_MODULES[name]}", __name__)
        else:
            value = getattr(_top, name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*__all__, *NUMPY_MODULES, *dir(_top)})
