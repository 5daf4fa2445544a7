# SPDX-License-Identifier: Apache-2.0
"""Runs one pass of the table by its name, preconditions included."""

from __future__ import annotations

from typing import Any

from hybridgpu.compiler.ir import Graph
from hybridgpu.compiler.pass_context import PassContext
from hybridgpu.compiler.pipeline import PASSES, run_passes
from hybridgpu.compiler.target import Target

__all__ = ["PASS_BY_NAME", "run_pass"]

PASS_BY_NAME = {p.name: p for p in PASSES}


def run_pass(name: str, graph: Graph, target: Target, **context: Any) -> Graph:
    """What a pass makes of a graph; ``context`` as for ``PassContext``."""
    return run_passes([PASS_BY_NAME[name]], graph, PassContext(target, **context))
