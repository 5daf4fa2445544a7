# SPDX-License-Identifier: Apache-2.0
"""``mx.io``: iterators over batches; below them, file formats and image decoding."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    # the iterators hand out NDArrays, so they stand above what reads files
    if name.startswith("__"):
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    if name == "ImageRecordIter":
        from ..image.records import ImageRecordIter

        return ImageRecordIter
    iterators = import_module(".iterators", __name__)
    if name not in iterators.__all__:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    value = globals()[name] = getattr(iterators, name)
    return value


def __dir__() -> list[str]:
    return sorted({*import_module(".iterators", __name__).__all__, "ImageRecordIter"})
