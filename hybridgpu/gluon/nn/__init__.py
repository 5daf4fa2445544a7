# SPDX-License-Identifier: Apache-2.0
"""``gluon.nn``: containers and layers."""

from ..block import Block
from ..hybrid import HybridBlock
from ..symbol_block import SymbolBlock
from .activations import *  # noqa: F403
from .activations import __all__ as _activations
from .basic import *  # noqa: F403
from .basic import __all__ as _basic

__all__ = ["Block", "HybridBlock", "SymbolBlock", *_activations, *_basic]
