# SPDX-License-Identifier: Apache-2.0
"""``mx.nd.np``: NumPy's functions of arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...frontend.namespaces import Functions, Namespace, importable
from .late_bindings import late

late.register(
    __name__,
    {
        ".creation": "array",
        ".indexing": "assign_whole get_item set_item",
        ".protocols": "array_function array_ufunc on_host",
    },
)


def _application() -> Any:
    from .array import ARRAYS

    return ARRAYS


_functions = Functions("ndarray.numpy", _application, "NP")
if TYPE_CHECKING:  # stubs, made from the definitions
    from ...numpy import linalg as linalg
    from ...numpy import random as random
    from ...numpy.functions import *
    from .array import ndarray as ndarray
else:
    random = Functions("ndarray.numpy.random", _application, "NP", "random")
    linalg = Functions("ndarray.numpy.linalg", _application, "NP", "linalg")
    importable(random, linalg)


if not TYPE_CHECKING:  # which would no longer find names that are not there

    def __getattr__(name: str) -> Any:
        if name == "_internal":  # operators under their own names: _npi_add is _internal.add
            from ..apply import apply_function

            value: Any = Namespace("npi", apply_function, "ndarray", f"{__name__}._internal")
        elif name == "ndarray":
            from .array import ndarray

            value = ndarray
        else:
            value = getattr(_functions, name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*dir(_functions), "linalg", "random", "_internal", "ndarray"})
