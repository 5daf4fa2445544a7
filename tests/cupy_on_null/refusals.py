# SPDX-License-Identifier: Apache-2.0
"""Actions that must be refused, with what the error has to say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hybridgpu import MXNetError


def must_refuse(act: Callable[[], Any], *words: str) -> None:
    """Do what must end in an MXNetError with these words."""
    try:
        act()
    except MXNetError as e:
        missing = [w for w in words if w not in str(e)]
        assert not missing, (missing, str(e))
        return
    raise AssertionError("nothing failed")
