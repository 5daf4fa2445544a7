# SPDX-License-Identifier: Apache-2.0
"""Tracing Python that works on arrays: it runs once, on arrays without values, and leaves a Symbol graph.

While ``autograd_state.state.trace`` is set, every operator makes a node of that graph instead of computing, also where the
operands are real arrays. Those that have no values yet are :class:`~.arrays.Traced`.
"""

from __future__ import annotations

from .error import TracingError
from .late_bindings import late
from .trace import Captured, Trace, TracedGraph, tracing

late.register(__name__, {".indexing": "basic get_item set_item"})

__all__ = ["Captured", "Trace", "TracedGraph", "TracingError", "tracing"]
