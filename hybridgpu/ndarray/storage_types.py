# SPDX-License-Identifier: Apache-2.0
"""Storage types of arrays, which are all dense: errors for the others."""

from __future__ import annotations

from typing import NoReturn

from ..base import MXNetError
from ..core.source_location import located_hint

__all__ = ["need_dense", "refuse_sparse"]


def refuse_sparse(what: str) -> NoReturn:
    """Raise the error for what makes a sparse array."""
    text = "Write mx.nd.array(values) of the dense values, such as x.toarray() of a SciPy matrix."
    raise MXNetError(f"{what}: arrays are dense, row_sparse and csr arrays are not supported\n{located_hint(text)}")


def need_dense(what: str, stype: str | None) -> None:
    """Refuse storage types that no array has.

    Raises:
        MXNetError: row_sparse and csr.
        ValueError: what is no storage type.
    """
    if stype in ("row_sparse", "csr"):
        refuse_sparse(f"{what} of storage type {stype}")
    if stype not in (None, "default"):
        raise ValueError(f"unknown storage type{stype}")
