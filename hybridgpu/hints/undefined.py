# SPDX-License-Identifier: Apache-2.0
"""The error of a method that a user's class should have defined."""

from __future__ import annotations

from typing import Any

from ..core.source_location import located_hint

__all__ = ["undefined"]


def undefined(instance: Any, method: str) -> NotImplementedError:
    """The error of a method that is not there, such as ``update(self, labels, preds)``, with what to write."""
    kind, name = type(instance).__name__, method.partition("(")[0]
    text = f"'{kind}' object does not define {name}"
    return NotImplementedError(f"{text}\n{located_hint(f'Write def {method} in class {kind}.')}")
