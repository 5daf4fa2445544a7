# SPDX-License-Identifier: Apache-2.0
"""Calls of np that the real MXNet has answered, as expressions, made from tables.

In an expression ``np`` is the module and ``a(type, shape)`` an array whose values follow from its arguments; quarters and
whole numbers, so that every float type holds them. ``record_numpy_calls.py`` beside this folder runs them in MXNet.
"""

from .creation import creation
from .elementwise import elementwise, elementwise_gradients
from .indexing import indexing, indexing_gradients
from .reductions import reductions, reductions_gradients
from .shapes import shapes, shapes_gradients
from .values import TYPES, values

__all__ = ["CALLS", "GRADIENTS", "TYPES", "values"]

CALLS = {
    "elementwise": elementwise,
    "reductions": reductions,
    "shapes": shapes,
    "creation": creation,
    "indexing": indexing,
}
GRADIENTS = {
    "elementwise": elementwise_gradients,
    "reductions": reductions_gradients,
    "shapes": shapes_gradients,
    "indexing": indexing_gradients,
}
