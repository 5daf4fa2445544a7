# SPDX-License-Identifier: Apache-2.0
"""From the names that operators of NumPy's interface are registered by to the functions of ``mx.np`` and ``mx.npx``."""

from __future__ import annotations

import importlib
from typing import Any

__all__: list[str] = []

#: what registered names begin with -> the module of the functions, parts of it
_MODULES = {"_np_": ("numpy", ("random", "linalg")), "_npx_": ("numpy_extension", ("image", "random"))}


def _get_builtin_op(op_name: str) -> Any:
    """The function of an operator; None for one that no function is named after.

    Raises:
        ValueError: there is no such function.
    """
    prefix = next((prefix for prefix in _MODULES if op_name.startswith(prefix)), None)
    if prefix is None:
        return None
    name, parts = _MODULES[prefix]
    module, rest = importlib.import_module(f".{name}", __package__), op_name.removeprefix(prefix)
    part = next((part for part in parts if rest.startswith(f"_{part}_")), "")
    owner = getattr(module, part) if part else module
    function = getattr(owner, rest.removeprefix(f"_{part}_") if part else rest, None)
    if function is None:
        raise ValueError(f"Cannot find operator {rest} in module {module.__name__}")
    return function
