# SPDX-License-Identifier: Apache-2.0
"""``mx.sym.np``: NumPy's functions of Symbols."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...frontend.namespaces import Functions, Namespace, importable


def _application() -> Any:
    from .symbol import SYMBOLS

    return SYMBOLS


_functions = Functions("symbol.numpy", _application, "NP")
if TYPE_CHECKING:  # stubs, made from the definitions
    from . import linalg, random
    from .functions import *
    from .symbol import _Symbol as _Symbol
else:
    random = Functions("symbol.numpy.random", _application, "NP", "random")
    linalg = Functions("symbol.numpy.linalg", _application, "NP", "linalg")
    importable(random, linalg)


if not TYPE_CHECKING:  # which would no longer find names that are not there

    def __getattr__(name: str) -> Any:
        if name == "_internal":  # operators under their own names: _npi_add is _internal.add
            from ..node_factory import apply_symbol

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
