# SPDX-License-Identifier: Apache-2.0
"""Late bindings: functions that a lower layer calls and a higher one defines.

A layer that looks upwards makes a subclass, whose annotations are the functions, and calls them as attributes of its one
instance. A package above it registers which module defines each. A module is imported when a function of its is first
asked for, so looking upwards costs nothing at import, and no more than an attribute afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = ["LateBindings"]


class LateBindings:
    """Functions that modules above define; see the module."""

    def __init__(self) -> None:
        self._modules: dict[str, tuple[str, str]] = {}

    def register(self, package: str, modules: Mapping[str, str]) -> None:
        """Say which module defines each function.

        Args:
            package: the package that registers, to which the paths are relative.
            modules: path of a module -> names of functions that it defines, with spaces between them.
        """
        for module, names in modules.items():
            for name in names.split():
                assert name in type(self).__annotations__, f"{type(self).__name__} does not ask for {name}"
                self._modules[name] = (module, package)

    def registered(self) -> dict[str, Any]:
        """Each function that a package registered, by its name; imports their modules."""
        return {name: getattr(self, name) for name in self._modules}

    if not TYPE_CHECKING:  # checkers know the functions by their annotations

        def __getattr__(self, name: str) -> Any:
            """A function that is asked for for the first time: it becomes an attribute."""
            binding = self.__dict__.get("_modules", {}).get(name)
            if binding is None:
                raise AttributeError(f"no package has registered {type(self).__name__}.{name}")
            value = getattr(import_module(*binding), name)
            setattr(self, name, value)
            return value
