# SPDX-License-Identifier: Apache-2.0
"""``gluon.nn``: containers and layers."""

from ..block import Block
from ..hybrid import HybridBlock
from ..symbol_block import SymbolBlock
from .activations import *  # noqa: F403
from .activations import __all__ as _activations
from .basic import *  # noqa: F403
from .basic import __all__ as _basic
from .conv import *  # noqa: F403
from .conv import __all__ as _conv
from .normalization import *  # noqa: F403
from .normalization import __all__ as _normalization
from .pooling import *  # noqa: F403
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
