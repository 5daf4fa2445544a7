# SPDX-License-Identifier: Apache-2.0
"""Lets small programs share memory, which large ones do where it pays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from hybridgpu.compiler.passes import memory, order, reuse

__all__ = ["sharing"]


def everywhere(lifetimes: Sequence[tuple[int, int, int]], pairs: Any, *_: Any, **__: Any) -> reuse.Reuse:
    """In place wherever that may be, whether it is of use or not."""
    over = sorted(reuse._matched(lifetimes, pairs).items(), key=lambda p: lifetimes[p[0]][1])
    storage = list(range(len(lifetimes)))
    for a, b in over:
        storage[b] = storage[a]
    return reuse.Reuse(storage, over)


@contextmanager
def sharing(manner: str) -> Iterator[None]:
    """Small programs share memory, too: as large ones do, or 'everywhere'."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reuse, "WORTH", 0)
        patch.setattr(order, "WORTH", 0)
        if manner == "everywhere":
            patch.setattr(memory, "reuse", everywhere)
        yield
