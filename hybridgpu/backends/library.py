# SPDX-License-Identifier: Apache-2.0
"""Steps that a library computes on whole arrays, on either target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..compiler.ir.types import tensor_type
from ..compiler.primitives import TABLE
from ..compiler.primitives.loop import drive
from ..compiler.program import HostStep, Program
from ..compiler.reference import evaluate_stored
from ..dtypes import from_short

__all__ = ["run_host_step"]


def run_host_step(
    step: HostStep,
    array: Callable[[int, tuple[int, ...]], Any],
    program: Program,
    xp: Any,
    body: Callable[[list[Any], list[Any]], None] | None = None,
) -> None:
    """Compute a primitive.

    Args:
        array: (buffer number, shape) -> array over the buffer's memory.
        xp: NumPy or CuPy.
        body: runs one step of a loop: (inputs, outputs).
    """
    b = program.buffers[step.output]
    out = array(step.output, b.shape)
    operands = []
    for index, shape, transposed in zip(step.inputs, step.input_shapes, step.transposed, strict=True):
        x = array(index, shape)
        operands.append(x.swapaxes(-1, -2) if transposed else x)
    with np.errstate(all="ignore"):
        if body is not None:
            assert step.body is not None
            types = [tensor_type(shape, from_short(short)) for shape, short in step.body.outputs]
            drive(xp, operands, step.params, types, out, body)
            return
        if step.primitive == "dot" and b.dtype in ("f32", "f64"):
            xp.matmul(*operands, out=out)
            return
        params = {k: from_short(v) if k == "dtype" else v for k, v in step.params.items()}
        type = tensor_type(b.shape, from_short(b.dtype))
        out[...] = evaluate_stored(TABLE[step.primitive], xp, operands, params, type)
