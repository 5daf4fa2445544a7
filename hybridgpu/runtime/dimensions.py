# SPDX-License-Identifier: Apache-2.0
"""Sizes beyond the first: which axes are dimensions, and what was planned for other sizes of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..compiler.ir.dims import Dim, Scope, symbolic_dims
from ..compiler.ir.types import TensorType
from ..compiler.size_buckets import symbolic_type, with_dims
from ..compiler.size_templates import Template
from ..core.settings import dump_folder

__all__ = ["ChangedTypes", "Sizes", "Templates", "changed_types", "symbolic_types"]

#: position -> type at the first signature, of the inputs whose shape differs from it
ChangedTypes = tuple[tuple[int, TensorType], ...]
#: what programs depend on beside the extents of dimensions -> what was planned, the last one first
Templates = dict[Any, list[Template]]

_MOST = 4  #: templates for different decisions that are kept
_MOST_KEYS = 1024


def changed_types(types: Sequence[TensorType], first: Sequence[TensorType], fixed: frozenset[int]) -> ChangedTypes:
    """The inputs, parameters aside, that have other extents than at the first signature, with their type there."""
    if len(first) != len(types):
        return ()
    return tuple(
        (k, old)
        for k, (t, old) in enumerate(zip(types, first, strict=True))
        if t is not old and k not in fixed and t.ndim == old.ndim
    )


def symbolic_types(types: Sequence[TensorType], changed: ChangedTypes, scope: Scope | None) -> list[TensorType]:
    """The types with dimensions of ``scope`` where they have changed, as they are without one."""
    result = list(types)
    if scope is not None:
        for k, first in changed:
            result[k] = symbolic_type(result[k], first, scope)
    return result


class Sizes:
    """The results for one size of the dimensions of a graph.

    Args:
        templates: kept by whoever makes such things.
        key: what they depend on beside the types.
        types, changed: the types, and what differs from those of the first signature.

    Attributes:
        found: what a template has given for this size; None if there is none that holds for it.
    """

    def __init__(self, templates: Templates, key: Any, types: Sequence[TensorType], changed: ChangedTypes) -> None:
        self._templates, self._symbolic = templates, bool(changed)
        self._scope: Scope | None = None
        self._extents: list[int] = []
        self.found: Any = None
        if not changed or dump_folder():  # a dump needs the stages
            return
        pattern, scope = list[Any](types), Scope()
        for k, first in changed:
            shape = with_dims(types[k].shape, first.shape, scope)
            pattern[k] = types[k].dtype, tuple(n.form if type(n) is Dim else n for n in shape)
        self._extents = [extent for extent, _ in scope.dimensions]
        self._key = key, tuple(pattern), tuple(at_first for _, at_first in scope.dimensions)
        if self._extents:
            for template in self._templates.get(self._key, ()):
                self.found = template.at(self._extents)
                if self.found is not None:
                    break

    @contextmanager
    def scope(self) -> Iterator[Scope | None]:
        """Planning, if there is any, has the dimensions of this scope."""
        if not self._symbolic or self.found is not None:
            yield None
            return
        with symbolic_dims() as scope:
            self._scope = scope
            yield scope

    def keep(self, planned: Any) -> None:
        """Keep what was planned in :meth:`scope` for other sizes; None was found somewhere else."""
        if self._scope is None or planned is None or not self._extents:
            return
        if len(self._templates) >= _MOST_KEYS:
            del self._templates[next(iter(self._templates))]
        templates = self._templates.setdefault(self._key, [])
        templates.insert(0, Template(self._scope, planned))
        del templates[_MOST:]
