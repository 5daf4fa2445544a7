# SPDX-License-Identifier: Apache-2.0
# Made from records and definitions by `python docs/make_stubs.py`; do not edit.
"""Functions of ``mx.npx.image``."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias, overload

import numpy
from numpy.typing import ArrayLike

from hybridgpu.context import Context
from hybridgpu.ndarray.numpy.array import ndarray

_Array: TypeAlias = ndarray
_DType: TypeAlias = str | type[Any] | numpy.dtype[Any]
_Device: TypeAlias = Context | str

def adjust_lighting(data: _Array, alpha: float | Sequence[float], *, out: Any = None, name: str | None = None) -> _Array:
    """Light of the principal components added (AlexNet style)."""
def crop(data: _Array, x: int, y: int, width: int, height: int, *, out: Any = None, name: str | None = None) -> _Array:
    """A rectangle of the picture."""
def flip_left_right(data: _Array, *, out: Any = None, name: str | None = None) -> _Array:
    """Mirrored."""
def flip_top_bottom(data: _Array, *, out: Any = None, name: str | None = None) -> _Array:
    """Upside down."""
def normalize(data: _Array, mean: float | Sequence[float] = (0.0,), std: float | Sequence[float] = (1.0,), *, out: Any = None, name: str | None = None) -> _Array:
    """(x - mean) / std, channels first."""
def random_brightness(data: _Array, min_factor: float, max_factor: float, *, out: Any = None, name: str | None = None) -> _Array:
    """Multiplied by a random factor."""
def random_color_jitter(data: _Array, brightness: float, contrast: float, saturation: float, hue: float, *, out: Any = None, name: str | None = None) -> _Array:
    """Brightness, contrast, saturation and hue changed by random factors in 1 +- the given ones."""
def random_contrast(data: _Array, min_factor: float, max_factor: float, *, out: Any = None, name: str | None = None) -> _Array:
    """Drawn towards or away from the mean grey by a random factor."""
def random_flip_left_right(data: _Array, *, out: Any = None, name: str | None = None) -> _Array:
    """Mirrored in half of the calls."""
def random_flip_top_bottom(data: _Array, *, out: Any = None, name: str | None = None) -> _Array:
    """Upside down in half of the calls."""
def random_hue(data: _Array, min_factor: float, max_factor: float, *, out: Any = None, name: str | None = None) -> _Array:
    """Colours turned by a random factor."""
def random_lighting(data: _Array, alpha_std: float = 0.05, *, out: Any = None, name: str | None = None) -> _Array:
    """Light of normally distributed strength added."""
def random_saturation(data: _Array, min_factor: float, max_factor: float, *, out: Any = None, name: str | None = None) -> _Array:
    """Drawn towards or away from its greys by a random factor."""
def resize(data: _Array, size: int | Sequence[int] = (), keep_ratio: bool = False, interp: int = 1, *, out: Any = None, name: str | None = None) -> _Array:
    """Another size, in one of OpenCV's ways: pixel centres are at halves; bytes are right to the last bit bilinearly, else to one."""
def to_tensor(data: _Array, *, out: Any = None, name: str | None = None) -> _Array:
    """Channels first, float32, divided by 255."""
def __getattr__(name: str) -> Any: ...
