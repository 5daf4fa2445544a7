# SPDX-License-Identifier: Apache-2.0
"""Where MXNet's compiled library and its headers would be: nowhere, as programs that link with them are told."""

from __future__ import annotations

from typing import NoReturn

__all__ = ["find_conf_path", "find_include_path", "find_lib_path"]

__version__ = "1.9.1"  #: of the MXNet whose interface this is: scripts compare it

_WRITE = "Kernels are generated here, and there is no libmxnet to link with: write operators of your own as mx.operator.CustomOp."


def _refuse(what: str) -> NoReturn:
    from .core.source_location import located_hint

    raise RuntimeError(f"Cannot find the {what}.\n{located_hint(_WRITE)}")


def find_lib_path(prefix: str = "libmxnet") -> list[str]:
    """Paths of MXNet's library.

    Raises:
        RuntimeError: always.
    """
    _refuse("MXNet library")


def find_include_path() -> str:
    """The folder of MXNet's headers.

    Raises:
        RuntimeError: always.
    """
    _refuse("MXNet include path")


def find_conf_path(prefix: str = "tvmop") -> str:
    """The settings of operators made by TVM.

    Raises:
        RuntimeError: always.
    """
    _refuse("TVM op config")
