# SPDX-License-Identifier: Apache-2.0
"""The operator table. Importing this package declares every operator."""

from importlib import import_module

from ..frontend.late_declarations import FAMILY_DECLARED_BY
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

FAMILY_DECLARED_BY["_np"] = lambda: import_module(".numpy", __name__)

__all__ = ["OPERATORS", "Operator"]
