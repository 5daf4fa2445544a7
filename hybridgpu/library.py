# SPDX-License-Identifier: Apache-2.0
"""``mx.library``: MXNet loads compiled libraries with operators here; they need MXNet's own headers and memory."""

from __future__ import annotations

import os
from typing import NoReturn

from .base import MXNetError
from .core.source_location import located_hint

__all__ = ["load"]


def load(path: str, verbose: bool = True) -> NoReturn:
    """Refuse to load a library.

    Raises:
        MXNetError: always, with MXNet's words where the path is none of a library.
    """
    if not os.path.exists(path):
        raise MXNetError(f"load path {path} does NOT exist")
    if not os.path.isabs(path):
        raise MXNetError(f"load path {path} is not an absolute path")
    if os.path.splitext(path)[1] not in (".so", ".dll"):
        raise MXNetError(f"load path {path} is NOT a library file")
    text = (
        "Write a mx.operator.CustomOp for an operator, operators of F in a hybridized block for a kernel, or a "
        "mx.rtc.CudaModule for one in CUDA."
    )
    raise MXNetError(f"{path} cannot be loaded: it is compiled for MXNet's own library\n{located_hint(text)}")
