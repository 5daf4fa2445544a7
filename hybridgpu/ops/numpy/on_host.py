# SPDX-License-Identifier: Apache-2.0
"""Functions of np that are NumPy's, of the values of arrays on the host; they refuse while gradients are recorded.

The names are those for which MXNet falls back to NumPy, as far as no operators compute them: the others are declared with
``np_function_or_host``.
"""

from __future__ import annotations

from typing import Any

from .application import NP, falls_back, np_on_host

__all__ = ["on_host_names"]

_NAMES = """
argwhere flatnonzero intersect1d min_scalar_type polydiv promote_types result_type roots setdiff1d setxor1d trim_zeros union1d
"""

np_on_host(*_NAMES.split())


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
