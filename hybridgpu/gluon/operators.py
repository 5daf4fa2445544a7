# SPDX-License-Identifier: Apache-2.0
"""The ``F`` of our own layers where Gluon works on np arrays: operators of nd by name, which take and give arrays of np.

Layers are written once, with the names of ``nd``. An operator that np or npx has, too, under a name of the same record
(``FullyConnected`` is ``npx.fully_connected``) is that one; of the others a function of ``nd`` runs on the legacy arrays of the
same memory.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

from .. import ndarray as nd_module
from .. import symbol as sym_module
from ..frontend.namespaces import NUMPY_MODULES
from ..ndarray import NDArray
from ..ops.functions import find, registered
from ..symbol import Symbol
from ..util import is_np_array

__all__ = ["space_of", "with_operators_of_mode"]


def space_of(F: Any) -> Any:
    """``F``, nd or sym, or in np mode the same with arrays of np."""
    if not is_np_array() or isinstance(F, _Operators):
        return F
    return _SPACES[F is sym_module]


def with_operators_of_mode(hybrid_forward: Callable[..., Any]) -> Callable[..., Any]:
    """A ``hybrid_forward`` of ours, which is called with the operators of the mode, by subclasses of users, too."""

    @functools.wraps(hybrid_forward)
    def run(self: Any, F: Any, *args: Any, **kwargs: Any) -> Any:
        return hybrid_forward(self, space_of(F), *args, **kwargs)

    return run


class _Operators:
    """A namespace of nd or sym on arrays of np; what it gives is made at first access."""

    def __init__(self, space: ModuleType, records: ModuleType, namespace: str = "") -> None:
        self._space, self._records, self._namespace = space, records, namespace

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._space, name)
        if name not in NUMPY_MODULES:
            if isinstance(value, ModuleType):
                value = _Operators(value, self._records, name)
            elif callable(value):
                value = self._following(name, value)
        setattr(self, name, value)
        return value

    def _following(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        op = find(name, self._namespace)
        if op is not None:
            elementwise = len(op.inputs) == 1 and not op.params and not op.variadic
            # an elementwise function is the same in npx and np where it has a record of its own there
            own_record = [f"_npx_{name}"] if elementwise and registered(f"_npx_{name}") else []
            for alias in (op.name, *op.aliases, *own_record):
                if alias.startswith(("_npx_", "_npi_", "_np_")):
                    record: Callable[..., Any] = getattr(self._records, alias)
                    return record
            if elementwise:
                own = None if self._namespace else getattr(self._space.np, name, None)
                if own is not None:
                    return lambda data, out=None, name=None: own(data)
        return lambda *args, **kwargs: _converted(
            function(*map(_legacy, args), **{k: _legacy(v) for k, v in kwargs.items()})
        )


def _legacy(x: Any) -> Any:
    if isinstance(x, (NDArray, Symbol)):
        return x.as_nd_ndarray()
    return [_legacy(v) for v in x] if isinstance(x, list) else x


def _converted(x: Any) -> Any:
    if isinstance(x, Symbol) and len(x._heads) > 1:
        return [x[k].as_np_ndarray() for k in range(len(x._heads))]
    if isinstance(x, (NDArray, Symbol)):
        return x.as_np_ndarray()
    return [_converted(v) for v in x] if isinstance(x, (list, tuple)) else x


_SPACES = (_Operators(nd_module, nd_module._internal), _Operators(sym_module, sym_module._internal))
