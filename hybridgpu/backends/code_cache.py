# SPDX-License-Identifier: Apache-2.0
"""Generated Python: functions of lines, and a cache of their code, which takes longer to compile than to find on disk."""

from __future__ import annotations

import hashlib
import marshal
import sys
from collections.abc import Callable, Iterable
from functools import lru_cache
from types import CodeType
from typing import Any

from ..cache.disk_cache import default_store

__all__ = ["code_of", "define"]


@lru_cache(maxsize=256)
def code_of(text: str, file: str) -> CodeType:
    """The code of ``text``, whose frames messages and debuggers place in ``file``."""
    store = default_store()
    key = hashlib.sha256(f"{sys.version}\0{file}\0{text}".encode()).hexdigest()
    data = store.get("code", key)
    if data is not None:
        try:
            cached = marshal.loads(data)
        except (EOFError, TypeError, ValueError):
            cached = None
        if isinstance(cached, CodeType):
            return cached
    code = compile(text, file, "exec")
    store.put("code", key, marshal.dumps(code))
    return code


def define(head: str, lines: Iterable[str], names: dict[str, Any], file: str) -> Callable[..., Any]:
    """The function that the text ``def head: lines`` defines.

    Args:
        lines: its body, not yet indented.
        names: what it names; they are its own from then on.
        file: where messages place its frames: one of ours, so that they name the user's line instead.
    """
    text = f"def {head}:\n" + "".join(f"    {line}\n" for line in lines)
    exec(code_of(text, file), names)
    function: Callable[..., Any] = names.pop(head.partition("(")[0])  # it holds the names: no cycle
    return function
