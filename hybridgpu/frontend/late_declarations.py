# SPDX-License-Identifier: Apache-2.0
"""Registry of operators that higher layers declare on first use (``Custom``)."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["DECLARED_BY"]

#: operator -> what puts its record into the table
DECLARED_BY: dict[str, Callable[[], object]] = {}
