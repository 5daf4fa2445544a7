# SPDX-License-Identifier: Apache-2.0
"""Functions of np that are NumPy's, of the values of arrays on the host; they refuse while gradients are recorded.

The names are those for which MXNet falls back to NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .application import NP, is_on_host, np_on_host

__all__ = ["on_host_names"]

_NAMES = """
allclose apply_along_axis apply_over_axes argpartition argwhere array_equal array_equiv choose compress corrcoef correlate
count_nonzero cov digitize divmod extract flatnonzero float_power frexp heaviside histogram2d histogram_bin_edges histogramdd
i0 interp intersect1d isclose isin ix_ lexsort min_scalar_type modf nanargmax nanargmin nancumprod nancumsum nanmax nanmedian
nanmin nanpercentile nanprod nanquantile ndim partition packbits piecewise poly polyadd polydiv polyfit polyint polymul polysub
positive promote_types ptp real result_type rollaxis roots searchsorted select setdiff1d setxor1d signbit size spacing
take_along_axis tril_indices_from trim_zeros triu_indices_from union1d unpackbits unwrap vander
linalg.cond linalg.lstsq linalg.matrix_power linalg.matrix_rank linalg.multi_dot linalg.qr
"""

np_on_host(*(name for name in _NAMES.split() if name not in NP))

#: names that NumPy 2 no longer has -> what computes the same
_RENAMED: dict[str, Callable[..., Any]] = {
    "alltrue": np.all,
    "in1d": lambda ar1, ar2, *args, **kwargs: np.isin(np.ravel(ar1), ar2, *args, **kwargs),
    "msort": lambda a: np.sort(a, axis=0),
    "trapz": np.trapezoid,
}


def _renamed(name: str, function: Callable[..., Any]) -> None:
    def definition(F: Any, *args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    definition.__doc__ = f"What NumPy's ``{name}`` was before NumPy 2."
    definition.on_host = True  # type: ignore[attr-defined]
    NP[name] = definition


def _removed(name: str) -> None:
    def definition(F: Any, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            f"In accordance with NEP 32, the function {name} was removed from NumPy version 1.20. A replacement for this "
            "function is available in the numpy_financial library"
        )

    definition.__doc__ = "Removed from NumPy 1.20; numpy_financial has it."
    definition.on_host = True  # type: ignore[attr-defined]
    NP[name] = definition


for _name, _function in _RENAMED.items():
    _renamed(_name, _function)
for _name in ("mirr", "npv", "ppmt", "pv", "rate"):
    _removed(_name)


def on_host_names(part: str = "") -> list[str]:
    """Names of np, or of a part such as 'linalg', behind which NumPy's functions stand."""
    start = f"{part}." if part else ""
    names = [n[len(start) :] for n, definition in NP.items() if is_on_host(definition) and n.startswith(start)]
    return sorted(n for n in names if "." not in n)
