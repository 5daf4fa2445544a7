# SPDX-License-Identifier: Apache-2.0
"""Classes of errors, and :func:`register` for more of them."""

from __future__ import annotations

from .base import MXNetError, register_error

__all__ = ["MXNetError", "register"]

register = register_error
_REPORT = (
    "MXNet hint: You hit an internal error. Please open an issue in "
    "https://github.com/apache/incubator-mxnet/issues/new/choose to report it."
)


@register_error
class InternalError(MXNetError):
    """An error in the library itself."""

    def __init__(self, msg: str) -> None:
        super().__init__(msg if "MXNet hint:" in msg else f"{msg}\n{_REPORT}")


for _known in (ValueError, TypeError, AttributeError, IndexError, NotImplementedError):
    register_error(_known.__name__, _known)
