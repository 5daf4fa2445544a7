# SPDX-License-Identifier: Apache-2.0
"""Operators that modules above the operator table declare, when somebody asks for one: the package says which."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["DECLARED_BY"]

#: operator -> what puts its record into the table
DECLARED_BY: dict[str, Callable[[], object]] = {}
