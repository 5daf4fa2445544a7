# SPDX-License-Identifier: Apache-2.0
"""Image decoding from files and bytes: ``.npy`` by NumPy, every other format by Pillow."""

from __future__ import annotations

import io
import logging
import pickle
from pathlib import Path
from typing import Any

import numpy as np

from ..base import MXNetError

__all__ = ["decode_picture", "encode_picture", "read_picture"]

_NUMPY = b"\x93NUMPY"
_PNG_GREY = np.array([9797, 19234, 3737], np.int32)  #: libpng's weights of red, green, blue, in 1/32768


def read_picture(file: str, flag: int = 1) -> Any:
    """(height, width, channels) of an image file, as a NumPy array.

    Args:
        flag: 1 for colours (red, green, blue), 0 for grey, -1 for what the file has.

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
    pillow = _pillow(f"{name} needs the package Pillow to be read")
    try:
        with pillow.open(io.BytesIO(data)) as picture:
            grey = flag == 0 or (flag < 0 and picture.mode in ("1", "L"))
            pixels = _grey(picture) if grey else _colours(picture)
    except (OSError, SyntaxError, ValueError) as e:  # an unknown format is an OSError
        raise MXNetError(f"Check failed: !res.empty(): Decoding failed. Invalid image file. ({name}: {e})") from None
    return pixels if pixels.ndim == 3 else pixels[..., None]


def _colours(picture: Any) -> Any:
    if picture.mode.startswith("I;16"):
        return np.repeat(_high_bytes(picture)[..., None], 3, axis=2)
    return np.asarray(picture.convert("RGB"))


def _grey(picture: Any) -> Any:
    """(height, width), as MXNet's decoders make grey of colours; Pillow rounds otherwise."""
    if picture.mode.startswith("I;16"):
        return _high_bytes(picture)
    if picture.format == "PNG" and picture.mode not in ("1", "L", "LA"):
        return (np.asarray(picture.convert("RGB")) @ _PNG_GREY >> 15).astype(np.uint8)
    if picture.format == "JPEG":
        picture.draft("L", None)  # the file's own luma, without the way over colours
    return np.asarray(picture.convert("L"))


def _high_bytes(picture: Any) -> Any:
    return (np.asarray(picture) >> 8).astype(np.uint8)


def encode_picture(picture: Any, form: str = ".jpg", quality: int = 95) -> bytes:
    """The bytes of a file, from (height, width) or (height, width, 3), uint8.

    Args:
        form: '.jpg', '.png', or '.npy', which needs no package.
        quality: of JPEG, 1 to 100; of PNG the effort, 0 to 9.

    Raises:
        MXNetError: another form, or the package Pillow is missing.
    """
    file = io.BytesIO()
    if form.lower() == ".npy":
        np.save(file, picture)
        return file.getvalue()
    options: dict[str, dict[str, Any]] = {
        ".jpg": {"format": "JPEG", "quality": quality},
        ".jpeg": {"format": "JPEG", "quality": quality},
        ".png": {"format": "PNG", "compress_level": min(quality, 9)},
    }
    if form.lower() not in options:
        raise MXNetError(f"failed to encode image: {form} is no known form\nTake one of {', '.join(options)} or .npy.")
    pillow = _pillow("an image needs the package Pillow to be written")
    pillow.fromarray(np.ascontiguousarray(picture)).save(file, **options[form.lower()])
    return file.getvalue()


def _pillow(reason: str) -> Any:
    """Raises: MXNetError: the package is missing."""
    try:
        from PIL import Image  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        raise MXNetError(f"{reason}\nInstall it with `pip install pillow`.") from None
    log = logging.getLogger("PIL")
    if log.level == logging.NOTSET:
        log.setLevel(logging.INFO)  # or it lists the parts of each PNG to a program that logs its own DEBUG
    return Image
