# SPDX-License-Identifier: Apache-2.0
"""The operator table. Importing this package declares every operator."""

from . import (
    attention,
    boxes,
    control_flow,
    conv,
    create,
    deformable,
    elementwise,
    image,
    indexing,
    linalg,
    linear,
    losses,
    multi_tensor,
    nn,
    normalization,
    optimizer,
    optimizer_adamw,
    ordering,
    pooling,
    random,
    rearrange,
    reduce,
    resize,
    rnn,
    roi,
    sequence,
    shape,
    signal,
    slicing,
    state,
    vision,
)
from .record import OPERATORS, Operator

__all__ = ["OPERATORS", "Operator"]
