# SPDX-License-Identifier: Apache-2.0
"""``mx.engine``: how many operators MXNet's engine runs together.

There is no engine here: an operator outside a hybridized block runs when it is called, and a hybridized block is one
program. The size is kept, per thread, so that programs that set it read back what they set; it changes no result.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["bulk", "set_bulk_size"]


class _State(threading.local):
    size = 0


_state = _State()


def set_bulk_size(size: int) -> int:
    """Set the size of bulks; the one before."""
    before, _state.size = _state.size, int(size)
    return before


@contextmanager
def bulk(size: int) -> Iterator[None]:
    """A scope in which bulks have another size."""
    before = set_bulk_size(size)
    try:
        yield
    finally:
        set_bulk_size(before)
