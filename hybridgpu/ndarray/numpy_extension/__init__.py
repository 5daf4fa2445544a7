# SPDX-License-Identifier: Apache-2.0
"""``mx.nd.npx``: functions of arrays that NumPy does not have."""

from __future__ import annotations

from typing import Any

from ...namespaces import Functions, importable
from ..numpy import _application

_functions = Functions("ndarray.numpy_extension", _application, "NPX")
random = Functions("ndarray.numpy_extension.random", _application, "NPX", "random")
image = Functions("ndarray.numpy_extension.image", _application, "NPX", "image")
importable(random, image)


def __getattr__(name: str) -> Any:
    value = getattr(_functions, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*dir(_functions), "image", "random"})
