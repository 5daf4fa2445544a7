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
    nn,
    normalization,
    optimizer,
    optimizer_adamw,
    optimizer_many,
    ordering,
    pooling,
    rearrange,
    reduce,
    regions,
    resize,
    rnn,
    sampling,
    sequence,
    shape,
    signal,
    slicing,
    state,
    vision,
)
from .record import OPERATORS, Operator

__all__ = ["OPERATORS", "Operator"]
