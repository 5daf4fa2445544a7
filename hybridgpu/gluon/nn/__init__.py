# SPDX-License-Identifier: Apache-2.0
"""``gluon.nn``: containers and layers."""

from typing import TYPE_CHECKING

from ...hints.gluon import LAYERS, LOSSES, missing
from ..block import Block
from ..hybrid import HybridBlock
from ..symbol_block import SymbolBlock
from .activations import *
from .activations import __all__ as _activations
from .basic import *
from .basic import __all__ as _basic
from .conv import *
from .conv import __all__ as _conv
from .normalization import *
from .normalization import __all__ as _normalization
from .pooling import *
from .pooling import __all__ as _pooling

__all__ = [
    "Block",
    "HybridBlock",
    "SymbolBlock",
    *_activations,
    *_basic,
    *_conv,
    *_normalization,
    *_pooling,
]

if not TYPE_CHECKING:  # which would no longer find names that are not there
    __getattr__ = missing(__name__, LAYERS, LOSSES)
