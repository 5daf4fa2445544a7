# SPDX-License-Identifier: Apache-2.0
"""Parameters of blocks, one by one and by name."""

from ...ndarray import NDArray
from ...symbol import Symbol
from .constant import Constant
from .dictionary import ParameterDict
from .parameter import DeferredInitializationError, Parameter, shape_is_known

__all__ = ["Constant", "DeferredInitializationError", "Parameter", "ParameterDict", "shape_is_known", "tensor_types"]

tensor_types = (Symbol, NDArray)  #: what blocks take, for ``isinstance``
