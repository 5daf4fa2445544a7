# SPDX-License-Identifier: Apache-2.0
"""Iterators over batches, for ``mx.mod`` and older training loops; users see them as ``mx.io``."""

from .arrays import NDArrayIter
from .base import DataBatch, DataDesc, DataIter
from .files import CSVIter, MNISTIter, MXDataIter
from .wrappers import PrefetchingIter, ResizeIter

__all__ = [
    "CSVIter",
    "DataBatch",
    "DataDesc",
    "DataIter",
    "MNISTIter",
    "MXDataIter",
    "NDArrayIter",
    "PrefetchingIter",
    "ResizeIter",
]
