# SPDX-License-Identifier: Apache-2.0
"""Cache of code objects of generated Python, which take longer to compile than to find on disk."""

from __future__ import annotations

import hashlib
import marshal
import sys
from functools import lru_cache
from types import CodeType

from ..cache.disk_cache import default_store

__all__ = ["code_of"]


@lru_cache(maxsize=256)
def code_of(text: str, file: str) -> CodeType:
    """The code of ``text``, whose frames messages and debuggers place in ``file``."""
    store = default_store()
    key = hashlib.sha256(f"{sys.version}\0{file}\0{text}".encode()).hexdigest()
    data = store.get("code", key)
    if data is not None:
        try:
            found = marshal.loads(data)
        except (EOFError, TypeError, ValueError):
            found = None
        if isinstance(found, CodeType):
            return found
    made = compile(text, file, "exec")
    store.put("code", key, marshal.dumps(made))
    return made
