# SPDX-License-Identifier: Apache-2.0
"""Namespaces of operator functions, filled at first access."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from .ops.functions import find, make_function, names_in
from .provenance import advice, current_block

__all__ = ["Namespace", "importable"]


class Namespace(ModuleType):
    """``nd.contrib`` and its like, modules that can be imported: attributes are functions made from the operator table.

    Args:
        name: which operators, see ``ops.functions.find``.
        apply: (operator, spelled name, Bound) -> result.
        module: 'ndarray' or 'symbol', for ``__module__`` and messages.
    """

    def __init__(self, name: str, apply: Callable[..., Any], module: str) -> None:
        super().__init__(f"hybridgpu.{module}" + (f".{name}" if name else ""))
        self._name, self._apply, self._module = name, apply, module

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        op = find(name, self._name)
        if op is None:
            text = f"module '{self.__name__}' has no attribute '{name}'"
            from .elsewhere import OPERATORS

            if not self._name and name in OPERATORS:
                instead = OPERATORS[name].format(
                    "nd" if self._module == "ndarray" else "F" if current_block() else "sym"
                )
                raise AttributeError(f"{text}\n{advice(f'Write {instead}.')}")
            near = _similar(name, self._name)
            raise AttributeError(f"{text}; did you mean {near}?" if near else text)
        function = make_function(op, name, self._apply, self.__name__)
        setattr(self, name, function)
        return function

    def __dir__(self) -> list[str]:
        return sorted({*self.__dict__, *names_in(self._name)})

    def __repr__(self) -> str:
        return f"<module '{self.__name__}'>"


def importable(*spaces: Namespace) -> None:
    """Let import statements find namespaces, which have no file: ``from hybridgpu.ndarray.contrib import ...``."""
    sys.modules.update((space.__name__, space) for space in spaces)


def _similar(name: str, namespace: str) -> str:
    import difflib

    found = difflib.get_close_matches(name, list(names_in(namespace)), 1, 0.8)
    return found[0] if found else ""
