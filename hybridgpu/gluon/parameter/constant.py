# SPDX-License-Identifier: Apache-2.0
"""A parameter that is never learned: its values are given where it is made."""

from __future__ import annotations

import warnings
from typing import Any

from ... import initializer, ndarray
from ...core.source_location import located_hint, user_frame
from ...ndarray import NDArray
from ...ndarray.mode import of_mode
from .parameter import Parameter

__all__ = ["Constant"]


class Constant(Parameter):
    """A parameter that is never learned.

    Args:
        name: full name.
        value: array, list or number; lists become float32.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Constant:
        if len(args) == 1 and not kwargs and not isinstance(args[0], str):  # as in MXNet 2
            raise TypeError(
                "Constant.__init__() missing 1 required positional argument: 'value'\n"
                + located_hint("Write Constant(name, value).")
            )
        return super().__new__(cls)

    def __init__(self, name: str, value: Any) -> None:
        if not isinstance(value, NDArray):
            value = of_mode(ndarray.array(value))
        self.value = value

        class Init(initializer.Initializer):
            def _init_weight(self, name: str, arr: Any) -> None:
                value.as_nd_ndarray().copyto(arr.as_nd_ndarray())

            _init_default = _init_bias = _init_beta = _init_gamma = _init_zero = _init_one = _init_weight

        init_name = f"Constant_{name}_{id(self)}"
        Init.__name__ = init_name
        initializer.register(Init)
        super().__init__(name, grad_req="null", shape=value.shape, dtype=value.dtype, init=init_name)

    def __repr__(self) -> str:
        return f"Constant {self.name} (shape={self.shape}, dtype={self.dtype})"

    @property
    def grad_req(self) -> str:
        """Always 'null'."""
        return "null"

    @grad_req.setter
    def grad_req(self, req: str) -> None:
        if req != "null":
            warnings.warn(
                f'Constant parameter "{self.name}" does not support grad_req other than "null", and new value "{req}" is ignored.',
                stacklevel=user_frame(),
            )
        self._grad_req = "null"
