# SPDX-License-Identifier: Apache-2.0
"""``mx.allow_tf32``: lets cuBLASLt and cuDNN multiply float32 as TF32 on a GPU.

TF32 has the range of float32 and ten bits of mantissa: each operand of a product is rounded to it, relative error 2^-11 at
most, and sums are of float32. From compute capability 8.0 on tensor cores multiply it several times as fast.
"""

from __future__ import annotations

from ..base import MXNetError
from ..core.settings import set_tf32
from ..ndarray.apply import forget_graphs
from ..ndarray.binding_version import invalidate_bindings

__all__ = ["allow_tf32"]


class _Scope:
    """Undoes a setting at the end of a ``with``."""

    def __init__(self, before: bool | None) -> None:
        self._before = before

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        _set(self._before)


def allow_tf32(allowed: bool | None = True) -> _Scope:
    """Let matrix products and convolutions of float32 on a GPU round their operands to TF32, or forbid it.

    It holds for the whole process from now on, for arrays and for hybridized blocks, whose programs are other ones then; in a
    ``with`` until its end.

    Args:
        allowed: False forbids it in the numeric mode 'fast', too; None is the usual state, in which that mode does it unless
            HYBRIDGPU_TF32 says otherwise.

    Raises:
        MXNetError: ``allowed`` is something else.
    """
    if allowed is not None and not isinstance(allowed, bool):
        raise MXNetError(f"allow_tf32 takes True, False or None, not {allowed!r}")
    return _Scope(_set(allowed))


def _set(allowed: bool | None) -> bool | None:
    before = set_tf32(allowed)
    if before is not allowed:
        invalidate_bindings()  # prepared calls run programs that were made for the setting of before, …
        forget_graphs()  # … and so do eager kernels
    return before
