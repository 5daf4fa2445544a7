# SPDX-License-Identifier: Apache-2.0
"""``mx.sym.np``: NumPy's functions of Symbols."""

from __future__ import annotations

from typing import Any

from ...namespaces import Functions, Namespace, importable


def _application() -> Any:
    from .symbol import SYMBOLS

    return SYMBOLS


_functions = Functions("symbol.numpy", _application, "NP")
random = Functions("symbol.numpy.random", _application, "NP", "random")
linalg = Functions("symbol.numpy.linalg", _application, "NP", "linalg")
importable(random, linalg)


def __getattr__(name: str) -> Any:
    if name == "_internal":  # operators under their own names: _npi_add is _internal.add
        from ..compose import apply_symbol

        value: Any = Namespace("npi", apply_symbol, "symbol", f"{__name__}._internal")
    elif name == "_Symbol":
        from .symbol import _Symbol

        value = _Symbol
    else:
        value = getattr(_functions, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*dir(_functions), "linalg", "random", "_internal", "_Symbol"})
