# SPDX-License-Identifier: Apache-2.0
"""Lets small programs share memory, which large ones do where it pays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from hybridgpu.compiler.passes.memory import buffer_assignment, buffer_reuse, step_order

__all__ = ["sharing"]


def everywhere(lifetimes: Sequence[tuple[int, int, int]], pairs: Any, *_: Any, **__: Any) -> buffer_reuse.Reuse:
    """In place wherever that may be, whether it is of use or not."""
    over = sorted(buffer_reuse._match_pairs(lifetimes, pairs).items(), key=lambda p: lifetimes[p[0]][1])
    storage = list(range(len(lifetimes)))
    for a, b in over:
        storage[b] = storage[a]
    return buffer_reuse.Reuse(storage, over)


@contextmanager
def sharing(manner: str) -> Iterator[None]:
    """Small programs share memory, too: as large ones do, or 'everywhere'."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(buffer_reuse, "MIN_PEAK_BYTES", 0)
        patch.setattr(step_order, "MIN_PEAK_BYTES", 0)
        if manner == "everywhere":
            patch.setattr(buffer_assignment, "reuse_buffers", everywhere)
        yield
