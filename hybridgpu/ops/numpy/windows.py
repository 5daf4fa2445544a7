# SPDX-License-Identifier: Apache-2.0
"""Windows of signal processing: np.blackman, hamming and hanning."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...compiler.ir import Builder, Node
from ...context import current_context
from ...core.dtypes import f32, f64
from ..create import CTX
from ..params import Dtype, Int, Values
from ..record import operator, sample
from .application import np_function

__all__: list[str] = []

_TYPES = ("bfloat16", "float16", "float32", "float64", "int32", "int64", "int8", "uint8")

#: name -> weights of 1 and of the cosines of one and two turns
_WINDOWS = {"blackman": (0.42, -0.5, 0.08), "hamming": (0.54, -0.46, 0.0), "hanning": (0.5, -0.5, 0.0)}


def _declare(name: str, weights: tuple[float, float, float]) -> None:
    constant, once, twice = weights

    def lower(b: Builder, p: Values) -> Node:
        count = max(p.M or 0, 0)
        wide = f64 if p.dtype is f64 else f32
        if count <= 1:
            return b.full((count,), 1, p.dtype)
        angle = b.iota((count,), 0, wide) * (2 * math.pi / (count - 1))
        y = b.cos(angle) * once + constant
        return b.cast(y + b.cos(angle * 2.0) * twice if twice else y, p.dtype)

    operator(
        f"_npi_{name}",
        "",
        params={
            "M": Int(None, "number of points", optional=True),
            **CTX,
            "dtype": Dtype("float32", "element type", only=_TYPES),
        },
        differentiable=False,
        result_dtype=lambda p, d: p.dtype,
        samples=(
            sample([], {"M": 6}),
            sample([], {"M": 1, "dtype": "float64"}),
            sample([], {"M": 5, "dtype": "float16"}),
        ),
        doc=f"The {name.capitalize()} window.",
    )(lower)

    def function(F: Any, M: int, dtype: Any = np.float32, ctx: Any = None) -> Any:
        return F.invoke(f"_npi_{name}", (), {"M": M, "dtype": dtype, "ctx": current_context() if ctx is None else ctx})

    function.__doc__ = f"The {name.capitalize()} window of M points."
    np_function(name)(function)


for _name, _weights in _WINDOWS.items():
    _declare(_name, _weights)
