# SPDX-License-Identifier: Apache-2.0
"""Discrete Fourier transforms along the last axis; a complex number is two elements, real part first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ir.graph import Builder, Node, Params, Primitive
from ..ir.types import TensorType, tensor_type

__all__ = ["ROWS"]


def _infer(types: Sequence[TensorType], params: Params) -> TensorType:
    (x,) = types
    if not x.ndim or not x.dtype.is_float:
        raise TypeError(f"Fourier transform of {x!r}")
    return tensor_type((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)


def _infer_back(types: Sequence[TensorType], params: Params) -> TensorType:
    (x,) = types
    if not x.ndim or x.shape[-1] % 2 or not x.dtype.is_float:
        raise TypeError(f"complex numbers in {x!r}")
    return tensor_type((*x.shape[:-1], x.shape[-1] // 2), x.dtype)


def _evaluate(xp: Any, inputs: Sequence[Any], params: Params, out: TensorType) -> Any:
    spectrum = xp.fft.fft(inputs[0].astype(xp.float64)) if out.size else inputs[0].astype(xp.complex128)
    return xp.stack([spectrum.real, spectrum.imag], axis=-1).reshape(out.shape).astype(out.dtype.np)


def _evaluate_back(xp: Any, inputs: Sequence[Any], params: Params, out: TensorType) -> Any:
    """The real part of the inverse, not divided by the number of elements."""
    pairs = inputs[0].astype(xp.float64).reshape(*out.shape, 2)
    whole = pairs[..., 0] + 1j * pairs[..., 1]
    return (xp.fft.ifft(whole).real * out.shape[-1] if out.size else whole.real).astype(out.dtype.np)


def _vjp(b: Builder, g: Node, y: Node, inputs: Sequence[Node], params: Params) -> Sequence[Node | None]:
    return [b.inverse_fourier(g)]  # each is the transpose of the other


def _vjp_back(b: Builder, g: Node, y: Node, inputs: Sequence[Node], params: Params) -> Sequence[Node | None]:
    return [b.fourier(g)]


ROWS = [
    Primitive("fourier", "library", _infer, _evaluate, _vjp, doc="the transform of real numbers"),
    Primitive("inverse_fourier", "library", _infer_back, _evaluate_back, _vjp_back, doc="its transpose"),
]
