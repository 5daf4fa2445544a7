# SPDX-License-Identifier: Apache-2.0
"""Name scopes of blocks: prefixes, counters, ``with block.name_scope():``."""

from __future__ import annotations

import threading
from typing import Any

from .. import name as names
from .parameter import ParameterDict

__all__ = ["BlockScope"]


class BlockScope:
    """The naming scope of one block.

    Args:
        counters: how many children without a name of their own there were, by the start of their names.
    """

    _current = threading.local()

    def __init__(self, block: Any, counters: dict[str, int] | None = None) -> None:
        self._block = block
        self._counter: dict[str, int] = {} if counters is None else counters
        self._outer: list[Any] = []
        self._managers: list[names.NameManager] = []

    @staticmethod
    def create(prefix: str | None, params: ParameterDict | None, hint: str) -> tuple[str, ParameterDict]:
        """Prefix and parameters of a new block, from the scope it is made in."""
        current = getattr(BlockScope._current, "value", None)
        if current is None:
            if prefix is None:
                prefix = names.current().get(None, hint) + "_"
            own_params = ParameterDict(prefix) if params is None else ParameterDict(params.prefix, params)
            return prefix, own_params
        if prefix is None:
            number = current._counter.get(hint, 0)
            current._counter[hint] = number + 1
            prefix = f"{hint}{number}_"
        parent = current._block.params
        if params is None:
            own_params = ParameterDict(parent.prefix + prefix, parent._shared)
        else:
            own_params = ParameterDict(params.prefix, params)
        return current._block.prefix + prefix, own_params

    def __enter__(self) -> BlockScope:
        if self._block._empty_prefix:
            return self
        self._outer.append(getattr(BlockScope._current, "value", None))
        BlockScope._current.value = self
        manager = names.Prefix(self._block.prefix)
        manager.__enter__()
        self._managers.append(manager)
        return self

    def __exit__(self, *exc: object) -> None:
        if self._block._empty_prefix:
            return
        self._managers.pop().__exit__(*exc)
        BlockScope._current.value = self._outer.pop()
