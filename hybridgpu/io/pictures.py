# SPDX-License-Identifier: Apache-2.0
"""Pictures from files and from bytes: arrays as NumPy writes them, everything else by the package Pillow."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np

from ..base import MXNetError

__all__ = ["decode_picture", "read_picture"]

_NUMPY = b"\x93NUMPY"


def read_picture(file: str, flag: int = 1) -> Any:
    """(height, width, channels) of a picture file, as a NumPy array.

    Args:
        flag: 1 for colours (red, green, blue), 0 for grey.

    Raises:
        MXNetError: the file cannot be read, or the package Pillow is missing for its format.
    """
    try:
        data = Path(file).read_bytes()
    except OSError as e:
        raise MXNetError(f"Imread: Check failed: file.is_open(): '{file}' couldn't open file: {e.strerror}") from None
    return decode_picture(data, flag, str(file))


def decode_picture(data: bytes, flag: int = 1, name: str = "the buffer") -> Any:
    """As :func:`read_picture`, for the bytes of a file."""
    if data.startswith(_NUMPY):
        try:
            picture = np.load(io.BytesIO(data), allow_pickle=False)
        except (OSError, ValueError, EOFError, pickle.UnpicklingError) as e:
            raise MXNetError(f"{name} is no array file: {e}") from None
        return picture if picture.ndim == 3 else picture[..., None]
    if not data:
        raise MXNetError("Check failed: len > 0: Input cannot be an empty buffer")
    try:
        from PIL import Image, UnidentifiedImageError  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        raise MXNetError(f"{name} needs the package Pillow to be read\nInstall it with `pip install pillow`.") from None
    try:
        with Image.open(io.BytesIO(data)) as picture:
            found = np.asarray(picture.convert("RGB" if flag else "L"))
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError) as e:
        raise MXNetError(f"Check failed: !res.empty(): Decoding failed. Invalid image file. ({name}: {e})") from None
    return found if found.ndim == 3 else found[..., None]
