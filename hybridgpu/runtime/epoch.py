# SPDX-License-Identifier: Apache-2.0
"""A counter that whatever gives a parameter new memory increments.

A prepared call holds addresses of parameters; it checks this number instead of every parameter.
Writing new values into a parameter (``set_data``) keeps its memory and does not count.
"""

from __future__ import annotations

__all__ = ["bump", "epoch"]

epoch = [0]  #: the number, in a list so that prepared calls can hold it


def bump() -> None:
    """Invalidate every prepared call."""
    epoch[0] += 1
