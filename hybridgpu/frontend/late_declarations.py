# SPDX-License-Identifier: Apache-2.0
"""Registries of operators that are declared on first use: ``Custom``, by a higher layer, and those of np."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["DECLARED_BY", "FAMILY_DECLARED_BY"]

#: operator -> what puts its record into the table
DECLARED_BY: dict[str, Callable[[], object]] = {}
#: the three characters that names begin with -> what puts the records of all such operators into the table
FAMILY_DECLARED_BY: dict[str, Callable[[], object]] = {}
