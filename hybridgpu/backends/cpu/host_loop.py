# SPDX-License-Identifier: Apache-2.0
"""Loops on the CPU whose body is one function: a foreign call a step, by precomputed addresses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any

import numpy as np

from ...compiler.ir.types import TensorType
from ...compiler.primitives.loop import layout

__all__ = ["run_by_address"]


def run_by_address(
    operands: Sequence[Any],
    params: dict[str, Any],
    outputs: Sequence[TensorType],
    packed: Any,
    address: Callable[[Any], int],
    call: Callable[..., None],
) -> None:
    """Run a loop without a guard; see ``primitives.loop.run_loop``.

    Args:
        address: of an array's data.
        call: takes the addresses of the body's inputs, then of its outputs.
    """
    length, n, m = params["length"], params["data"], params["states"]
    first = len(outputs) - m
    order = range(length - 1, -1, -1) if params["reverse"] else range(length)
    parts = {p.position: p for p in layout(outputs, params)}
    base = address(packed)
    spare: dict[int, list[Any]] = {}
    written: list[list[int]] = []
    for k, t in enumerate(outputs):
        part = parts.get(k)
        if part is not None and part.stacked:
            begin = base + part.begin * t.dtype.size
            written.append([begin + at * t.nbytes for at in order])
            continue
        # two arrays in turn: a step reads the old value while it writes the new one
        spare[k] = [np.empty(t.shape, t.dtype.np) for _ in range(1 if k < first else 2)]
        turns = [address(a) for a in spare[k]]
        written.append([turns[at % len(turns)] for at in range(length)])
    columns: list[Any] = []
    for k, operand in enumerate(operands):
        start = address(operand)
        if k < n:
            width = operand.nbytes // length
            columns.append([start + at * width for at in order])
        elif k < n + m:
            columns.append([start, *written[first + k - n][:-1]])
        else:
            columns.append(repeat(start))
    for addresses in zip(*columns, *written):  # captured values repeat for ever
        call(*addresses)
    for k, part in parts.items():
        if not part.stacked:
            packed[part.begin : part.end].reshape(part.shape)[...] = spare[k][(length - 1) % 2]
