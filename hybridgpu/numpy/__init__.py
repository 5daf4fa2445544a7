# SPDX-License-Identifier: Apache-2.0
"""``mx.np``: arrays and functions with NumPy's interface."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..frontend.namespaces import Functions, importable
from ..ndarray.numpy import _application
from . import utils
from .arrayprint import set_printoptions
from .io import genfromtxt
from .multiarray import array, ndarray
from .utils import *

_functions = Functions("numpy", _application, "NP")
if TYPE_CHECKING:  # stubs, made from the definitions
    from . import fallback as fallback
    from . import fallback_linalg as fallback_linalg
    from . import linalg, random
    from .functions import *
else:
    random = Functions("numpy.random", _application, "NP", "random")
    linalg = Functions("numpy.linalg", _application, "NP", "linalg")
    importable(random, linalg)

_MODULES = ("fallback", "fallback_linalg")  #: which import all definitions

__all__ = ["array", "genfromtxt", "linalg", "ndarray", "random", "set_printoptions", *utils.__all__]


if not TYPE_CHECKING:  # which would no longer find names that are not there

    def __getattr__(name: str) -> Any:
        value = import_module(f".{name}", __name__) if name in _MODULES else getattr(_functions, name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_MODULES, *dir(_functions)})
