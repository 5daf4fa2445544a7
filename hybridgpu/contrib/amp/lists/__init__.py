# SPDX-License-Identifier: Apache-2.0
"""Which operators automatic mixed precision computes in which type: one module a narrow type."""

from __future__ import annotations

from . import symbol_bf16, symbol_fp16

__all__ = ["symbol_bf16", "symbol_fp16"]
