# SPDX-License-Identifier: Apache-2.0
"""Parameters of blocks, one by one and by name."""

from .dictionary import ParameterDict
from .parameter import Constant, DeferredInitializationError, Parameter, shape_is_known

__all__ = ["Constant", "DeferredInitializationError", "Parameter", "ParameterDict", "shape_is_known"]
