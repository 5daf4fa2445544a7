# SPDX-License-Identifier: Apache-2.0
"""Functions of np that are NumPy's, of the values of arrays on the host; they refuse while gradients are recorded.

The names are those for which MXNet falls back to NumPy, as far as no operators compute them: the others are declared with
``np_function_or_host``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .application import NP, falls_back, np_on_host

__all__ = ["on_host_names"]

_NAMES = """
apply_along_axis apply_over_axes argpartition argwhere choose compress correlate extract flatnonzero frexp
histogram_bin_edges i0 intersect1d ix_ lexsort min_scalar_type nanargmax nanargmin nancumprod nanmedian partition
packbits piecewise poly polydiv polyfit polyint polymul promote_types result_type roots setdiff1d setxor1d spacing
tril_indices_from trim_zeros triu_indices_from union1d unpackbits linalg.cond linalg.matrix_rank
linalg.qr
"""

np_on_host(*_NAMES.split())


# -- those whose arguments NumPy 2 changed, with the arguments of before


def _histogram2d(
    x: Any, y: Any, bins: Any = 10, range: Any = None, normed: Any = None, weights: Any = None, density: Any = None
) -> Any:
    return np.histogram2d(x, y, bins, range, normed if density is None else density, weights)


def _histogramdd(
    sample: Any, bins: Any = 10, range: Any = None, normed: Any = None, weights: Any = None, density: Any = None
) -> Any:
    return np.histogramdd(sample, bins, range, normed if density is None else density, weights)


def _lstsq(a: Any, b: Any, rcond: Any = "warn") -> Any:
    return np.linalg.lstsq(a, b, -1 if rcond == "warn" else rcond)  # which cuts singular values off at zero


def _nanquantile(name: str) -> Callable[..., Any]:
    function = getattr(np, name)

    def renamed(
        a: Any,
        q: Any,
        axis: Any = None,
        out: Any = None,
        overwrite_input: bool = False,
        method: str = "linear",
        keepdims: Any = np._NoValue,
        *,
        interpolation: str | None = None,
    ) -> Any:
        return function(a, q, axis, out, overwrite_input, interpolation or method, keepdims=keepdims)

    return renamed


np_on_host("histogram2d", function=_histogram2d)
np_on_host("histogramdd", function=_histogramdd)
np_on_host("linalg.lstsq", function=_lstsq)
for _name in ("nanpercentile", "nanquantile"):
    np_on_host(_name, function=_nanquantile(_name))


def _removed(name: str) -> None:
    def definition(F: Any, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            f"In accordance with NEP 32, the function {name} was removed from NumPy version 1.20. A replacement for this "
            "function is available in the numpy_financial library"
        )

    definition.__doc__ = "Removed from NumPy 1.20; numpy_financial has it."
    definition.on_host = definition.falls_back = True  # type: ignore[attr-defined]
    NP[name] = definition


for _name in ("mirr", "npv", "ppmt", "pv", "rate"):
    _removed(_name)


def on_host_names(part: str = "") -> list[str]:
    """Names of np, or of a part such as 'linalg', that MXNet leaves to NumPy."""
    start = f"{part}." if part else ""
    names = [n[len(start) :] for n, definition in NP.items() if falls_back(definition) and n.startswith(start)]
    return sorted(n for n in names if "." not in n)
