# SPDX-License-Identifier: Apache-2.0
"""The operator table. Importing this package declares every operator."""

from . import create, elementwise, indexing, linear, nn, reduce, shape
from .record import OPERATORS, Operator

__all__ = ["OPERATORS", "Operator"]

_FAMILIES = (create, elementwise, indexing, linear, nn, reduce, shape)
