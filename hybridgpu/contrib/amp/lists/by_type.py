# SPDX-License-Identifier: Apache-2.0
"""The lists of operators of a narrow type, float16 or bfloat16."""

from __future__ import annotations

from typing import Any

from ....core.dtypes import DType, bf16, dtype_of, f16, f32
from . import symbol_bf16, symbol_fp16

__all__ = [
    "list_conditional_fp32_ops",
    "list_fp32_ops",
    "list_loss_output_functions",
    "list_lp16_fp32_ops",
    "list_lp16_ops",
    "list_lp16_use_fp32_params",
    "list_widest_type_cast",
    "narrow_type",
]


def narrow_type(target_dtype: Any) -> DType:
    """float16 or bfloat16.

    Raises:
        AssertionError: another type.
    """
    try:
        dtype = dtype_of(target_dtype)
    except TypeError:
        dtype = f32
    assert dtype in (f16, bf16), "not supported type"
    return dtype


def list_lp16_ops(target_dtype: Any) -> list[str]:
    """Operators that compute in the narrow type."""
    return symbol_fp16.FP16_FUNCS if narrow_type(target_dtype) is f16 else symbol_bf16.BF16_FUNCS


def list_fp32_ops(target_dtype: Any) -> list[str]:
    """Operators that compute in float32."""
    return symbol_fp16.FP32_FUNCS if narrow_type(target_dtype) is f16 else symbol_bf16.FP32_FUNCS


def list_lp16_fp32_ops(target_dtype: Any) -> list[str]:
    """Operators that compute in the type that they are given."""
    return symbol_fp16.FP16_FP32_FUNCS if narrow_type(target_dtype) is f16 else symbol_bf16.BF16_FP32_FUNCS


def list_conditional_fp32_ops(target_dtype: Any) -> list[tuple[str, str, list[str]]]:
    """Operators that compute in float32 where an attribute has one of some values."""
    narrow = narrow_type(target_dtype)
    return symbol_fp16.CONDITIONAL_FP32_FUNCS if narrow is f16 else symbol_bf16.CONDITIONAL_FP32_FUNCS


def list_widest_type_cast(target_dtype: Any) -> list[str]:
    """Operators that compute in the widest type of their inputs."""
    narrow = narrow_type(target_dtype)
    return symbol_fp16.WIDEST_TYPE_CASTS if narrow is f16 else symbol_bf16.WIDEST_TYPE_CASTS


def list_loss_output_functions(target_dtype: Any) -> list[str]:
    """Losses that give a gradient of their own."""
    narrow = narrow_type(target_dtype)
    return symbol_fp16.LOSS_OUTPUT_FUNCTIONS if narrow is f16 else symbol_bf16.LOSS_OUTPUT_FUNCTIONS


def list_lp16_use_fp32_params(target_dtype: Any) -> dict[str, list[str]] | None:
    """Inputs that stay float32 in operators that compute in bfloat16; None for float16."""
    return None if narrow_type(target_dtype) is f16 else symbol_bf16.BF16_USE_FP32_PARAMS
