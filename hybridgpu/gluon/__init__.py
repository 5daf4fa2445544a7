# SPDX-License-Identifier: Apache-2.0
"""Gluon: blocks, parameters and layers."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from . import nn
from .block import Block
from .hybrid import HybridBlock
from .parameter import Constant, DeferredInitializationError, Parameter, ParameterDict, tensor_types
from .symbol_block import SymbolBlock

__all__ = [
    "Block",
    "Constant",
    "DeferredInitializationError",
    "HybridBlock",
    "Parameter",
    "ParameterDict",
    "SymbolBlock",
    "Trainer",
    "nn",
    "tensor_types",
]

if TYPE_CHECKING:  # which are imported at first use
    from . import contrib as contrib
    from . import data as data
    from . import loss as loss
    from . import model_zoo as model_zoo
    from . import rnn as rnn
    from . import trainer as trainer
    from . import utils as utils
    from .trainer import Trainer

_LATER = {"loss", "rnn", "data", "utils", "contrib", "model_zoo", "trainer"}


if not TYPE_CHECKING:  # which would no longer find names that are not there

    def __getattr__(name: str) -> Any:
        if name == "Trainer":
            from .trainer import Trainer

            return Trainer
        if name in _LATER:
            return importlib.import_module(f".{name}", __name__)
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*__all__, *_LATER, "block", "parameter"})
