# SPDX-License-Identifier: Apache-2.0
"""``mx.nd.npx``: functions of arrays that NumPy does not have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...frontend.namespaces import Functions, importable
from ..numpy import _application

_functions = Functions("ndarray.numpy_extension", _application, "NPX")
if TYPE_CHECKING:  # stubs, made from the definitions
    from ...numpy_extension import image as image
    from ...numpy_extension import random as random
    from ...numpy_extension.functions import *
else:
    random = Functions("ndarray.numpy_extension.random", _application, "NPX", "random")
    image = Functions("ndarray.numpy_extension.image", _application, "NPX", "image")
    importable(random, image)


if not TYPE_CHECKING:  # which would no longer find names that are not there

    def __getattr__(name: str) -> Any:
        value = getattr(_functions, name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*dir(_functions), "image", "random"})
